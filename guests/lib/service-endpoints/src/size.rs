//! The size of an owner of slices, and the gauges that sum up all owners.
//!
//! Upstream: staging/src/k8s.io/endpointslice/metrics/cache.go: Set, totals, updateMetrics, numDesiredSlices.

use std::ops::AddAssign;

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;

/// The numbers of an owner's endpoints and slices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    pub endpoints: usize,
    /// Number of slices that the endpoints need at least.
    pub least: usize,
    pub slices: usize,
}

impl Size {
    /// The size of groups of endpoints that share no slice, from the size of each. A slice has at most `maximum`
    /// endpoints. `slices` is 0.
    pub fn of_groups(groups: impl Iterator<Item = usize>, maximum: usize) -> Self {
        let mut all = Self::default();
        for size in groups {
            all.endpoints += size;
            all.least += size.div_ceil(maximum);
        }
        all
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.endpoints += other.endpoints;
        self.least += other.least;
        self.slices += other.slices;
    }
}

/// The names of a controller's gauges.
pub struct Gauges {
    pub endpoints: &'static str,
    pub least: &'static str,
    pub slices: &'static str,
}

impl Gauges {
    /// Adds the gauges to a description.
    pub fn describe(&self, description: Description) -> Description {
        let least = "Number of EndpointSlices that would exist with perfect endpoint allocation";
        [
            (self.endpoints, "Number of endpoints desired"),
            (self.least, least),
            (self.slices, "Number of EndpointSlices"),
        ]
        .into_iter()
        .fold(description, |description, (name, help)| {
            description.metric(MetricType::Sum, name, &[], help)
        })
    }

    /// Sets the part of the owner that is being reconciled. The default size removes it.
    pub fn set(&self, host: &Host, size: Size) {
        let metrics = host.metrics();
        metrics.set(self.endpoints, &[], size.endpoints as f64);
        metrics.set(self.least, &[], size.least as f64);
        metrics.set(self.slices, &[], size.slices as f64);
    }
}
