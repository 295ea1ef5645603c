//! The subsets that a Service should have, from its pods.

use std::collections::BTreeMap;

use flyball_services::ip::{Family, is_v6};
use flyball_services::pod::{self, Pod};
use flyball_services::ports::{Port, PortFinder};
use flyball_services::service::Service;
use flyball_services::subsets::{Address, Subset, SubsetPort, repack};

/// The addresses of a Service's pods. A Service may have thousands of pods: of each, no more is kept than its address.
pub struct Addresses<'a> {
    service: &'a Service,
    ports: &'a PortFinder<'a>,
    /// The groups of pods that have the same ports.
    groups: Vec<Subset>,
    by_ports: BTreeMap<Vec<SubsetPort>, usize>,
    /// The group of all pods, if the Service names no port.
    only: Option<usize>,
}

impl<'a> Addresses<'a> {
    pub fn of(service: &'a Service, ports: &'a PortFinder<'a>) -> Self {
        Self {
            service,
            ports,
            groups: Vec::new(),
            by_ports: BTreeMap::new(),
            only: None,
        }
    }

    /// Adds the address of a pod. Pods that terminate are left out, unless pods are published before they are ready. So are
    /// pods without a port, unless the Service is headless and has none, and pods without an address of the family.
    pub fn add(&mut self, pod: Pod) {
        let Service {
            publish_not_ready, ..
        } = *self.service;
        if !pod.is_addressable() || (pod.is_terminating() && !publish_not_ready) {
            return;
        }
        let group = self.group(&pod);
        let needs_port = !(self.service.ports.is_empty() && self.service.is_headless());
        if self.groups[group].ports.is_empty() && needs_port {
            return;
        }
        let is_ready = publish_not_ready || pod.is_ready();
        let subset = &mut self.groups[group];
        let list = match is_ready {
            true => &mut subset.addresses,
            false => &mut subset.not_ready_addresses,
        };
        list.extend(address(self.service, pod));
    }

    /// The group of the pods that have the same ports as this one.
    fn group(&mut self, pod: &Pod) -> usize {
        if let Some(only) = self.only {
            return only;
        }
        let ports: Vec<SubsetPort> = (self.ports.of_pod(&pod.name).iter())
            .map(subset_port)
            .collect();
        let groups = &mut self.groups;
        let group = *self.by_ports.entry(ports).or_insert_with_key(|ports| {
            groups.push(Subset {
                ports: ports.clone(),
                ..Subset::default()
            });
            groups.len() - 1
        });
        if self.ports.is_uniform() {
            self.only = Some(group);
        }
        group
    }

    /// The subsets in canonical form.
    pub fn into_subsets(mut self) -> Vec<Subset> {
        self.groups.retain(|group| !group.is_empty());
        repack(self.groups)
    }
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

/// The only family of the addresses: the Service's first one. If the API server has set none, it is that of the Service's
/// address, or else of the pod's.
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
