//! Pods of a Service, with the fields of their endpoints.
//!
//! Upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go: GetServicesToUpdate, getServicesForPod,
//! ShouldPodBeInEndpoints, ShouldSetHostname, podEndpointsChanged, IsPodReady, isPodTerminal.

use flyball_sdk::meta::CoreObjectReference;
use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::ip::{self, Family};
use crate::service::Service;

/// A pod of a Service. Each change of a pod computes the endpoints of all pods of the Service, so the view has no
/// `fields`: it is listed as rows.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "metadata.uid")]
    pub uid: String,
    /// The deletion timestamp; `None` if it is not being deleted.
    #[view(path = "metadata.deletionTimestamp")]
    pub deleted: Option<Time>,
    #[view(path = "spec.nodeName")]
    pub node: String,
    #[view(path = "spec.hostname")]
    pub hostname: String,
    #[view(path = "spec.subdomain")]
    pub subdomain: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[view(path = "status.phase")]
    pub phase: String,
    /// The first of its addresses.
    #[view(path = "status.podIP")]
    pub ip: String,
    #[view(path = "status.podIPs")]
    pub ips: Vec<PodIp>,
    /// The status of the condition Ready: `True`, `False` or `Unknown`.
    #[view(path = "status.conditions[type=Ready].status")]
    pub ready: String,
    /// The time at which the condition Ready last changed.
    #[view(path = "status.conditions[type=Ready].lastTransitionTime")]
    pub ready_since: Option<Time>,
}

/// An address of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodIp {
    pub ip: String,
}

/// The ports of a pod's containers, for Services that name them.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct PodPorts {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(
        path = "spec.containers",
        fields(
            "[*].ports[*].name",
            "[*].ports[*].containerPort",
            "[*].ports[*].protocol"
        )
    )]
    pub containers: Vec<Container>,
    #[view(
        path = "spec.initContainers",
        fields(
            "[*].restartPolicy",
            "[*].ports[*].name",
            "[*].ports[*].containerPort",
            "[*].ports[*].protocol"
        )
    )]
    pub init_containers: Vec<Container>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// `Always` for an init container that runs as long as the pod: a sidecar.
    pub restart_policy: String,
    #[serde(deserialize_with = "flyball_sdk::meta::null_is_default")]
    pub ports: Vec<ContainerPort>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    pub name: String,
    pub container_port: i32,
    pub protocol: String,
}

/// The paths whose changes wake the Services that select a pod, in addition to its labels. As in
/// kube-controller-manager, the phase is not among them, except for pods that terminate: see [`watch_terminating`].
pub const CHANGES: &[&str] = &[
    "metadata.deletionTimestamp",
    "status.podIPs",
    "status.conditions[type=Ready].status",
];

/// The watch of pods that enqueues the Services that select them, after `delay`.
pub fn watch(delay: std::time::Duration) -> Watch {
    flyball_sdk::describe::watch::<Pod>()
        .and_view::<PodPorts>()
        .fields(&["metadata.labels"])
        .when(Change::Labels)
        .when_at(CHANGES)
        .enqueue(Mapping::selecting(Service::KIND, "spec.selector").after(delay))
}

/// The watch that enqueues the Services of a pod that ends while it terminates. Finalizers may keep such a pod.
pub fn watch_terminating(delay: std::time::Duration) -> Watch {
    watch_kind(Pod::KIND)
        .fields(&["metadata.labels", "metadata.deletionTimestamp"])
        .when_at(&["status.phase"])
        .enqueue(
            Mapping::selecting(Service::KIND, "spec.selector")
                .on([DeltaType::Modified])
                .deleting()
                .after(delay),
        )
}

/// Visits the pods that a Service selects, in the order of their names. There may be thousands, so `visit` should keep
/// little of each pod.
///
/// # Errors
/// A pod is malformed.
pub fn each_of_service(
    host: &Host,
    service: &Service,
    mut visit: impl FnMut(Pod),
) -> Result<(), Error> {
    host.list::<Pod>()
        .namespace(&service.meta.namespace)
        .labels(&service.selector_text())
        .each(|pod| {
            visit(pod);
            Ok(())
        })
}

/// The reference to a pod in its endpoints. As in kube-controller-manager, it has neither an API version nor a resource
/// version.
pub fn target_ref(service: &Service, name: String, uid: String) -> CoreObjectReference {
    CoreObjectReference {
        kind: "Pod".into(),
        namespace: service.meta.namespace.clone(),
        name,
        uid,
        ..CoreObjectReference::default()
    }
}

impl Pod {
    /// Whether the pod has an address and has not ended, so that the address may be published.
    pub fn is_addressable(&self) -> bool {
        let has_ended = matches!(self.phase.as_str(), "Succeeded" | "Failed");
        !has_ended && (!self.ip.is_empty() || !self.ips.is_empty())
    }

    pub fn is_ready(&self) -> bool {
        self.ready == "True"
    }

    pub fn is_terminating(&self) -> bool {
        self.deleted.is_some()
    }

    /// The pod's addresses of a family in canonical form, in the pod's order.
    pub fn addresses(&self, family: Family) -> impl Iterator<Item = String> {
        (self.ips.iter())
            .filter_map(|own| ip::canonical(&own.ip))
            .filter(move |(of, _)| *of == family)
            .map(|(_, address)| address.into_owned())
    }

    /// The hostname that the Service's endpoint gets: the pod names the Service as its subdomain.
    pub fn hostname_in(&self, service: &Service) -> Option<&str> {
        let is_set = !self.hostname.is_empty() && self.subdomain == service.meta.name;
        is_set.then_some(&self.hostname)
    }
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::view;

    use super::*;

    fn pod(change: Value) -> Pod {
        view(change)
    }

    #[test]
    fn pods_without_an_address_and_ended_ones_are_not_addressable() {
        let with = |status: Value| pod(json!({"status": status})).is_addressable();
        assert!(with(
            json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]})
        ));
        assert!(with(json!({"phase": "Pending", "podIP": "10.0.0.1"})));
        assert!(!with(json!({"phase": "Running"})));
        assert!(!with(json!({"phase": "Succeeded", "podIP": "10.0.0.1"})));
        assert!(!with(json!({"phase": "Failed", "podIP": "10.0.0.1"})));
    }

    #[test]
    fn addresses_are_those_of_the_family() {
        let both = pod(json!({"status": {"podIPs": [
            {"ip": "fd00:0::1"}, {"ip": "10.0.0.01"}, {"ip": "malformed"}
        ]}}));
        let of = |family| both.addresses(family).collect::<Vec<_>>();
        assert_eq!(of(Family::V4), ["10.0.0.1"]);
        assert_eq!(of(Family::V6), ["fd00::1"]);
    }

    #[test]
    fn a_pod_has_a_hostname_only_in_the_service_of_its_subdomain() {
        let web: Service = view(json!({"metadata": {"name": "web"}}));
        let hostname = |spec: Value| {
            pod(json!({"spec": spec}))
                .hostname_in(&web)
                .map(str::to_owned)
        };
        assert_eq!(
            hostname(json!({"hostname": "a", "subdomain": "web"})).as_deref(),
            Some("a")
        );
        assert_eq!(hostname(json!({"hostname": "a", "subdomain": "db"})), None);
        assert_eq!(hostname(json!({"subdomain": "web"})), None);
    }
}
