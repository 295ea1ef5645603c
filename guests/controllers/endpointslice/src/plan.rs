//! The slices to create, update, delete and keep so that a Service has its endpoints.
//!
//! Upstream: staging/src/k8s.io/endpointslice/reconciler.go: reconcileByAddressType, reconcileByPortMapping.
//! Upstream: staging/src/k8s.io/endpointslice/utils.go: ownedBy.

use flyball_sdk::StringMap;
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::slice::Slice;

use crate::changes::{NewSlice, Plan};
use crate::endpoints::Desired;
use crate::{labels, pack};

/// Plans the slices of one address type. A Service without any endpoint has one empty slice.
pub fn plan(service: &Service, slices: Vec<Slice>, desired: Desired, maximum: usize) -> Plan {
    let existing = slices.len();
    let mut plan = Plan::default();
    let (owned, foreign): (Vec<_>, Vec<_>) =
        (slices.into_iter()).partition(|slice| is_owned(slice, service));
    plan.delete = foreign;
    let mut by_ports = pack::by_ports(owned);
    for (key, group) in desired.groups {
        let slices = by_ports.remove(&key).unwrap_or_default();
        pack::pack(&mut plan, service, slices, group, maximum);
    }
    plan.delete.extend(by_ports.into_values().flatten());
    if plan.delete.len() == existing && plan.create.is_empty() {
        match plan.delete.as_slice() {
            [only] if is_placeholder(only, service) => plan.unchanged.append(&mut plan.delete),
            _ => plan.create.push(NewSlice::default()),
        }
    }
    plan
}

/// Whether a slice belongs to this Service, and not to an older one of the same name.
pub fn is_owned(slice: &Slice, service: &Service) -> bool {
    (slice.meta.owner_references.iter()).any(|owner| {
        owner.uid == service.meta.uid && owner.kind == "Service" && owner.api_version == "v1"
    })
}

/// Whether a slice is the one of a Service without endpoints.
fn is_placeholder(slice: &Slice, service: &Service) -> bool {
    let labels = labels::of(service);
    let own = &slice.meta.labels;
    let value = |labels: &StringMap, key: &str| labels.get(key).cloned().unwrap_or_default();
    slice.ports.is_empty()
        && slice.endpoints.is_empty()
        && (own.keys().chain(labels.keys())).all(|key| value(own, key) == value(&labels, key))
}
