//! Hints by zone (KEP-2433), for Services with the annotation: the endpoints are shared among the zones in proportion
//! to the CPUs of their nodes. Each endpoint is meant for its own zone, but where a zone has too many, some are meant
//! for others.
//!
//! Upstream: staging/src/k8s.io/endpointslice/topologycache/topologycache.go: AddHints, SetNodes, getAllocations.
//! Upstream: staging/src/k8s.io/endpointslice/topologycache/sliceinfo.go: getTotalReadyEndpoints,
//! getAllocatedHintsByZone.
//! Upstream: staging/src/k8s.io/endpointslice/topologycache/utils.go: RemoveHintsFromSlices, redistributeHints,
//! getGivingAndReceivingZones, getMost, getHintsByZone, serviceOverloaded, numReadyEndpoints.

use std::collections::BTreeMap;

use flyball_service_endpoints::slice::{Hints, Named, Slice};

use crate::changes::Plan;
use crate::traffic;
use crate::views::NodeCapacity;

/// The share by which the load of an endpoint may exceed the average.
const OVERLOAD: f64 = 0.2;

/// The share of each zone in the CPUs of all nodes.
pub type Ratios = BTreeMap<String, f64>;

/// Number of endpoints that are meant for each zone.
pub type Counts = BTreeMap<String, usize>;

/// Number of endpoints that a zone should have.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Allocation {
    maximum: usize,
    desired: f64,
}

/// Returns the ratios; `None` if a node has no zone or no CPUs, or if there are fewer than two zones.
pub fn ratios(nodes: &[NodeCapacity]) -> Option<Ratios> {
    let mut millis: BTreeMap<&str, i64> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.is_eligible()) {
        if node.zone.is_empty() || node.cpu.is_zero() {
            return None;
        }
        *millis.entry(&node.zone).or_default() += node.cpu.millis();
    }
    let total = millis.values().sum::<i64>() as f64;
    let ratio = |(zone, millis): (&&str, &i64)| ((*zone).to_owned(), *millis as f64 / total);
    (millis.len() >= 2).then(|| millis.iter().map(ratio).collect())
}

/// Assigns hints, and updates slices whose hints would make it impossible.
///
/// # Errors
/// No hints can be assigned: the reason. Then all hints are removed.
pub fn assign(plan: &mut Plan, ratios: Option<&Ratios>) -> Result<(), String> {
    try_assign(plan, ratios).inspect_err(|_| traffic::remove(plan))
}

fn try_assign(plan: &mut Plan, ratios: Option<&Ratios>) -> Result<(), String> {
    let total = plan.endpoints().filter(|own| own.is_ready()).count();
    let allocations = allocations(ratios, total)?;
    let mut allocated = Counts::new();
    plan.update_where(|slice| match counts(slice, &allocated, &allocations) {
        Some(counts) => {
            for (zone, count) in counts {
                *allocated.entry(zone).or_default() += count;
            }
            false
        }
        None => true,
    });
    for endpoint in plan.written().flatten().filter(|own| own.is_ready()) {
        let zone = endpoint.zone.as_ref().filter(|zone| !zone.is_empty());
        let zone = zone.ok_or("One or more endpoints do not have a zone specified")?;
        *allocated.entry(zone.clone()).or_default() += 1;
        endpoint.hints = Some(for_zone(zone));
    }
    if allocated.is_empty() {
        return Err("No hints allocated for zones".into());
    }
    let (giving, receiving) = exchange(&allocations, &allocated);
    redistribute(plan, giving, receiving);
    Ok(())
}

/// The number of endpoints that each zone should have.
///
/// For example, 10 endpoints are shared between zones with 60 % and 40 % of the CPUs. Their proportionate shares are 6
/// and 4. A zone must have enough endpoints that none of them is overloaded by more than 20 %: at least 6 / 1.2 = 5 and
/// 4 / 1.2 ≈ 4. One endpoint is left then, so the zones may have at most 6 and 5. Slices with hints within these bounds
/// are not rewritten.
fn allocations(
    ratios: Option<&Ratios>,
    total: usize,
) -> Result<BTreeMap<&str, Allocation>, String> {
    let ratios = ratios.ok_or(
        "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes",
    )?;
    let zones = ratios.len();
    if zones > total {
        return Err(format!(
            "Insufficient number of endpoints ({total} endpoints, {zones} zones)"
        ));
    }
    let minimum = |ratio: f64| (ratio * total as f64 * (1.0 / (1.0 + OVERLOAD))).ceil();
    let minima: f64 = ratios.values().map(|ratio| minimum(*ratio)).sum();
    if minima > total as f64 {
        return Err(format!(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold \
             ({total} endpoints, {zones} zones)"
        ));
    }
    Ok(ratios
        .iter()
        .map(|(zone, ratio)| {
            let minimum = minimum(*ratio);
            let allocation = Allocation {
                maximum: (minimum + total as f64 - minima) as usize,
                desired: (ratio * total as f64).max(minimum),
            };
            (zone.as_str(), allocation)
        })
        .collect())
}

/// The hints of a slice by zone; `None` if it must change: an endpoint has no hint, or too many are meant for a zone.
fn counts(
    slice: &Slice,
    allocated: &Counts,
    allocations: &BTreeMap<&str, Allocation>,
) -> Option<Counts> {
    let mut counts = Counts::new();
    for endpoint in slice.endpoints.iter().filter(|own| own.is_ready()) {
        let zones = endpoint.hints.as_ref().map(|hints| &hints.for_zones);
        for zone in zones.filter(|zones| !zones.is_empty())? {
            *counts.entry(zone.name.clone()).or_default() += 1;
        }
    }
    let fits = |(zone, count): (&String, &usize)| {
        let before = allocated.get(zone).copied().unwrap_or_default();
        let allocation = allocations.get(zone.as_str());
        allocation.is_some_and(|allocation| before + count <= allocation.maximum)
    };
    counts.iter().all(fits).then_some(counts)
}

/// How many endpoints zones with too many give to zones with too few.
fn exchange(allocations: &BTreeMap<&str, Allocation>, allocated: &Counts) -> (Counts, Counts) {
    let (mut surplus, mut lack) = (BTreeMap::new(), BTreeMap::new());
    for (zone, allocation) in allocations {
        let have = allocated.get(*zone).copied().unwrap_or_default() as f64;
        if have > allocation.desired {
            surplus.insert(*zone, have - allocation.desired);
        } else if have < allocation.desired {
            lack.insert(*zone, allocation.desired - have);
        }
    }
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    while let (Some((giver, gives)), Some((receiver, takes))) = (most(&surplus), most(&lack)) {
        if (gives < 1.0 && takes < 1.0) || gives < 0.5 || takes < 0.5 {
            break;
        }
        *giving.entry(giver.to_owned()).or_default() += 1;
        *receiving.entry(receiver.to_owned()).or_default() += 1;
        *surplus.entry(giver).or_default() -= 1.0;
        *lack.entry(receiver).or_default() -= 1.0;
    }
    (giving, receiving)
}

/// The zone with the greatest number above zero.
fn most<'a>(zones: &BTreeMap<&'a str, f64>) -> Option<(&'a str, f64)> {
    let positive = zones.iter().filter(|(_, number)| **number > 0.0);
    positive
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(zone, number)| (*zone, *number))
}

/// Gives endpoints of the slices that are written to other zones.
fn redistribute(plan: &mut Plan, mut giving: Counts, mut receiving: Counts) {
    for endpoint in plan.written().flatten().filter(|own| own.is_ready()) {
        let Some(zone) = &endpoint.zone else { continue };
        if !giving.contains_key(zone) {
            continue;
        }
        let Some(receiver) = receiving.keys().next().cloned() else {
            return;
        };
        endpoint.hints = Some(for_zone(&receiver));
        decrement(&mut giving, &zone.clone());
        decrement(&mut receiving, &receiver);
    }
}

fn decrement(counts: &mut Counts, zone: &str) {
    if let Some(count) = counts.get_mut(zone) {
        *count -= 1;
        if *count == 0 {
            counts.remove(zone);
        }
    }
}

fn for_zone(zone: &str) -> Hints {
    Hints {
        for_zones: vec![Named { name: zone.into() }],
        for_nodes: Vec::new(),
    }
}

/// Whether a zone has so few endpoints that they are overloaded. Without hints, none is.
pub fn is_overloaded(counts: &Counts, ratios: Option<&Ratios>) -> bool {
    if counts.is_empty() {
        return false;
    }
    let Some(ratios) = ratios else {
        return true;
    };
    let total = counts.values().sum::<usize>() as f64;
    ratios.iter().any(|(zone, ratio)| {
        let minimum = (total * ratio * (1.0 / (1.0 + OVERLOAD))).ceil();
        let count = counts.get(zone);
        count.is_none_or(|count| (*count as f64) < minimum)
    })
}

/// The endpoints of slices by the zones that they are meant for.
pub fn hinted<'a>(slices: impl IntoIterator<Item = &'a Slice>) -> Counts {
    let endpoints = slices.into_iter().flat_map(|slice| &slice.endpoints);
    let hints = (endpoints.filter(|own| own.is_ready())).filter_map(|own| own.hints.as_ref());
    let mut counts = Counts::new();
    for zone in hints.flat_map(|hints| &hints.for_zones) {
        *counts.entry(zone.name.clone()).or_default() += 1;
    }
    counts
}
