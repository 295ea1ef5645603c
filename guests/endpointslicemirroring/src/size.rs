//! The size of mirrored Endpoints, for the gauges that sum up all Endpoints.

use flyball_sdk::prelude::*;

use crate::describe::{DESIRED_ENDPOINTS, DESIRED_SLICES, SLICES};
use crate::desired::Desired;

/// The numbers of the endpoints and slices of mirrored Endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    endpoints: usize,
    /// Number of slices that the endpoints need at least.
    least: usize,
    slices: usize,
}

impl Size {
    /// Each group that is not empty has one slice.
    pub fn of(desired: &Desired, maximum: usize) -> Self {
        let groups = desired.groups.values();
        let sizes = groups
            .map(|group| group.endpoints.len())
            .filter(|size| *size > 0);
        Self {
            endpoints: sizes.clone().sum(),
            least: sizes.clone().map(|size| size.div_ceil(maximum)).sum(),
            slices: sizes.count(),
        }
    }

    /// Sets the part of the Endpoints in the gauges. The default size removes it.
    pub fn show(self, host: &Host) {
        let metrics = host.metrics();
        metrics.set(DESIRED_ENDPOINTS, &[], self.endpoints as f64);
        metrics.set(DESIRED_SLICES, &[], self.least as f64);
        metrics.set(SLICES, &[], self.slices as f64);
    }
}
