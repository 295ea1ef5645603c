//! The ports of pods that the ports of a Service stand for.
//!
//! Upstream: staging/src/k8s.io/endpointslice/utils.go: getEndpointPorts, FindPort.

use std::collections::HashMap;

use flyball_sdk::prelude::*;

use crate::pod::{Container, PodPorts};
use crate::service::{Service, ServicePort, TargetPort};

/// A port of a Service with its number in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port<'a> {
    pub service_port: &'a ServicePort,
    pub number: i32,
}

/// Finds the ports of a Service's pods.
pub struct PortFinder<'a> {
    service: &'a Service,
    /// The ports of pods by the pods' names. Empty if the Service names no port.
    of_pods: HashMap<String, PodPorts>,
}

impl<'a> PortFinder<'a> {
    /// Reads the ports of the pods' containers if the Service names one.
    ///
    /// # Errors
    /// A pod is malformed.
    pub fn read(host: &Host, service: &'a Service) -> Result<Self, Error> {
        let mut of_pods = HashMap::new();
        if service.has_named_ports() {
            host.list::<PodPorts>()
                .namespace(&service.meta.namespace)
                .labels(&service.selector_text())
                .each(|pod| {
                    of_pods.insert(pod.name.clone(), pod);
                    Ok(())
                })?;
        }
        Ok(Self { service, of_pods })
    }

    /// The Service's ports that a pod has, in the Service's order.
    pub fn of_pod(&self, name: &str) -> Vec<Port<'a>> {
        let pod = self.of_pods.get(name);
        let find = |service_port: &'a ServicePort| {
            let number = match &service_port.target_port {
                TargetPort::Number(number) => *number,
                TargetPort::Name(port) => named(pod?, port, &service_port.protocol)?,
            };
            Some(Port {
                service_port,
                number,
            })
        };
        self.service.ports.iter().filter_map(find).collect()
    }

    /// Whether all pods have the same ports.
    pub fn is_uniform(&self) -> bool {
        !self.service.has_named_ports()
    }
}

/// Returns the number of the port with this name and protocol of a pod's container or sidecar.
fn named(pod: &PodPorts, name: &str, protocol: &str) -> Option<i32> {
    let is_sidecar = |container: &&Container| container.restart_policy == "Always";
    let sidecars = pod.init_containers.iter().filter(is_sidecar);
    (pod.containers.iter().chain(sidecars))
        .flat_map(|container| &container.ports)
        .find(|port| port.name == name && port.protocol == protocol)
        .map(|port| port.container_port)
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::view;

    use super::*;

    fn numbers(ports: Value, pod: Value) -> Vec<i32> {
        let service: Service = view(json!({"metadata": {"name": "web"}, "spec": {"ports": ports}}));
        let pod: PodPorts = view(json!({"metadata": {"name": "web-1"}, "spec": pod}));
        let finder = PortFinder {
            service: &service,
            of_pods: HashMap::from([("web-1".to_owned(), pod)]),
        };
        let ports = finder.of_pod("web-1");
        ports.iter().map(|port| port.number).collect()
    }

    #[test]
    fn a_named_port_is_found_by_name_and_protocol() {
        let pod = json!({
            "containers": [
                {"ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}]},
                {"ports": [{"name": "dns", "containerPort": 5353, "protocol": "TCP"}]},
                {"ports": null},
            ],
        });
        let port = |protocol: &str| json!([{"protocol": protocol, "targetPort": "dns"}]);
        assert_eq!(numbers(port("UDP"), pod.clone()), [53]);
        assert_eq!(numbers(port("TCP"), pod.clone()), [5353]);
        assert!(numbers(port("SCTP"), pod).is_empty());
    }

    #[test]
    fn a_port_of_a_sidecar_counts_and_one_of_another_init_container_does_not() {
        let ports = json!([{"name": "http", "containerPort": 80, "protocol": "TCP"}]);
        let service = json!([{"protocol": "TCP", "targetPort": "http"}]);
        let sidecar = json!({"initContainers": [{"restartPolicy": "Always", "ports": ports}]});
        assert_eq!(numbers(service.clone(), sidecar), [80]);
        assert!(numbers(service, json!({"initContainers": [{"ports": ports}]})).is_empty());
    }

    #[test]
    fn a_pod_lacks_only_the_ports_that_it_does_not_name() {
        let service = json!([
            {"protocol": "TCP", "targetPort": "lost"}, {"protocol": "TCP", "targetPort": 8080}
        ]);
        assert_eq!(numbers(service, json!({})), [8080]);
    }
}
