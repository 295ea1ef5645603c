//! The fields that the controller reads.

use flyball_sdk::prelude::*;
use serde::Deserialize;

/// The indexes of slices, and of claims by their allocated devices.
pub(crate) const BY_DRIVER: &str = "driver";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "resource.k8s.io/v1alpha3/ResourcePoolStatusRequest")]
pub(crate) struct PoolsRequest {
    #[view(path = "metadata", fields("creationTimestamp"))]
    pub(crate) meta: Meta,
    #[view(path = "spec.driver")]
    pub(crate) driver: String,
    /// The only pool that the request is about; empty for all.
    #[view(path = "spec.poolName")]
    pub(crate) pool: String,
    /// The maximum number of pools in the answer.
    #[view(path = "spec.limit")]
    pub(crate) limit: Option<i32>,
    /// Null until the request is answered.
    #[view(path = "status")]
    pub(crate) status: Raw,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/ResourceSlice")]
pub(crate) struct Slice {
    #[view(path = "spec.driver")]
    pub(crate) driver: String,
    #[view(path = "spec.pool", fields("name", "generation", "resourceSliceCount"))]
    pub(crate) pool: Pool,
    #[view(path = "spec.nodeName")]
    pub(crate) node: String,
    /// The names of the devices.
    #[view(path = "spec.devices[*].name")]
    pub(crate) devices: Vec<String>,
}

/// The pool of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Pool {
    pub(crate) name: String,
    /// Slices of an older generation than others of the pool are out of date.
    pub(crate) generation: i64,
    /// The number of slices of the pool at this generation.
    pub(crate) resource_slice_count: i64,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/ResourceClaim")]
pub(crate) struct Claim {
    /// The allocated devices.
    #[view(
        path = "status.allocation.devices.results",
        fields("[*].driver", "[*].pool")
    )]
    pub(crate) devices: Vec<Device>,
}

/// An allocated device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Device {
    pub(crate) driver: String,
    pub(crate) pool: String,
}
