//! Routes of the cluster's network, which has the cluster's name.

use flyball_cloud::provider::Context;
use flyball_cloud::{CloudError, NodeAddress, Route};
use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::api::Config;
use crate::{api, instances};

/// A route, as the API shows it.
#[derive(Deserialize)]
struct Shown {
    id: String,
    destination: String,
    /// The name of its instance; empty if that is gone.
    node: String,
    #[serde(default)]
    addresses: Vec<NodeAddress>,
    blackhole: bool,
}

#[derive(Deserialize)]
struct Routes {
    routes: Vec<Shown>,
}

pub(crate) fn list(cloud: &Context, network: &str) -> Result<Vec<Route>, CloudError> {
    let config: Config = cloud.cloud_config()?;
    let found: Option<Routes> = api::send(cloud, "GET", &format!("networks/{network}/routes"))?;
    let route = |shown: Shown| Route {
        name: shown.id,
        target_node: shown.node,
        enable_node_addresses: config.node_addresses,
        target_node_addresses: shown.addresses,
        destination_cidr: shown.destination,
        blackhole: shown.blackhole,
    };
    let routes = found.map_or_else(Vec::new, |found| found.routes);
    Ok(routes.into_iter().map(route).collect())
}

pub(crate) fn create(
    cloud: &Context,
    network: &str,
    name_hint: &str,
    route: &Route,
) -> Result<(), CloudError> {
    let instance = instances::named(cloud, &route.target_node)?;
    let instance = instance.ok_or_else(CloudError::instance_not_found)?;
    let body = json!({
        "id": id(name_hint, &route.destination_cidr),
        "destination": route.destination_cidr,
        "instance": instance.id,
        "addresses": route.target_node_addresses,
    });
    let path = format!("networks/{network}/routes");
    let created: Option<Value> = api::send_body(cloud, "POST", &path, &body)?;
    created.map(drop).ok_or_else(CloudError::instance_not_found)
}

pub(crate) fn delete(cloud: &Context, network: &str, route: &Route) -> Result<(), CloudError> {
    api::delete(cloud, &format!("networks/{network}/routes/{}", route.name))
}

/// The ID of a route: a node with ranges of both families has two.
fn id(name_hint: &str, destination: &str) -> String {
    format!("{name_hint}-{}", destination.replace(['.', ':', '/'], "-"))
}
