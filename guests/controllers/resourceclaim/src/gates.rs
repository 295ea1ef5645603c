//! The feature gates that the controller reads.

pub(crate) use flyball_device_claims::POD_GROUPS_GATE as POD_GROUPS;
use flyball_sdk::prelude::*;

pub(crate) const ADMIN_ACCESS: &str = "DRAAdminAccess";
pub(crate) const PRIORITIZED_LIST: &str = "DRAPrioritizedList";
pub(crate) const WORKLOADS: &str = "GenericWorkload";

/// The feature gates that are on, and the emulated release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gates {
    /// Whether templates may ask for administrative access to devices.
    pub(crate) admin_access: bool,
    /// Whether templates may list alternative devices.
    pub(crate) prioritized_list: bool,
    /// Whether PodGroups have claims.
    pub(crate) pod_groups: bool,
    /// Whether there are PodGroups. Before Kubernetes 1.37, it did not matter.
    pub(crate) workloads: bool,
    /// Whether the emulated release is Kubernetes 1.37 or later.
    pub(crate) since_1_37: bool,
}

impl Gates {
    /// Whether PodGroups are read.
    pub(crate) fn reads_groups(self) -> bool {
        self.pod_groups || self.since_1_37 && self.workloads
    }

    pub(crate) fn read(host: &Host) -> Self {
        Self {
            admin_access: host.feature_enabled(ADMIN_ACCESS),
            prioritized_list: host.feature_enabled(PRIORITIZED_LIST),
            pod_groups: host.feature_enabled(POD_GROUPS),
            workloads: host.feature_enabled(WORKLOADS),
            since_1_37: host.release_at_least(37),
        }
    }
}
