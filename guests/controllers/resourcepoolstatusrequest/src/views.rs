//! The fields that the controller reads.

use std::collections::BTreeMap;

use flyball_sdk::meta::null_is_default;
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
    /// The attribute of devices that names their type, for slices that name none.
    #[view(path = "spec.defaultPartitionTypeAttribute")]
    pub(crate) partition_attribute: String,
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
    /// The attribute of the devices that names their type; empty if the slice names none.
    #[view(path = "spec.partitionTypeAttribute")]
    pub(crate) partition_attribute: String,
    #[view(path = "spec.sharedCounters")]
    pub(crate) shared_counters: Vec<CounterSet>,
    #[view(
        path = "spec.devices",
        fields(
            "[*].name",
            "[*].attributes",
            "[*].capacity",
            "[*].consumesCounters",
            "[*].taints[*].effect",
            "[*].allowMultipleAllocations"
        )
    )]
    pub(crate) devices: Vec<Device>,
}

/// A device of a slice.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Device {
    pub(crate) name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) attributes: BTreeMap<String, Attribute>,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) capacity: BTreeMap<String, Amount>,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) consumes_counters: Vec<Consumption>,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) taints: Vec<Taint>,
    #[serde(
        rename = "allowMultipleAllocations",
        deserialize_with = "null_is_default"
    )]
    pub(crate) is_shareable: bool,
}

impl Device {
    /// What the device costs: counter sets, counters and amounts.
    pub(crate) fn costs(&self) -> impl Iterator<Item = (&str, &str, Quantity)> {
        self.consumes_counters.iter().flat_map(|consumed| {
            let set = consumed.counter_set.as_str();
            let counters = consumed.counters.iter();
            counters.map(move |(name, amount)| (set, name.as_str(), amount.value))
        })
    }
}

/// The value of an attribute of a device, if it is a string.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Attribute {
    pub(crate) string: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Amount {
    pub(crate) value: Quantity,
}

/// Counters that the devices of a pool share.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct CounterSet {
    pub(crate) name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) counters: BTreeMap<String, Amount>,
}

/// The counters of a set that an allocated device takes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Consumption {
    pub(crate) counter_set: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) counters: BTreeMap<String, Amount>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Taint {
    pub(crate) effect: String,
}

/// A DeviceTaintRule.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/DeviceTaintRule")]
pub(crate) struct Rule {
    /// `None` selects nothing.
    #[view(path = "spec.deviceSelector", fields("driver", "pool", "device"))]
    pub(crate) selector: Option<Selector>,
    #[view(path = "spec.taint.effect")]
    pub(crate) effect: String,
}

/// The devices that a rule selects: all that have what it names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Selector {
    pub(crate) driver: Option<String>,
    pub(crate) pool: Option<String>,
    pub(crate) device: Option<String>,
}

impl Rule {
    pub(crate) fn selects(&self, driver: &str, pool: &str, device: &str) -> bool {
        let is = |own: &Option<String>, other: &str| own.as_deref().is_none_or(|own| own == other);
        self.selector.as_ref().is_some_and(|selector| {
            is(&selector.driver, driver) && is(&selector.pool, pool) && is(&selector.device, device)
        })
    }
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
        fields(
            "[*].driver",
            "[*].pool",
            "[*].device",
            "[*].adminAccess",
            "[*].consumedCapacity"
        )
    )]
    pub(crate) devices: Vec<Allocated>,
}

/// An allocated device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Allocated {
    pub(crate) driver: String,
    pub(crate) pool: String,
    pub(crate) device: String,
    /// Whether the claim only observes the device.
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) admin_access: bool,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) consumed_capacity: BTreeMap<String, Quantity>,
}
