//! The cloud of a plane: the manager of its controllers, and what a scenario leaves behind in it.

use anyhow::{Context, Result};
use flyball_cluster_tests::Cluster;
use flyball_controlplane::{Process, cloud_controller_manager};
use flyball_sample_cloud::Server;
use serde_json::{Value, json};

use crate::Subject;
use crate::plane::Plane;
use crate::scenario::Scenario;

/// Starts the cloud controller manager of a plane that has a cloud.
pub(crate) async fn start_manager(
    subject: Subject,
    cluster: &Cluster,
    plane: &Plane,
) -> Result<Option<Process>> {
    if !plane.has_cloud {
        return Ok(None);
    }
    let controllers = plane.cloud_controllers();
    let flags: Vec<String> = plane
        .cloud_flags
        .iter()
        .copied()
        .map(str::to_owned)
        .collect();
    let process = match subject {
        Subject::Flyball => cluster.spawn_cloud_host(&controllers, &flags)?,
        Subject::Stock | Subject::StockBefore => {
            // The first build takes minutes, in which other planes go on.
            tokio::task::spawn_blocking(cloud_controller_manager)
                .await
                .context("the build of cloud-controller-manager was cancelled")??;
            cluster.spawn_stock_cloud_manager(&controllers, &flags)?
        }
    };
    Ok(Some(process))
}

/// The load balancers and the routes of a scenario, as an object. Names and times are left out: names have random UIDs.
pub(crate) fn state(cloud: &Server, scenario: &Scenario) -> Result<Value> {
    let namespace = scenario.namespace();
    let state = cloud.ask("GET", "control/state", &Value::Null)?;
    let mut load_balancers = Vec::new();
    let prefix = format!("{namespace}/");
    for one in state["loadBalancers"].as_object().into_iter().flatten() {
        let mut one = one.1.clone();
        if text(&one["service"]).starts_with(&prefix) {
            remove(&mut one, &["name", "readyAt"]);
            load_balancers.push(one);
        }
    }
    let mut routes = Vec::new();
    for (_, network) in state["networks"].as_object().into_iter().flatten() {
        for (_, route) in network.as_object().into_iter().flatten() {
            if is_of(text(&route["instance"]), &namespace) {
                let mut route = route.clone();
                remove(&mut route, &["id"]);
                routes.push(route);
            }
        }
    }
    for list in [&mut load_balancers, &mut routes] {
        list.sort_by_cached_key(Value::to_string);
    }
    Ok(json!({
        "kind": "Cloud", "metadata": {"name": "cloud"}, "loadBalancers": load_balancers, "routes": routes,
    }))
}

/// The calls about a scenario that change the cloud: the method and the kind of object. How often the controllers read
/// depends on how long the scenario takes.
pub(crate) fn calls(cloud: &Server, scenario: &Scenario) -> Result<Vec<String>> {
    let namespace = scenario.namespace();
    let mut calls = Vec::new();
    // A longer name of another scenario may begin with this one's.
    for text in [format!("{namespace}/"), format!("\"{namespace}-")] {
        let found = cloud.ask(
            "GET",
            &format!("control/calls?contains={text}"),
            &Value::Null,
        )?;
        for line in found["calls"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            let (method, path) = line.split_once(' ').unwrap_or_default();
            if method != "GET" {
                let kind = path.trim_start_matches("/v1/").split('/').next();
                calls.push(format!("{method} {}", kind.unwrap_or_default()));
            }
        }
    }
    Ok(calls)
}

/// Whether this is the name of a node of the scenario, such as `NAMESPACE-a`.
fn is_of(name: &str, namespace: &str) -> bool {
    let rest = name
        .strip_prefix(namespace)
        .and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| !rest.contains('-'))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn remove(object: &mut Value, fields: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|field, _| !fields.contains(&field.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_scenarios_with_longer_names_are_told_apart() {
        assert!(is_of("cloud-node-ready-a", "cloud-node-ready"));
        assert!(!is_of("cloud-node-ready-again-a", "cloud-node-ready"));
        assert!(!is_of("cloud-node-readya", "cloud-node-ready"));
        assert!(!is_of("a", "cloud-node-ready"));
    }
}
