//! The slices to create, update and delete so that they mirror Endpoints: one for each group.
//!
//! Upstream: pkg/controller/endpointslicemirroring/reconciler.go: reconcile, reconcileByPortMapping, finalize,
//! endpointSlicesByKey, totalChanges, needRebuildExistingSlices.
//! Upstream: pkg/controller/endpointslicemirroring/reconciler_helpers.go: recycleSlices.
//! Upstream: pkg/controller/endpointslicemirroring/utils.go: newEndpointSlice, getEndpointSlicePrefix,
//! cloneAndRemoveKeys.

use std::collections::BTreeMap;

use flyball_sdk::StringMap;
use flyball_sdk::prelude::*;
use flyball_service_endpoints::ip::Family;
use flyball_service_endpoints::slice::{self, PortKey, Slice, with_reserved};
use flyball_service_endpoints::subsets::Endpoints;
use flyball_service_endpoints::trigger;
use flyball_service_endpoints::write::{self, Content, Writes};

use crate::desired::{Desired, Group, GroupKey};

/// The value of the label with which a slice names its controller.
pub const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// The annotation with the last configuration of `kubectl apply`. It is not mirrored.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The changes of the slices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub create: Vec<(Family, Group)>,
    /// Slices with their new content.
    pub update: Vec<(Slice, Family, Group)>,
    /// Slices that are reused for another group.
    pub recycle: Vec<(Slice, Family, Group)>,
    pub delete: Vec<Slice>,
    /// Number of endpoints that were in no slice.
    pub added: usize,
    /// Number of endpoints that change.
    pub updated: usize,
    /// Number of endpoints that leave a slice.
    pub removed: usize,
}

/// Plans the slices. A slice that is to be deleted becomes one of the same family that is to be created, if there is
/// one.
pub fn plan(endpoints: &Endpoints, slices: Vec<Slice>, desired: Desired) -> Plan {
    let mut plan = Plan::default();
    let (mut existing, mut obsolete) = by_group(slices);
    for (key, group) in desired.groups {
        let slices = existing.remove(&key).unwrap_or_default();
        plan.add(endpoints, key.0, group, slices);
    }
    plan.delete.extend(existing.into_values().flatten());
    plan.delete.append(&mut obsolete);
    plan.recycle();
    plan
}

/// Returns the slices by group, and the slices of other address types.
fn by_group(slices: Vec<Slice>) -> (BTreeMap<GroupKey, Vec<Slice>>, Vec<Slice>) {
    let (mut groups, mut others): (BTreeMap<GroupKey, Vec<Slice>>, Vec<Slice>) = Default::default();
    for slice in slices {
        match Family::named(&slice.address_type) {
            Some(family) => {
                let key = (family, PortKey::of(&slice.ports));
                groups.entry(key).or_default().push(slice);
            }
            None => others.push(slice),
        }
    }
    (groups, others)
}

impl Plan {
    /// Adds a group. The first of its slices stays.
    fn add(&mut self, endpoints: &Endpoints, family: Family, group: Group, slices: Vec<Slice>) {
        if group.endpoints.is_empty() {
            let lengths = slices.iter().map(|slice| slice.endpoints.len());
            self.removed += lengths.sum::<usize>();
            self.delete.extend(slices);
            return;
        }
        let mut slices = slices.into_iter();
        let first = slices.next();
        self.delete.extend(slices);
        match first {
            None => {
                self.added += group.endpoints.len();
                self.create.push((family, group));
            }
            Some(slice) => {
                if self.count(&slice, &group) || !has_metadata_of(&slice, endpoints) {
                    self.update.push((slice, family, group));
                }
            }
        }
    }

    /// Counts the differences between a slice and a group, and returns whether there are any.
    fn count(&mut self, slice: &Slice, group: &Group) -> bool {
        let desired = slice::Desired::of(group.endpoints.clone());
        let positions = desired.positions(std::slice::from_ref(slice));
        let (mut kept, mut updated) = (0, 0);
        for (endpoint, at) in slice.endpoints.iter().zip(positions.into_iter().flatten()) {
            let Some(at) = at else { continue };
            kept += 1;
            updated += usize::from(desired.get(at).differs(endpoint));
        }
        let (added, removed) = (desired.len() - kept, slice.endpoints.len() - kept);
        self.added += added;
        self.updated += updated;
        self.removed += removed;
        added + updated + removed > 0
    }

    fn recycle(&mut self) {
        let mut created = Vec::new();
        for (family, group) in std::mem::take(&mut self.create) {
            let is_of_family = |slice: &Slice| slice.address_type == family.as_str();
            match self.delete.iter().position(is_of_family) {
                Some(at) => {
                    let slice = self.delete.remove(at);
                    self.recycle.push((slice, family, group));
                }
                None => created.push((family, group)),
            }
        }
        self.create = created;
    }
}

/// Whether a slice has the labels, the annotations and the owner that it should have.
fn has_metadata_of(slice: &Slice, endpoints: &Endpoints) -> bool {
    let is_older = |owner: &OwnerReference| {
        owner.kind == "Endpoints"
            && owner.name == endpoints.meta.name
            && owner.uid != endpoints.meta.uid
    };
    slice.meta.labels == labels(endpoints)
        && slice.meta.annotations == annotations(endpoints)
        && !slice.meta.owner_references.iter().any(is_older)
}

fn labels(endpoints: &Endpoints) -> StringMap {
    with_reserved(&endpoints.meta.labels, &endpoints.meta.name, MANAGER)
}

fn annotations(endpoints: &Endpoints) -> StringMap {
    let mut annotations = endpoints.meta.annotations.clone();
    annotations.remove(trigger::ANNOTATION);
    annotations.remove(LAST_APPLIED);
    annotations
}

/// The writes of a plan. Endpoints that are being deleted get no new slice.
pub fn writes(endpoints: &Endpoints, plan: Plan) -> Writes {
    let content = |family: Family, group: Group| Content {
        labels: labels(endpoints),
        annotations: annotations(endpoints),
        owner: endpoints.meta.controller_reference(Endpoints::KIND),
        address_type: family.as_str().into(),
        ports: group.ports,
        endpoints: slice::Desired::of(group.endpoints).into_rest(),
    };
    let Meta {
        name, namespace, ..
    } = &endpoints.meta;
    let create = (plan.create.into_iter())
        .filter(|_| !endpoints.meta.is_deleting())
        .map(|(family, group)| write::create(namespace, name, &content(family, group)));
    let update = (plan.update.into_iter())
        .map(|(slice, family, group)| write::replace(&slice, None, &content(family, group)));
    // kube-controller-manager writes the prefix of the name for slices that it would have created, and removes it from
    // others.
    let prefix = slice::generate_name(name);
    let recycle = (plan.recycle.into_iter()).map(|(slice, family, group)| {
        write::replace(&slice, Some(&prefix), &content(family, group))
    });
    let delete = (plan.delete.iter()).map(|slice| Write::delete_exactly(Slice::KIND, &slice.meta));
    Writes {
        create: create.collect(),
        update: update.chain(recycle).collect(),
        delete: delete.collect(),
    }
}
