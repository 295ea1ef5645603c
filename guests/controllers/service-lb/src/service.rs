//! Services: the fields that decide whether a load balancer is needed, and whether it is still right.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/service/controller.go: wantsLoadBalancer, needsCleanup,
//! needsUpdate, portEqualForLB.
//! Upstream: staging/src/k8s.io/cloud-provider/service/helpers/helper.go: HasLBFinalizer, LoadBalancerStatusEqual.

use std::ops::Deref;

use flyball_sdk::finalizer;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The finalizer that keeps a Service until its load balancer is deleted.
pub(crate) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The type of Services that want a load balancer.
pub(crate) const LOAD_BALANCER: &str = "LoadBalancer";

/// A Service: the fields that the controller reads, and the whole object for the cloud.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    fields: Fields,
    document: Raw,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Service")]
pub(crate) struct Fields {
    #[view(
        path = "metadata",
        fields("annotations", "deletionTimestamp", "finalizers")
    )]
    pub(crate) meta: Meta,
    #[view(path = "spec.type")]
    service_type: String,
    #[view(path = "spec.loadBalancerClass")]
    class: Option<String>,
    #[view(path = "spec.loadBalancerSourceRanges")]
    source_ranges: Vec<String>,
    #[view(path = "spec.ports")]
    ports: Vec<Port>,
    #[view(path = "spec.sessionAffinity")]
    session_affinity: String,
    #[view(path = "spec.sessionAffinityConfig")]
    session_affinity_config: Value,
    #[view(path = "spec.loadBalancerIP")]
    load_balancer_ip: String,
    #[view(path = "spec.externalIPs")]
    external_ips: Vec<String>,
    #[view(path = "spec.externalTrafficPolicy")]
    external_traffic_policy: String,
    #[view(path = "spec.healthCheckNodePort")]
    health_check_node_port: i32,
    #[view(path = "spec.ipFamilies")]
    ip_families: Vec<String>,
    #[view(path = "status.loadBalancer.ingress")]
    pub(crate) ingress: Vec<Ingress>,
}

/// A port, without what a load balancer does not depend on.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    protocol: String,
    port: i32,
    #[serde(deserialize_with = "null_is_default")]
    node_port: i32,
    target_port: Value,
    app_protocol: Option<String>,
}

/// An address of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Ingress {
    #[serde(deserialize_with = "null_is_default")]
    ip: String,
    #[serde(deserialize_with = "null_is_default")]
    hostname: String,
    ip_mode: Option<String>,
    #[serde(deserialize_with = "null_is_default")]
    ports: Vec<IngressPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct IngressPort {
    port: i32,
    protocol: String,
    error: Option<String>,
}

/// A load balancer's status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) ingress: Vec<Ingress>,
}

impl View for Service {
    const KIND: &'static str = Fields::KIND;
    const FIELDS: &'static [&'static str] = &["."];
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Raw::deserialize(deserializer)?;
        let fields =
            flyball_sdk::serde_json::from_str(document.text()).map_err(D::Error::custom)?;
        Ok(Self { fields, document })
    }
}

/// The whole object.
impl Serialize for Service {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document.serialize(serializer)
    }
}

impl Deref for Service {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl Fields {
    /// Whether the Service wants a load balancer of the cloud. One with a class is of another controller.
    pub(crate) fn wants_load_balancer(&self) -> bool {
        self.service_type == LOAD_BALANCER && self.class.is_none()
    }

    /// Whether the finalizer keeps a Service that needs no load balancer any more.
    pub(crate) fn needs_cleanup(&self) -> bool {
        let is_over = self.meta.is_deleting() || self.service_type != LOAD_BALANCER;
        is_over && self.has_finalizer()
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        finalizer::has(&self.meta, FINALIZER)
    }

    /// Whether the Service is deleted once it loses this controller's finalizer.
    pub(crate) fn ends_with_finalizer(&self) -> bool {
        self.meta.is_deleting() && matches!(&self.meta.finalizers[..], [only] if only == FINALIZER)
    }

    /// Whether the load balancer has to be brought up to date, given the Service before a change.
    pub(crate) fn differs_from(&self, old: &Self) -> bool {
        if !self.wants_load_balancer() && !old.wants_load_balancer() {
            return false;
        }
        self.wants_load_balancer() != old.wants_load_balancer()
            || self.source_ranges != old.source_ranges
            || self.ports != old.ports
            || self.session_affinity != old.session_affinity
            || self.session_affinity_config != old.session_affinity_config
            || self.load_balancer_ip != old.load_balancer_ip
            || self.external_ips != old.external_ips
            || self.meta.annotations != old.meta.annotations
            || self.meta.uid != old.meta.uid
            || self.external_traffic_policy != old.external_traffic_policy
            || self.health_check_node_port != old.health_check_node_port
            // The primary family can't change.
            || self.ip_families.len() != old.ip_families.len()
    }
}
