//! The labels of slices.
//!
//! Upstream: staging/src/k8s.io/endpointslice/utils.go: setEndpointSliceLabels, isReservedLabelKey.

use flyball_sdk::StringMap;
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::slice::{HEADLESS, MANAGED_BY, SERVICE_NAME, Slice, with_reserved};

/// The value of the label with which a slice names its controller.
pub const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The labels of a Service's slices.
pub fn of(service: &Service) -> StringMap {
    let mut labels = without_reserved(&service.meta.labels);
    if !service.has_address() {
        labels.insert(HEADLESS.into(), String::new());
    }
    with_reserved(&labels, &service.meta.name, MANAGER)
}

/// Whether a slice lacks a label of its Service, or has another one. The reserved labels don't count.
pub fn has_other_labels(slice: &Slice, service: &Service) -> bool {
    without_reserved(&slice.meta.labels) != without_reserved(&service.meta.labels)
}

/// Returns labels without the ones that the controller sets itself.
fn without_reserved(labels: &StringMap) -> StringMap {
    let mut labels = labels.clone();
    for reserved in [SERVICE_NAME, MANAGED_BY, HEADLESS] {
        labels.remove(reserved);
    }
    labels
}
