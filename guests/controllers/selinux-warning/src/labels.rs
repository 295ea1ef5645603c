//! The SELinux labels with which a pod's containers mount its volumes.
//!
//! Upstream: pkg/volume/util/util.go: GetPodVolumeNames.
//! Upstream: pkg/volume/util/selinux.go: GetMountSELinuxLabel.
//! Upstream: pkg/securitycontext/util.go: DetermineEffectiveSecurityContext.
//! Upstream: pkg/controller/volume/selinuxwarning/translator/selinux_translator.go: SELinuxOptionsToFileLabel.

use std::collections::{BTreeMap, BTreeSet};

use crate::views::{Container, Options, Pod};

/// A volume of a pod that containers mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The name of the volume in the pod.
    pub(crate) volume: String,
    /// The labels of the containers that have one.
    pub(crate) labels: BTreeSet<String>,
}

impl Mount {
    /// Returns the label that all containers have, which is empty if none has one; `None` if labels differ.
    pub(crate) fn label(&self) -> Option<&str> {
        match self.labels.len() {
            0 => Some(""),
            1 => self.labels.first().map(String::as_str),
            _ => None,
        }
    }
}

impl Options {
    /// Returns the parts as a label. Missing ones stay empty: their defaults are on the nodes. Options without any part
    /// are no label.
    pub(crate) fn label(&self) -> String {
        match format!("{}:{}:{}:{}", self.user, self.role, self.kind, self.level) {
            empty if empty == ":::" => String::new(),
            label => label,
        }
    }
}

impl Pod {
    /// Returns the volumes that containers mount, in the order of their names.
    pub(crate) fn mounts(&self) -> Vec<Mount> {
        let mut mounts: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let containers = [
            &self.containers,
            &self.init_containers,
            &self.ephemeral_containers,
        ];
        for container in containers.into_iter().flatten() {
            let label = self.options_of(container).map(Options::label);
            for mount in container.volume_mounts.iter().flatten() {
                let labels = mounts.entry(&mount.name).or_default();
                labels.extend(label.clone());
            }
        }
        let mount = |(volume, labels): (&str, _)| Mount {
            volume: volume.to_owned(),
            labels,
        };
        mounts.into_iter().map(mount).collect()
    }

    /// The options of a container: its own ones, or else those of the pod.
    fn options_of<'a>(&'a self, container: &'a Container) -> Option<&'a Options> {
        let own = container.security_context.as_ref();
        own.and_then(|security| security.options.as_ref())
            .or(self.security.options.as_ref())
    }
}
