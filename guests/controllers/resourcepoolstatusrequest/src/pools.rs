//! Counts the devices of each pool.
//!
//! Upstream: pkg/controller/resourcepoolstatusrequest/controller.go: calculatePoolStatus.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;

use crate::views::{Claim, PoolsRequest, Slice};

/// The maximum number of pools in an answer if the request has none.
const DEFAULT_LIMIT: i32 = 100;

/// A pool of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pool<'a> {
    pub(crate) name: &'a str,
    pub(crate) generation: i64,
    /// The node of all slices; `None` if they have different ones or none.
    pub(crate) node: Option<&'a str>,
    /// The number of slices, and of those that there should be.
    pub(crate) slices: i32,
    pub(crate) expected_slices: i64,
    pub(crate) devices: i32,
    pub(crate) allocated: i32,
}

impl Pool<'_> {
    fn is_complete(&self) -> bool {
        i64::from(self.slices) >= self.expected_slices
    }

    /// The entry of the pool in a status.
    fn entry(&self, driver: &str) -> Value {
        let mut entry = json!({
            "driver": driver,
            "poolName": self.name,
            "generation": self.generation,
            "resourceSliceCount": self.slices,
            "totalDevices": self.devices,
            "allocatedDevices": self.allocated,
            "availableDevices": self.devices.saturating_sub(self.allocated).max(0),
            // kube-controller-manager does not look at the conditions of devices yet.
            "unavailableDevices": 0,
        });
        if let Some(node) = self.node {
            entry["nodeName"] = node.into();
        }
        entry
    }
}

/// Returns the pools that a request is about, in the order of their names.
pub(crate) fn of_driver<'a>(
    request: &PoolsRequest,
    slices: &'a [Slice],
    claims: &[Claim],
) -> Vec<Pool<'a>> {
    let is_asked_for = |slice: &&Slice| {
        let is_pool = request.pool.is_empty() || slice.pool.name == request.pool;
        slice.driver == request.driver && is_pool
    };
    let mut by_name: BTreeMap<&str, Vec<&Slice>> = BTreeMap::new();
    for slice in slices.iter().filter(is_asked_for) {
        by_name.entry(&slice.pool.name).or_default().push(slice);
    }
    let allocated = allocations(&request.driver, claims);
    let pool = |(name, slices)| Pool {
        allocated: allocated.get(name).copied().unwrap_or_default(),
        ..of_slices(name, slices)
    };
    by_name.into_iter().map(pool).collect()
}

/// Joins the slices of a pool that have the newest generation.
fn of_slices<'a>(name: &'a str, mut slices: Vec<&'a Slice>) -> Pool<'a> {
    let newest = slices.iter().map(|slice| slice.pool.generation).max();
    let generation = newest.unwrap_or_default();
    slices.retain(|slice| slice.pool.generation == generation);
    let first = slices.first().map(|slice| slice.node.as_str());
    let is_of_one_node = slices
        .iter()
        .all(|slice| Some(slice.node.as_str()) == first);
    let devices: usize = slices.iter().map(|slice| slice.devices.len()).sum();
    Pool {
        name,
        generation,
        node: first.filter(|node| is_of_one_node && !node.is_empty()),
        slices: slices.len().try_into().unwrap_or(i32::MAX),
        expected_slices: slices
            .first()
            .map_or(0, |slice| slice.pool.resource_slice_count),
        devices: devices.try_into().unwrap_or(i32::MAX),
        allocated: 0,
    }
}

/// Counts the allocated devices of a driver by pool.
fn allocations<'a>(driver: &str, claims: &'a [Claim]) -> BTreeMap<&'a str, i32> {
    let mut counts = BTreeMap::new();
    let devices = claims.iter().flat_map(|claim| &claim.devices);
    for device in devices.filter(|device| device.driver == driver) {
        *counts.entry(device.pool.as_str()).or_default() += 1;
    }
    counts
}

/// Returns the status that answers a request.
///
/// # Errors
/// A pool in the answer lacks slices, which its driver may yet publish.
pub(crate) fn status(
    request: &PoolsRequest,
    mut pools: Vec<Pool>,
    now: Time,
) -> Result<Value, String> {
    let count = pools.len();
    let limit = request.limit.unwrap_or(DEFAULT_LIMIT);
    pools.truncate(limit.try_into().unwrap_or_default());
    if let Some(pool) = pools.iter().find(|pool| !pool.is_complete()) {
        let Pool {
            name,
            slices,
            expected_slices,
            ..
        } = pool;
        return Err(format!(
            "the pool {name} has {slices} of {expected_slices} slices"
        ));
    }
    let complete = Condition {
        last_transition_time: Some(now.to_second()),
        ..Condition::new(
            "Complete",
            "True",
            "CalculationComplete",
            &format!("Calculated status for {} pools", pools.len()),
        )
    };
    let mut status = json!({"poolCount": count, "conditions": [complete]});
    if !pools.is_empty() {
        let entries = pools.iter().map(|pool| pool.entry(&request.driver));
        status["pools"] = entries.collect();
    }
    Ok(status)
}
