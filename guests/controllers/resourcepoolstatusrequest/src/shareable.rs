//! Devices that several claims may share: how much of their capacity is consumed.
//!
//! Upstream: pkg/controller/resourcepoolstatusrequest/views.go: computeShareableSummary, nonNegativeDiff.

use std::collections::{BTreeMap, BTreeSet};

use flyball_sdk::prelude::*;
use flyball_sdk::quantity::Format;

use crate::partitions::{MOST, OfSlice};

/// Amounts by the name of the capacity.
pub(crate) type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// Returns the counts of the shareable devices of a pool and their capacity; `None` if it has none.
///
/// # Errors
/// The devices have more capacities than a status can list. The error is a text for people.
pub(crate) fn summary(
    (driver, pool): (&str, &str),
    devices: &[OfSlice],
    in_use: &BTreeSet<&str>,
    consumed: &Amounts,
) -> Result<Option<Value>, String> {
    let shareable = devices.iter().map(|one| one.device);
    let shareable: Vec<_> = shareable.filter(|device| device.is_shareable).collect();
    if shareable.is_empty() {
        return Ok(None);
    }
    let mut totals = Amounts::new();
    for (name, capacity) in shareable.iter().flat_map(|device| &device.capacity) {
        let total = totals.entry(name).or_default();
        *total = *total + capacity.value;
    }
    if totals.len() > MOST {
        return Err(format!(
            "ShareableSummaryOverCap: pool {driver}/{pool} has {} shareable capacity keys, exceeding the maximum of {MOST}",
            totals.len()
        ));
    }
    let partially = shareable
        .iter()
        .filter(|device| in_use.contains(device.name.as_str()))
        .count();
    let entry = |(name, total): (&str, Quantity)| {
        let consumed = consumed.get(name).copied().unwrap_or_default();
        json!({
            "name": name,
            "total": total,
            "consumed": consumed,
            "available": difference(total, consumed),
        })
    };
    let mut summary = json!({
        "fullyAvailableDevices": shareable.len() - partially,
        "partiallyAvailableDevices": partially,
    });
    if !totals.is_empty() {
        summary["capacity"] = totals.into_iter().map(entry).collect();
    }
    Ok(Some(summary))
}

/// What is left, and not less than zero.
fn difference(total: Quantity, consumed: Quantity) -> Quantity {
    match total > consumed {
        true => total - consumed,
        false => Quantity::default().in_format(Format::Decimal),
    }
}
