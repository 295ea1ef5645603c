//! The feature gates that the controller reads.

pub(crate) use flyball_device_claims::POD_GROUPS_GATE as POD_GROUPS;
use flyball_sdk::prelude::*;

pub(crate) const ADMIN_ACCESS: &str = "DRAAdminAccess";
pub(crate) const PRIORITIZED_LIST: &str = "DRAPrioritizedList";

/// The feature gates that are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gates {
    /// Whether templates may ask for administrative access to devices.
    pub(crate) admin_access: bool,
    /// Whether templates may list alternative devices.
    pub(crate) prioritized_list: bool,
    /// Whether PodGroups have claims.
    pub(crate) pod_groups: bool,
}

impl Gates {
    pub(crate) fn read(host: &Host) -> Self {
        Self {
            admin_access: host.feature_enabled(ADMIN_ACCESS),
            prioritized_list: host.feature_enabled(PRIORITIZED_LIST),
            pod_groups: host.feature_enabled(POD_GROUPS),
        }
    }
}
