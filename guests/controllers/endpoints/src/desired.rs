//! The subsets that a Service should have, from its pods.
//!
//! Upstream: pkg/controller/endpoint/endpoints_controller.go: podToEndpointAddressForService, addEndpointSubset,
//! endpointPortFromServicePort, addressSubset.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flyball_service_endpoints::ip::{Family, is_v6};
use flyball_service_endpoints::pod::{self, Pod};
use flyball_service_endpoints::ports::{Port, PortFinder};
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::subsets::{Address, Subset, SubsetPort, repack};

/// The addresses of a Service's pods. A Service may have thousands of pods, so only the address of each pod is kept.
pub struct Addresses<'a> {
    service: &'a Service,
    ports: &'a PortFinder<'a>,
    /// The ports of all pods; `None` if they differ.
    uniform: Option<Vec<SubsetPort>>,
    by_ports: BTreeMap<Vec<SubsetPort>, Subset>,
}

impl<'a> Addresses<'a> {
    pub fn of(service: &'a Service, ports: &'a PortFinder<'a>) -> Self {
        Self {
            service,
            ports,
            uniform: ports.is_uniform().then(|| ports_of(ports, "")),
            by_ports: BTreeMap::new(),
        }
    }

    /// Adds the address of a pod. Pods that terminate are left out, unless pods are published before they are ready. So
    /// are pods without a port, unless the Service is headless and has none, and pods without an address of the family.
    pub fn add(&mut self, pod: Pod) {
        let service = self.service;
        if !pod.is_addressable() || (pod.is_terminating() && !service.publish_not_ready) {
            return;
        }
        let ports: Cow<'_, [SubsetPort]> = match &self.uniform {
            Some(ports) => ports.into(),
            None => ports_of(self.ports, &pod.name).into(),
        };
        let needs_port = !(service.ports.is_empty() && service.is_headless());
        if ports.is_empty() && needs_port {
            return;
        }
        let is_ready = service.publish_not_ready || pod.is_ready();
        let Some(address) = address(service, pod) else {
            return;
        };
        let subset = match self.by_ports.get_mut(&*ports) {
            Some(subset) => subset,
            None => self.by_ports.entry(ports.into_owned()).or_default(),
        };
        match is_ready {
            true => subset.addresses.push(address),
            false => subset.not_ready_addresses.push(address),
        }
    }

    /// The subsets in canonical form.
    pub fn into_subsets(self) -> Vec<Subset> {
        let with_ports = |(ports, subset)| Subset { ports, ..subset };
        repack(self.by_ports.into_iter().map(with_ports).collect())
    }
}

fn ports_of(ports: &PortFinder, pod: &str) -> Vec<SubsetPort> {
    ports.of_pod(pod).iter().map(subset_port).collect()
}

fn address(service: &Service, pod: Pod) -> Option<Address> {
    let ip = pod.addresses(family(service, &pod)).next()?;
    let hostname = pod.hostname_in(service).unwrap_or_default().to_owned();
    Some(Address {
        ip,
        hostname,
        node_name: (!pod.node.is_empty()).then_some(pod.node),
        target_ref: Some(pod::target_ref(service, pod.name, pod.uid)),
    })
}

/// The only family of the addresses: the Service's first one. If the API server has set none, it is the family of the
/// Service's address, or else of the pod's.
fn family(service: &Service, pod: &Pod) -> Family {
    match service.ip_families.first() {
        Some(first) => Family::named(first).unwrap_or(Family::V4),
        None if service.has_address() => service.family_of_address(),
        None if is_v6(&pod.ip) => Family::V6,
        None => Family::V4,
    }
}

fn subset_port(port: &Port) -> SubsetPort {
    SubsetPort {
        name: port.service_port.name.clone(),
        port: port.number,
        protocol: port.service_port.protocol.clone(),
        app_protocol: port.service_port.app_protocol.clone(),
    }
}
