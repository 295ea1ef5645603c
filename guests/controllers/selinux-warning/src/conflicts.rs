//! Compares the pods that use a volume.
//!
//! Upstream: pkg/controller/volume/selinuxwarning/cache/conflict.go: EventMessage.
//! Upstream: pkg/controller/volume/selinuxwarning/cache/volumecache.go: AddVolume, GetConflicts.
//! Upstream: pkg/controller/volume/selinuxwarning/translator/selinux_translator.go: ConflictsParsed.
//! Upstream: pkg/controller/volume/selinuxwarning/internal/parse/selinux_label.go: ParseSELinuxLabel.
//! Upstream: pkg/controller/volume/selinuxwarning/metrics.go: CollectWithStability.

use std::collections::BTreeSet;

use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The gauge of conflicts: 1 for each conflict in each direction. A conflict that is over is set to 0.
pub(crate) const CONFLICTS: &str = "selinux_warning_controller_selinux_volume_conflict";
/// The part of a label that nodes have no default for.
const LEVEL: usize = 3;

/// A pod that uses a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    /// The key of the pod.
    pub(crate) pod: String,
    pub(crate) label: String,
    /// The policy by which nodes label the volume.
    pub(crate) policy: String,
}

/// The property of pods in which they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Property {
    Policy,
    Label,
}

impl Property {
    fn name(self) -> &'static str {
        match self {
            Self::Policy => "SELinuxChangePolicy",
            Self::Label => "SELinuxLabel",
        }
    }
}

/// A pod that can't use a volume on one node with another pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Conflict {
    property: Property,
    pub(crate) pod: Key,
    value: String,
    other: Key,
    other_value: String,
}

impl Conflict {
    fn of(property: Property, pod: &User, other: &User) -> Self {
        let value = |user: &User| match property {
            Property::Policy => user.policy.clone(),
            Property::Label => user.label.clone(),
        };
        Self {
            property,
            pod: Key::parse(&pod.pod),
            value: value(pod),
            other: Key::parse(&other.pod),
            other_value: value(other),
        }
    }

    /// The reason of the event about the pod.
    pub(crate) fn reason(&self) -> &'static str {
        match self.property {
            Property::Policy => "SELinuxChangePolicyConflict",
            Property::Label => "SELinuxLabelConflict",
        }
    }

    /// The message of the event about the pod. It does not name pods of other namespaces.
    pub(crate) fn message(&self) -> String {
        let Self {
            value, other_value, ..
        } = self;
        let (property, other) = (self.property.name(), &self.other.name);
        if self.pod.namespace == self.other.namespace {
            return format!(
                "{property} \"{value}\" conflicts with pod {other} that uses the same volume as this pod with {property} \
                 \"{other_value}\". If both pods land on the same node, only one of them may access the volume."
            );
        }
        // kube-controller-manager's message lacks the blank after the property, too.
        format!(
            "{property}\"{value}\" conflicts with another pod that uses the same volume as this pod with a different \
             {property}. If both pods land on the same node, only one of them may access the volume."
        )
    }

    /// The labels of its series in the gauge.
    fn labels(&self) -> [&str; 7] {
        [
            self.property.name(),
            &self.pod.namespace,
            &self.pod.name,
            &self.value,
            &self.other.namespace,
            &self.other.name,
            &self.other_value,
        ]
    }
}

/// Returns the conflicts of two pods that use a volume, in both directions.
pub(crate) fn between(one: &User, other: &User) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    let mut add = |property| {
        conflicts.push(Conflict::of(property, one, other));
        conflicts.push(Conflict::of(property, other, one));
    };
    if one.policy != other.policy {
        add(Property::Policy);
    }
    if labels_conflict(&one.label, &other.label) {
        add(Property::Label);
    }
    conflicts
}

/// Whether two labels differ for certain. A node may fill in an empty user, role or type with the other label's, but
/// never an empty level.
fn labels_conflict(one: &str, other: &str) -> bool {
    let (one, other) = (parts(one), parts(other));
    (0..=LEVEL).any(|part| {
        let is_filled_in = part != LEVEL && (one[part].is_empty() || other[part].is_empty());
        one[part] != other[part] && !is_filled_in
    })
}

/// Returns the user, the role, the type and the level of a label. Only a level may contain colons.
fn parts(label: &str) -> [&str; LEVEL + 1] {
    let mut parts = [""; LEVEL + 1];
    for (at, part) in label.splitn(LEVEL + 1, ':').enumerate() {
        parts[at] = part;
    }
    parts
}

/// Updates the gauge, given the conflicts of a pod before and after a reconcile.
pub(crate) fn count(host: &Host, before: &BTreeSet<Conflict>, after: &BTreeSet<Conflict>) {
    for (conflicts, value) in [
        (before.difference(after), 0.0),
        (after.difference(before), 1.0),
    ] {
        for conflict in conflicts {
            host.metrics().set(CONFLICTS, &conflict.labels(), value);
        }
    }
}
