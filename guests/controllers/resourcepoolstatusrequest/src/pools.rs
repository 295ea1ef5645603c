//! Counts the devices of each pool.
//!
//! Before Kubernetes 1.37, each allocation counted as a device, no device was unavailable, and there were no summaries of
//! partitions and shareable devices.
//!
//! Upstream: pkg/controller/resourcepoolstatusrequest/controller.go: calculatePoolStatus, deviceUnavailable,
//! hasUnavailableTaint, ruleMakesDeviceUnavailable.
//! Upstream: pkg/controller/resourcepoolstatusrequest/views.go: computePoolViews.

use std::collections::{BTreeMap, BTreeSet};

use flyball_sdk::prelude::*;

use crate::partitions::{self, OfSlice};
use crate::shareable::{self, Amounts};
use crate::views::{Claim, Device, PoolsRequest, Rule, Slice};

/// The maximum number of pools in an answer if the request has none.
const DEFAULT_LIMIT: i32 = 100;
/// The longest error of a pool in bytes.
const LONGEST_ERROR: usize = 256;

/// The objects that an answer is computed from.
pub(crate) struct Inputs<'a> {
    pub(crate) slices: &'a [Slice],
    pub(crate) claims: &'a [Claim],
    /// The DeviceTaintRules of all drivers.
    pub(crate) rules: &'a [Rule],
    /// Whether the emulated release is Kubernetes 1.37 or later.
    pub(crate) since_1_37: bool,
}

/// A pool of devices.
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub(crate) unavailable: i32,
    pub(crate) partitions: Vec<Value>,
    pub(crate) shareable: Option<Value>,
    /// Why there is no summary.
    pub(crate) error: Option<String>,
}

impl Pool<'_> {
    fn is_complete(&self) -> bool {
        i64::from(self.slices) >= self.expected_slices
    }

    /// The entry of the pool in a status.
    fn entry(&self, driver: &str) -> Value {
        let used = self.allocated.saturating_add(self.unavailable);
        let mut entry = json!({
            "driver": driver,
            "poolName": self.name,
            "generation": self.generation,
            "resourceSliceCount": self.slices,
            "totalDevices": self.devices,
            "allocatedDevices": self.allocated,
            "availableDevices": self.devices.saturating_sub(used).max(0),
            "unavailableDevices": self.unavailable,
        });
        if let Some(node) = self.node {
            entry["nodeName"] = node.into();
        }
        if !self.partitions.is_empty() {
            entry["partitionSummary"] = json!(self.partitions);
        }
        if let Some(shareable) = &self.shareable {
            entry["shareableSummary"] = shareable.clone();
        }
        if let Some(error) = &self.error {
            entry["validationError"] = error.as_str().into();
        }
        entry
    }
}

/// The allocations from a pool.
#[derive(Debug, Default)]
struct Allocations<'a> {
    count: i32,
    /// The names of the devices.
    devices: BTreeSet<&'a str>,
    consumed: Amounts<'a>,
}

/// Returns the pools that a request is about, in the order of their names.
pub(crate) fn of_driver<'a>(request: &'a PoolsRequest, inputs: &Inputs<'a>) -> Vec<Pool<'a>> {
    let is_asked_for = |slice: &&Slice| {
        let is_pool = request.pool.is_empty() || slice.pool.name == request.pool;
        slice.driver == request.driver && is_pool
    };
    let mut by_name: BTreeMap<&str, Vec<&Slice>> = BTreeMap::new();
    for slice in inputs.slices.iter().filter(is_asked_for) {
        by_name.entry(&slice.pool.name).or_default().push(slice);
    }
    let mut allocations = allocations(&request.driver, inputs);
    let pool = |(name, slices)| {
        let allocated = allocations.remove(name).unwrap_or_default();
        of_slices(request, inputs, name, slices, &allocated)
    };
    by_name.into_iter().map(pool).collect()
}

/// Joins the slices of a pool that have the newest generation.
fn of_slices<'a>(
    request: &PoolsRequest,
    inputs: &Inputs<'a>,
    name: &'a str,
    mut slices: Vec<&'a Slice>,
    allocated: &Allocations,
) -> Pool<'a> {
    let newest = slices.iter().map(|slice| slice.pool.generation).max();
    let generation = newest.unwrap_or_default();
    slices.retain(|slice| slice.pool.generation == generation);
    let first = slices.first().map(|slice| slice.node.as_str());
    let is_of_one_node = slices
        .iter()
        .all(|slice| Some(slice.node.as_str()) == first);
    let devices = OfSlice::all(&slices);
    let mut pool = Pool {
        name,
        generation,
        node: first.filter(|node| is_of_one_node && !node.is_empty()),
        slices: number(slices.len()),
        expected_slices: slices
            .first()
            .map_or(0, |slice| slice.pool.resource_slice_count),
        devices: number(devices.len()),
        allocated: allocated.count,
        ..Pool::default()
    };
    if inputs.since_1_37 {
        let is_unavailable =
            |one: &&OfSlice| is_unavailable(&request.driver, name, one.device, inputs.rules);
        pool.unavailable = number(devices.iter().filter(is_unavailable).count());
        pool.allocated = number(allocated.devices.len());
        summarise(&mut pool, request, &slices, &devices, allocated);
    }
    pool
}

/// Adds the summaries of a pool, or the error why there is none of partitions.
fn summarise(
    pool: &mut Pool,
    request: &PoolsRequest,
    slices: &[&Slice],
    devices: &[OfSlice],
    allocated: &Allocations,
) {
    let name = (request.driver.as_str(), pool.name);
    let sets: Vec<_> = slices
        .iter()
        .flat_map(|slice| &slice.shared_counters)
        .collect();
    let in_use = &allocated.devices;
    let attribute = &request.partition_attribute;
    let partitions = partitions::summary(name, attribute, devices, &sets, in_use);
    let shareable = shareable::summary(name, devices, in_use, &allocated.consumed);
    let errors = [partitions.as_ref().err(), shareable.as_ref().err()];
    let error = errors.into_iter().flatten().next();
    pool.error = error.map(|error| {
        let end = (0..=error.len().min(LONGEST_ERROR))
            .rfind(|&end| error.is_char_boundary(end))
            .unwrap_or_default();
        error[..end].to_owned()
    });
    if pool.error.is_none() {
        pool.partitions = partitions.unwrap_or_default();
    }
    pool.shareable = shareable.ok().flatten();
}

/// Whether a taint of a device, or a DeviceTaintRule, keeps pods from it.
fn is_unavailable(driver: &str, pool: &str, device: &Device, rules: &[Rule]) -> bool {
    let keeps_pods = |effect: &str| matches!(effect, "NoSchedule" | "NoExecute");
    device.taints.iter().any(|taint| keeps_pods(&taint.effect))
        || rules
            .iter()
            .any(|rule| keeps_pods(&rule.effect) && rule.selects(driver, pool, &device.name))
}

/// Counts the allocated devices of a driver by pool.
fn allocations<'a>(driver: &str, inputs: &Inputs<'a>) -> BTreeMap<&'a str, Allocations<'a>> {
    let mut pools: BTreeMap<&str, Allocations> = BTreeMap::new();
    let results = inputs.claims.iter().flat_map(|claim| &claim.devices);
    for result in results.filter(|result| result.driver == driver) {
        // Whoever only observes a device does not use it up.
        if inputs.since_1_37 && result.admin_access {
            continue;
        }
        let pool = pools.entry(&result.pool).or_default();
        pool.count = pool.count.saturating_add(1);
        pool.devices.insert(&result.device);
        for (name, amount) in &result.consumed_capacity {
            let consumed = pool.consumed.entry(name).or_default();
            *consumed = *consumed + *amount;
        }
    }
    pools
}

fn number(count: usize) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
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
    let failed = pools.iter().filter(|pool| pool.error.is_some()).count();
    let calculated = format!("Calculated status for {} pools", pools.len());
    let message = match failed {
        0 => calculated,
        _ => format!("{calculated} ({failed} incomplete)"),
    };
    let complete = Condition {
        last_transition_time: Some(now.to_second()),
        ..Condition::new("Complete", "True", "CalculationComplete", &message)
    };
    let mut status = json!({"poolCount": count, "conditions": [complete]});
    if !pools.is_empty() {
        let entries = pools.iter().map(|pool| pool.entry(&request.driver));
        status["pools"] = entries.collect();
    }
    Ok(status)
}
