//! The subsets that a Service should have, from its pods.

use std::collections::BTreeMap;

use flyball_services::ip::{Family, is_v6};
use flyball_services::pod::Pod;
use flyball_services::ports::{Port, PortFinder};
use flyball_services::service::Service;
use flyball_services::subsets::{Address, Subset, SubsetPort, repack};

/// Computes the subsets in canonical form. Pods that terminate are left out, unless pods are published before they are
/// ready. So are pods without a port, unless the Service is headless and has none, and pods without an address of the
/// family.
pub fn subsets(service: &Service, pods: Vec<Pod>, ports: &PortFinder) -> Vec<Subset> {
    let belongs =
        |pod: &Pod| pod.is_addressable() && (service.publish_not_ready || !pod.is_terminating());
    let needs_port = !(service.ports.is_empty() && service.is_headless());
    let mut by_ports: BTreeMap<Vec<SubsetPort>, Subset> = BTreeMap::new();
    // A Service may have thousands of pods: each is dropped once its address is known.
    for pod in pods.into_iter().filter(belongs) {
        let ports: Vec<SubsetPort> = ports.of_pod(&pod.name).iter().map(subset_port).collect();
        if ports.is_empty() && needs_port {
            continue;
        }
        let Some(address) = address(service, &pod) else {
            continue;
        };
        let subset = by_ports.entry(ports).or_default();
        if service.publish_not_ready || pod.is_ready() {
            subset.addresses.push(address);
        } else {
            subset.not_ready_addresses.push(address);
        }
    }
    let with_ports = |(ports, subset)| Subset { ports, ..subset };
    repack(by_ports.into_iter().map(with_ports).collect())
}

fn address(service: &Service, pod: &Pod) -> Option<Address> {
    let ip = pod.addresses(family(service, pod)).next()?;
    Some(Address {
        ip,
        hostname: pod.hostname_in(service).unwrap_or_default().to_owned(),
        node_name: (!pod.node.is_empty()).then(|| pod.node.clone()),
        target_ref: Some(pod.target_ref(service)),
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
