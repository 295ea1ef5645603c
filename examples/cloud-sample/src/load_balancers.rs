//! Load balancers of Services.

use std::time::Duration;

use flyball_cloud::provider::{Context, ServiceCall};
use flyball_cloud::{CloudError, LoadBalancer};
use flyball_sdk::Raw;
use flyball_sdk::meta::StringMap;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{api, instances};

/// The annotation of Services whose load balancers are managed by something else.
const ELSEWHERE: &str = "sample.flyball.dev/elsewhere";
/// How long to wait for a load balancer that is being created.
const CREATING: Duration = Duration::from_secs(1);

/// A Service.
#[derive(Deserialize)]
struct Service {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    annotations: StringMap,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    ports: Vec<Port>,
    load_balancer_source_ranges: Vec<String>,
}

/// A port, as Services have it and as the API takes it.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    protocol: String,
    port: u16,
    node_port: u16,
}

/// The request for a load balancer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    /// As `namespace/name`.
    service: String,
    ports: Vec<Port>,
    source_ranges: Vec<String>,
    /// IDs of instances.
    targets: Vec<String>,
}

/// A load balancer, as the API shows it.
#[derive(Deserialize)]
struct Shown {
    state: String,
    address: Option<String>,
}

pub(crate) fn get(cloud: &Context, call: &ServiceCall) -> Result<LoadBalancer, CloudError> {
    let shown: Option<Shown> = api::send(cloud, "GET", &path(call)?)?;
    Ok(LoadBalancer {
        exists: shown.is_some(),
        status: shown.map(|shown| status(&shown)),
    })
}

/// Creates or updates the load balancer. Fails with a time while the cloud creates it.
pub(crate) fn ensure(cloud: &Context, call: &ServiceCall) -> Result<Raw, CloudError> {
    let Service { metadata, spec } = service(call)?;
    if is_elsewhere(&metadata) {
        return Err(CloudError::implemented_elsewhere());
    }
    let wanted = Wanted {
        service: format!("{}/{}", metadata.namespace, metadata.name),
        ports: spec.ports,
        source_ranges: spec.load_balancer_source_ranges,
        targets: targets(call),
    };
    let path = path(call)?;
    let shown: Option<Shown> = api::send_body(cloud, "PUT", &path, &wanted)?;
    match shown {
        Some(shown) if shown.state == "ready" => Ok(status(&shown)),
        _ => Err(CloudError::retry(
            "the load balancer is being created",
            CREATING,
        )),
    }
}

/// Sets the nodes of the load balancer.
pub(crate) fn update(cloud: &Context, call: &ServiceCall) -> Result<(), CloudError> {
    if is_elsewhere(&service(call)?.metadata) {
        return Err(CloudError::implemented_elsewhere());
    }
    let path = format!("{}/targets", path(call)?);
    let body = json!({"targets": targets(call)});
    let shown: Option<Shown> = api::send_body(cloud, "PUT", &path, &body)?;
    let missing = || CloudError::other("the load balancer does not exist");
    shown.map(drop).ok_or_else(missing)
}

pub(crate) fn delete(cloud: &Context, call: &ServiceCall) -> Result<(), CloudError> {
    api::delete(cloud, &path(call)?)
}

/// The name of a Service's load balancer: the UID, as Kubernetes' default name.
pub(crate) fn name(call: &ServiceCall) -> Result<String, CloudError> {
    let uid = service(call)?.metadata.uid.replace('-', "");
    Ok(format!("a{uid}").chars().take(32).collect())
}

fn path(call: &ServiceCall) -> Result<String, CloudError> {
    Ok(format!("load-balancers/{}", name(call)?))
}

fn service(call: &ServiceCall) -> Result<Service, CloudError> {
    let parsed = call.service.parse::<Service>();
    let malformed = |error: &dyn std::fmt::Display| {
        CloudError::other(format!("the Service can't be parsed: {error}"))
    };
    parsed
        .map_err(|error| malformed(&error))?
        .ok_or_else(|| malformed(&"there is none"))
}

fn is_elsewhere(service: &Metadata) -> bool {
    service
        .annotations
        .get(ELSEWHERE)
        .is_some_and(|value| value == "true")
}

/// The IDs of the nodes' instances, in order. Nodes without a provider ID of this cloud get no traffic.
fn targets(call: &ServiceCall) -> Vec<String> {
    let id = |node: &Raw| {
        let node = node.value();
        instances::id(node["spec"]["providerID"].as_str()?).map(str::to_owned)
    };
    let mut targets: Vec<String> = call.nodes.iter().filter_map(id).collect();
    targets.sort();
    targets
}

/// The status of a Service.
fn status(shown: &Shown) -> Raw {
    Raw::of(&match &shown.address {
        Some(address) => json!({"ingress": [{"ip": address}]}),
        None => json!({}),
    })
}
