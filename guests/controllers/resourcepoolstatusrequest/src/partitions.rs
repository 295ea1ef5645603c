//! Devices that share counters: how many of each type there are, and how many more can be allocated.
//!
//! Each slice names the attribute whose value is a device's type. The request names one for drivers whose slices don't. The
//! devices of a type cost the same counters. What is allocatable of a type is what fits by itself: types compete for the same
//! counters.
//!
//! For example, a card with the counter `memory: 80Gi` is published as devices of the types `half` (40Gi) and `quarter`
//! (20Gi). While one `half` is in use, one more `half` or two `quarter` are allocatable.
//!
//! Upstream: pkg/controller/resourcepoolstatusrequest/views.go: sliceDeviceRecords, resolvePartitionType,
//! resolveDevicePartitions, computePartitionSummary, availableCounters, deductInUse, deviceFits, deductCounters,
//! consumesCountersKey.

use std::collections::{BTreeMap, BTreeSet};

use flyball_sdk::prelude::*;

use crate::views::{CounterSet, Device, Slice};

/// The most entries of a list in a status.
pub(crate) const MOST: usize = 32;

/// The free amounts, by the names of the counter sets and of the counters.
type Counters<'a> = BTreeMap<(&'a str, &'a str), Quantity>;

/// A device, and the attribute that its slice names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfSlice<'a> {
    pub(crate) device: &'a Device,
    /// Empty if the slice names none.
    pub(crate) attribute: &'a str,
}

impl<'a> OfSlice<'a> {
    /// The devices of slices.
    pub(crate) fn all(slices: &[&'a Slice]) -> Vec<Self> {
        let of_slice = |slice: &&'a Slice| {
            let attribute = slice.partition_attribute.as_str();
            let devices: &'a [Device] = &slice.devices;
            devices.iter().map(move |device| Self { device, attribute })
        };
        slices.iter().flat_map(of_slice).collect()
    }
}

/// The devices of one type.
struct Type<'a> {
    total: i32,
    /// The cost of each of them, as it is compared.
    cost: Vec<(&'a str, &'a str, String)>,
    free: Vec<&'a Device>,
}

/// Returns the types with their counts, in the order of the attributes and the types. The list is empty if no attribute is
/// named.
///
/// # Errors
/// The driver's slices don't allow it. The error is a text for people.
pub(crate) fn summary(
    (driver, pool): (&str, &str),
    default_attribute: &str,
    devices: &[OfSlice],
    counters: &[&CounterSet],
    in_use: &BTreeSet<&str>,
) -> Result<Vec<Value>, String> {
    let is_declared = devices.iter().any(|one| !one.attribute.is_empty());
    let attribute_of = |one: &OfSlice| {
        match one.attribute {
            "" if is_declared => "",
            "" => default_attribute,
            own => own,
        }
        .to_owned()
    };
    if devices.iter().all(|one| attribute_of(one).is_empty()) {
        return Ok(Vec::new());
    }
    if counters.is_empty() {
        return Err(format!(
            "PartitionTypeMissing: pool {driver}/{pool} declares partitionTypeAttribute but publishes no sharedCounters"
        ));
    }
    let mut types: BTreeMap<(String, &str), Type> = BTreeMap::new();
    for one in devices {
        let (device, attribute) = (one.device, attribute_of(one));
        if device.consumes_counters.is_empty() || attribute.is_empty() {
            continue;
        }
        let Some(name) = type_of(driver, device, &attribute) else {
            return Err(format!(
                "PartitionTypeMissing: device {:?} in pool {driver}/{pool} does not carry partition type attribute {attribute:?}",
                device.name
            ));
        };
        let cost = cost(device);
        let found = types.entry((attribute, name)).or_insert_with(|| Type {
            total: 0,
            cost: cost.clone(),
            free: Vec::new(),
        });
        if found.cost != cost {
            return Err(format!(
                "PartitionCostMismatch: devices of partition type {name:?} in pool {driver}/{pool} consume different counters"
            ));
        }
        found.total += 1;
        if !in_use.contains(device.name.as_str()) {
            found.free.push(device);
        }
    }
    if types.len() > MOST {
        return Err(format!(
            "PartitionSummaryOverCap: pool {driver}/{pool} has {} partition types, exceeding the maximum of {MOST}",
            types.len()
        ));
    }
    let free = free_counters(devices, counters, in_use);
    let entry = |((attribute, name), of_type): ((String, &str), Type)| {
        json!({
            "attribute": attribute,
            "type": name,
            "total": of_type.total,
            "allocatable": allocatable(&of_type.free, free.clone()),
        })
    };
    Ok(types.into_iter().map(entry).collect())
}

/// The value of an attribute of a device. Its domain may be left out if it is the driver's name.
fn type_of<'a>(driver: &str, device: &'a Device, attribute: &str) -> Option<&'a str> {
    let of_driver = || {
        let bare = attribute.strip_prefix(driver)?.strip_prefix('/')?;
        device.attributes.get(bare)
    };
    let found = device.attributes.get(attribute).or_else(of_driver)?;
    found.string.as_deref()
}

/// The cost of a device, in a form that is the same for all notations and orders.
fn cost(device: &Device) -> Vec<(&str, &str, String)> {
    let mut cost: Vec<(&str, &str, String)> = device
        .costs()
        .map(|(set, counter, amount)| (set, counter, amount.to_string()))
        .collect();
    cost.sort();
    cost
}

/// The counters of a pool without what the devices in use cost, each once.
fn free_counters<'a>(
    devices: &[OfSlice<'a>],
    sets: &[&'a CounterSet],
    in_use: &BTreeSet<&str>,
) -> Counters<'a> {
    let mut free = Counters::new();
    for set in sets {
        for (name, counter) in &set.counters {
            free.insert((&set.name, name), counter.value);
        }
    }
    for one in devices {
        if in_use.contains(one.device.name.as_str()) {
            deduct(one.device, &mut free);
        }
    }
    free
}

/// How many of these devices fit into the free counters.
fn allocatable<'a>(devices: &[&'a Device], mut free: Counters<'a>) -> i32 {
    let mut count = 0;
    for device in devices {
        let fits = device.costs().all(|(set, counter, amount)| {
            free.get(&(set, counter))
                .is_some_and(|free| *free >= amount)
        });
        if fits {
            count += 1;
            deduct(device, &mut free);
        }
    }
    count
}

fn deduct<'a>(device: &'a Device, free: &mut Counters<'a>) {
    for (set, counter, amount) in device.costs() {
        if let Some(free) = free.get_mut(&(set, counter)) {
            *free = *free - amount;
        }
    }
}
