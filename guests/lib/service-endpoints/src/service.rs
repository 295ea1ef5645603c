//! Services: the fields that decide about their endpoints.
//!
//! Upstream: staging/src/k8s.io/endpointslice/utils.go: getAddressTypesForService, isServiceIPSet, hintsEnabled.

use flyball_sdk::StringMap;
use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::ip::{Family, is_v6};

/// `spec.clusterIP` of a headless Service.
const HEADLESS: &str = "None";

/// The annotation that asks for hints by zone: `Auto` or `auto`.
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The older name of that annotation.
const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Service")]
pub struct Service {
    #[view(
        path = "metadata",
        fields(
            "labels",
            "creationTimestamp",
            "deletionTimestamp",
            "annotations['service.kubernetes.io/topology-mode']",
            "annotations['service.kubernetes.io/topology-aware-hints']",
        )
    )]
    pub meta: Meta,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[view(path = "spec.type")]
    pub service_type: String,
    /// The labels of the Service's pods. If it is empty, other clients maintain the endpoints.
    #[view(path = "spec.selector")]
    pub selector: StringMap,
    /// An address, `None`, or empty.
    #[view(path = "spec.clusterIP")]
    pub cluster_ip: String,
    /// The API server sets at least one, except for `ExternalName`.
    #[view(path = "spec.ipFamilies")]
    pub ip_families: Vec<String>,
    #[view(path = "spec.ports")]
    pub ports: Vec<ServicePort>,
    /// Whether pods receive traffic before they are ready, and while they terminate.
    #[view(path = "spec.publishNotReadyAddresses")]
    pub publish_not_ready: bool,
    /// `PreferClose`, `PreferSameZone` or `PreferSameNode`.
    #[view(path = "spec.trafficDistribution")]
    pub traffic_distribution: Option<String>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    pub app_protocol: Option<String>,
    pub target_port: TargetPort,
}

/// The port of the pods that a port of a Service stands for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum TargetPort {
    Number(i32),
    /// The name of a container's port.
    Name(String),
}

impl Default for TargetPort {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl Service {
    /// Whether the controllers maintain its endpoints.
    pub fn has_endpoints(&self) -> bool {
        self.service_type != "ExternalName" && !self.selector.is_empty()
    }

    /// The selector in the notation of queries.
    pub fn selector_text(&self) -> String {
        let pairs: Vec<String> = (self.selector.iter())
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        pairs.join(",")
    }

    /// Whether the Service is headless: its address is `None`. An unset address doesn't count.
    pub fn is_headless(&self) -> bool {
        self.cluster_ip == HEADLESS
    }

    /// Whether the Service has an address of its own.
    pub fn has_address(&self) -> bool {
        !self.cluster_ip.is_empty() && !self.is_headless()
    }

    /// The families of its endpoints, in the order of the API. If the API server has set none, they are derived from
    /// its address, and a Service without one has both.
    pub fn families(&self) -> Vec<Family> {
        let has = |family: &Family| self.ip_families.iter().any(|name| name == family.as_str());
        let set: Vec<Family> = Family::ALL.into_iter().filter(has).collect();
        match set.is_empty() {
            false => set,
            true if self.has_address() => vec![self.family_of_address()],
            true => Family::ALL.into(),
        }
    }

    /// The family of its own address.
    pub fn family_of_address(&self) -> Family {
        if is_v6(&self.cluster_ip) {
            Family::V6
        } else {
            Family::V4
        }
    }

    /// Whether the Service's annotations ask for hints by zone. The older annotation takes precedence.
    pub fn wants_zone_hints(&self) -> bool {
        let older = self.meta.annotation(TOPOLOGY_AWARE_HINTS);
        let mode = older.or_else(|| self.meta.annotation(TOPOLOGY_MODE));
        matches!(mode, Some("Auto" | "auto"))
    }

    /// Whether the ports of its pods depend on the names of containers' ports.
    pub fn has_named_ports(&self) -> bool {
        let is_named = |port: &ServicePort| matches!(port.target_port, TargetPort::Name(_));
        self.ports.iter().any(is_named)
    }
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::view;

    use super::*;

    fn service(spec: Value) -> Service {
        view(json!({"metadata": {"name": "web"}, "spec": spec}))
    }

    #[test]
    fn services_without_a_selector_and_external_names_have_no_endpoints_of_ours() {
        let with = |kind: &str, selector: Value| {
            service(json!({"type": kind, "selector": selector})).has_endpoints()
        };
        assert!(with("ClusterIP", json!({"app": "web"})));
        assert!(!with("ExternalName", json!({"app": "web"})));
        assert!(!with("ClusterIP", json!(null)) && !with("ClusterIP", json!({})));
    }

    #[test]
    fn the_families_are_those_of_the_service_or_of_its_address() {
        let families = |spec: Value| {
            let families = service(spec).families();
            families.into_iter().map(Family::as_str).collect::<Vec<_>>()
        };
        assert_eq!(
            families(json!({"ipFamilies": ["IPv6", "IPv4"], "clusterIP": "fd00::1"})),
            ["IPv4", "IPv6"]
        );
        assert_eq!(families(json!({"ipFamilies": ["IPv6"]})), ["IPv6"]);
        assert_eq!(families(json!({"clusterIP": "fd00::1"})), ["IPv6"]);
        assert_eq!(families(json!({"clusterIP": "10.0.0.1"})), ["IPv4"]);
        assert_eq!(families(json!({"clusterIP": "None"})), ["IPv4", "IPv6"]);
        assert_eq!(families(json!({})), ["IPv4", "IPv6"]);
    }

    #[test]
    fn a_target_port_is_a_number_or_a_name() {
        let web = service(json!({"ports": [{"port": 80, "targetPort": 8080}, {"port": 81}]}));
        assert!(!web.has_named_ports());
        assert_eq!(web.ports[0].target_port, TargetPort::Number(8080));
        let web = service(json!({"ports": [{"port": 80, "targetPort": "http"}]}));
        assert!(web.has_named_ports());
    }

    #[test]
    fn the_older_annotation_takes_precedence() {
        let wants = |annotations: Value| {
            let service: Service = view(json!({"metadata": {"annotations": annotations}}));
            service.wants_zone_hints()
        };
        let (old, new) = (
            "service.kubernetes.io/topology-aware-hints",
            "service.kubernetes.io/topology-mode",
        );
        assert!(wants(json!({old: "Auto"})) && wants(json!({new: "auto"})));
        assert!(!wants(json!({old: "Disabled", new: "Auto"})));
        assert!(!wants(json!({new: "AUTO"})) && !wants(json!({})));
    }

    #[test]
    fn the_selector_becomes_a_query() {
        let web = service(json!({"selector": {"tier": "", "app": "web"}}));
        assert_eq!(web.selector_text(), "app=web,tier=");
    }
}
