//! The slices to create, update, delete and keep so that a Service has its endpoints.
//!
//! Upstream: staging/src/k8s.io/endpointslice/reconciler.go: reconcileByAddressType, reconcileByPortMapping.
//! Upstream: staging/src/k8s.io/endpointslice/utils.go: ownedBy, setEndpointSliceLabels, isReservedLabelKey.

use flyball_sdk::StringMap;
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::slice::{
    Endpoint, EndpointPort, HEADLESS, MANAGED_BY, SERVICE_NAME, Slice, with_reserved,
};

use crate::MANAGER;
use crate::endpoints::Desired;
use crate::pack;

/// The changes of the slices of one address type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub create: Vec<NewSlice>,
    pub update: Vec<ChangedSlice>,
    pub delete: Vec<Slice>,
    pub unchanged: Vec<Slice>,
    /// Number of endpoints that were in no slice.
    pub added: usize,
    /// Number of endpoints that leave a slice.
    pub removed: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewSlice {
    pub ports: Vec<EndpointPort>,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangedSlice {
    /// The slice with its new endpoints, and its old metadata.
    pub slice: Slice,
    /// Whether the slice gets the labels of the Service.
    pub relabel: bool,
}

impl Plan {
    /// The endpoints of all slices that exist afterwards.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        let created = self.create.iter().flat_map(|slice| &slice.endpoints);
        let updated = (self.update.iter()).flat_map(|changed| &changed.slice.endpoints);
        let unchanged = self.unchanged.iter().flat_map(|slice| &slice.endpoints);
        created.chain(updated).chain(unchanged)
    }

    /// The number of slices that exist afterwards.
    pub fn slices(&self) -> usize {
        self.create.len() + self.update.len() + self.unchanged.len()
    }

    /// The lists of endpoints that are written.
    pub fn written(&mut self) -> impl Iterator<Item = &mut Vec<Endpoint>> {
        let created = self.create.iter_mut().map(|slice| &mut slice.endpoints);
        let updated = (self.update.iter_mut()).map(|changed| &mut changed.slice.endpoints);
        created.chain(updated)
    }

    /// Updates the unchanged slices for which the predicate holds, too.
    pub fn update_where(&mut self, mut must_change: impl FnMut(&Slice) -> bool) {
        for slice in std::mem::take(&mut self.unchanged) {
            if must_change(&slice) {
                self.update.push(ChangedSlice {
                    slice,
                    relabel: false,
                });
            } else {
                self.unchanged.push(slice);
            }
        }
    }
}

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
    let labels = labels(service);
    let own = &slice.meta.labels;
    let value = |labels: &StringMap, key: &str| labels.get(key).cloned().unwrap_or_default();
    slice.ports.is_empty()
        && slice.endpoints.is_empty()
        && (own.keys().chain(labels.keys())).all(|key| value(own, key) == value(&labels, key))
}

/// The labels of a Service's slices.
pub fn labels(service: &Service) -> StringMap {
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
