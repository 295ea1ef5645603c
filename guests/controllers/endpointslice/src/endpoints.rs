//! The endpoints that a Service should have, from its pods.
//!
//! Upstream: staging/src/k8s.io/endpointslice/reconciler.go: reconcileByAddressType.
//! Upstream: staging/src/k8s.io/endpointslice/utils.go: podToEndpoint, getEndpointPorts, getEndpointAddresses.

use std::collections::BTreeMap;

use flyball_service_endpoints::ip::Family;
use flyball_service_endpoints::pod::{self, Pod};
use flyball_service_endpoints::ports::{Port, PortFinder};
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::size::Size;
use flyball_service_endpoints::slice::{Conditions, Endpoint, EndpointPort, PortKey};

use crate::nodes::Nodes;

/// The endpoints whose pods have the same ports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub ports: Vec<EndpointPort>,
    pub endpoints: Vec<Endpoint>,
}

/// The desired endpoints of one family.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// A group may be empty: its pods have no address of the family.
    pub groups: BTreeMap<PortKey, Group>,
    /// Descriptions of the pods that were left out because their nodes don't exist. They must be tried again.
    pub skipped: Vec<String>,
}

impl Desired {
    /// The size of the endpoints, if a slice has at most `maximum` of them. There is always a slice, even if it is
    /// empty.
    pub fn size(&self, maximum: usize) -> Size {
        let groups = self.groups.values().map(|group| group.endpoints.len());
        let size = Size::of_groups(groups, maximum);
        Size {
            least: size.least.max(1),
            ..size
        }
    }
}

/// Computes the endpoints of a family.
pub fn desired(
    service: &Service,
    pods: &[Pod],
    ports: &PortFinder,
    nodes: &Nodes,
    family: Family,
) -> Desired {
    let mut groups: Vec<Group> = Vec::new();
    let mut positions: BTreeMap<PortKey, usize> = BTreeMap::new();
    let mut uniform = None;
    let mut skipped = Vec::new();
    for pod in pods.iter().filter(|pod| pod.is_addressable()) {
        let at = uniform.unwrap_or_else(|| {
            let ports: Vec<_> = ports.of_pod(&pod.name).iter().map(endpoint_port).collect();
            *positions.entry(PortKey::of(&ports)).or_insert_with(|| {
                groups.push(Group {
                    ports,
                    endpoints: Vec::new(),
                });
                groups.len() - 1
            })
        });
        if ports.is_uniform() {
            uniform = Some(at);
        }
        let zone = nodes.zone(&pod.node);
        if zone.is_none() && !service.publish_not_ready {
            skipped.push(format!(
                "skipping Pod {} for Service {}: Node {} Not Found",
                pod.name,
                service.meta.key(),
                pod.node
            ));
            continue;
        }
        groups[at]
            .endpoints
            .extend(endpoint(service, pod, zone, family));
    }
    let group = |(key, at): (PortKey, usize)| (key, std::mem::take(&mut groups[at]));
    Desired {
        groups: positions.into_iter().map(group).collect(),
        skipped,
    }
}

/// The endpoint of a pod; `None` if it has no address of the family. A pod that terminates is never ready, unless pods
/// are published before they are ready.
fn endpoint(service: &Service, pod: &Pod, zone: Option<&str>, family: Family) -> Option<Endpoint> {
    let mut addresses: Vec<String> = pod.addresses(family).collect();
    if addresses.is_empty() {
        return None;
    }
    addresses.sort_unstable();
    let (serving, terminating) = (pod.is_ready(), pod.is_terminating());
    let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Some(Endpoint {
        addresses,
        conditions: Conditions {
            ready: Some(service.publish_not_ready || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: pod.hostname_in(service).map(str::to_owned),
        target_ref: Some(pod::target_ref(service, pod.name.clone(), pod.uid.clone())),
        node_name: set(&pod.node),
        zone: zone.and_then(set),
        hints: None,
    })
}

fn endpoint_port(port: &Port) -> EndpointPort {
    EndpointPort {
        name: port.service_port.name.clone(),
        protocol: port.service_port.protocol.clone(),
        port: Some(port.number),
        app_protocol: port.service_port.app_protocol.clone(),
    }
}
