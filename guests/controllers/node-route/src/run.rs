//! A run: compares the cloud's routes with the nodes, deletes and creates routes, and reports in the conditions of the
//! nodes.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/route/route_controller.go: reconcileNodeRoutes, reconcile,
//! updateNetworkingCondition.
//! Upstream: staging/src/k8s.io/component-helpers/node/util/conditions.go: SetNodeCondition.

use std::collections::BTreeSet;

use flyball_cloud::{Call, Cloud, Route};
use flyball_go_format::duration;
use flyball_sdk::prelude::*;
use flyball_sdk::{ObjectReference, warning};

use crate::plan::{Creation, Plan, plan};
use crate::settings::Settings;
use crate::views::Node;

/// Calls that change routes at once.
const AT_ONCE: usize = 200;

/// Runs once. Returns whether a route was deleted or created. What fails for one route or node is reported, and repeated
/// by the next run.
///
/// # Errors
/// The routes or the nodes can't be listed.
pub(crate) fn run(host: &Host, settings: &Settings) -> Result<bool, Error> {
    let routes = Cloud::of(host)
        .run(Call::list_routes(&settings.cluster_name))
        .doing(|| "error listing routes".into())?;
    let nodes = host.list::<Node>().all()?;
    let Plan {
        deletions,
        creations,
        concerned,
    } = plan(settings, &nodes, &routes);
    // Deletions end before creations begin, because a route with other addresses is deleted and created.
    let mut changed = delete(host, settings, &deletions);
    let mut without_route = BTreeSet::new();
    for (creation, is_created) in create(host, settings, &creations) {
        changed |= is_created;
        if !is_created {
            without_route.insert(creation.node.meta.name.as_str());
        }
    }
    set_conditions(host, &concerned, &without_route);
    Ok(changed)
}

/// Deletes routes. Returns whether one was deleted.
fn delete(host: &Host, settings: &Settings, routes: &[&Route]) -> bool {
    let mut changed = false;
    for some in routes.chunks(AT_ONCE) {
        let call = |route: &&Route| Call::delete_route(&settings.cluster_name, route);
        let answers = Cloud::of(host).run_all(some.iter().map(call).collect(), 0);
        for (route, answer) in some.iter().zip(answers) {
            match answer.outcome {
                Ok(()) => changed = true,
                Err(error) => {
                    let (name, cidr) = (&route.name, &route.destination_cidr);
                    warning!(host, "can't delete the route {name} to {cidr}: {error}");
                }
            }
        }
    }
    changed
}

/// Creates routes. Returns each with whether it was created.
fn create<'c, 'a>(
    host: &Host,
    settings: &Settings,
    creations: &'c [Creation<'a>],
) -> Vec<(&'c Creation<'a>, bool)> {
    let mut all = Vec::with_capacity(creations.len());
    for some in creations.chunks(AT_ONCE) {
        let call = |Creation { node, route }: &Creation| {
            Call::create_route(&settings.cluster_name, &node.meta.uid, route)
        };
        let answers = Cloud::of(host).run_all(some.iter().map(call).collect(), 0);
        for (creation, answer) in some.iter().zip(answers) {
            if let Err(error) = &answer.outcome {
                let Meta { name, uid, .. } = &creation.node.meta;
                let (cidr, took) = (&creation.route.destination_cidr, duration(answer.took));
                let failed = format!(
                    "Could not create route {uid} {cidr} for node {name} after {took}: {error}"
                );
                let about = ObjectReference {
                    resource_version: String::new(),
                    ..creation.node.meta.reference(Node::KIND)
                };
                host.emit(Event::warning(&about, "FailedToCreateRoute", &failed));
            }
            all.push((creation, answer.outcome.is_ok()));
        }
    }
    all
}

/// Reports in each concerned node whether all of its routes exist.
fn set_conditions(host: &Host, concerned: &[&Node], without_route: &BTreeSet<&str>) {
    let now = host.now();
    let mut batch = host.tagged_batch();
    for node in concerned {
        let name = node.meta.name.as_str();
        let has_routes = !node.pod_cidrs.is_empty() && !without_route.contains(name);
        if let Some(patch) = condition(node, has_routes, now) {
            let write = Write::patch(Node::KIND, "", name, PatchType::Strategic, &patch);
            batch = batch.with(name, write.on("status"));
        }
    }
    for (name, result) in batch.run() {
        if let Err(error) = result {
            warning!(host, "can't write the condition of node {name}: {error}");
        }
    }
}

/// The patch of a node's condition; `None` if it is right.
pub(crate) fn condition(node: &Node, has_routes: bool, now: Time) -> Option<Value> {
    let (status, reason, message) = match has_routes {
        true => ("False", "RouteCreated", "RouteController created a route"),
        false => (
            "True",
            "NoRouteCreated",
            "RouteController failed to create a route",
        ),
    };
    if node.unavailable == status && node.reason == reason {
        return None;
    }
    let condition = json!({
        "type": "NetworkUnavailable", "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    Some(json!({"status": {"conditions": [condition]}}))
}
