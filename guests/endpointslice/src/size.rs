//! The size of a Service, for the gauges that sum up all Services.

use flyball_sdk::prelude::*;

use crate::describe::{BY_TRAFFIC_DISTRIBUTION, DESIRED_ENDPOINTS, DESIRED_SLICES, SLICES};
use crate::endpoints::Desired;
use crate::plan::Plan;
use crate::traffic::DISTRIBUTIONS;

/// The numbers of a Service's endpoints and slices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    endpoints: usize,
    /// Number of slices that the endpoints need at least.
    least: usize,
    slices: usize,
}

impl Size {
    /// Adds the endpoints of an address type. There is always a slice, even if it is empty.
    pub fn add_desired(&mut self, desired: &Desired, maximum: usize) {
        let sizes = desired.groups.values().map(|group| group.endpoints.len());
        self.endpoints += sizes.clone().sum::<usize>();
        let least: usize = sizes.map(|size| size.div_ceil(maximum)).sum();
        self.least += least.max(1);
    }

    /// Adds the slices of an address type that exist when the plan has been carried out.
    pub fn add_planned(&mut self, plan: &Plan) {
        self.slices += plan.create.len() + plan.update.len() + plan.unchanged.len();
    }

    /// Sets the part of the Service in the gauges. The default size removes it.
    pub fn show(self, host: &Host, distribution: Option<&str>) {
        let metrics = host.metrics();
        metrics.set(DESIRED_ENDPOINTS, &[], self.endpoints as f64);
        metrics.set(DESIRED_SLICES, &[], self.least as f64);
        metrics.set(SLICES, &[], self.slices as f64);
        for known in DISTRIBUTIONS {
            let is_own = distribution == Some(known);
            metrics.set(BY_TRAFFIC_DISTRIBUTION, &[known], f64::from(is_own));
        }
    }
}
