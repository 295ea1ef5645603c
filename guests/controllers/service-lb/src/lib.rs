//! service-lb-controller: keeps a load balancer of the cloud for each Service of type LoadBalancer.
//!
//! - A Service that wants a load balancer, or needs none any more, is reconciled with the cloud ([`sync`]). The finalizer
//!   keeps it until its load balancer is deleted.
//! - A change of the nodes starts a pass over all Services ([`pass`]), which gives the cloud the new nodes ([`nodes`]).
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/service/controller.go: New, shouldSyncUpdatedNode.
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/service/metrics.go.

use std::time::Duration;

use flyball_cloud::Cloud;
use flyball_sdk::describe::{MetricType, Queue, queue};
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

mod memory;
mod nodes;
mod pass;
mod service;
mod sync;
#[cfg(test)]
mod tests;

use nodes::Row;
use service::{FINALIZER, Fields, LOAD_BALANCER, Service};

/// The queue of Services.
const SERVICES: &str = "service";
/// The queue of the only key that stands for all nodes.
const NODES: &str = "node";
/// The key that stands for all nodes.
const ALL: &str = "all";
/// The index of Services by their type.
const BY_TYPE: &str = "type";
/// The configuration key of the cluster's name.
const CLUSTER_NAME: &str = "cluster-name";
/// The configuration key of the number of load balancers that are written at once.
const SYNCS: &str = "concurrent-service-syncs";
/// How long to wait for a provider, which is loaded after the controllers.
const WAIT: Duration = Duration::from_secs(1);
const UPDATES: &str = "service_controller_loadbalancer_sync_total";
const ERRORS: &str = "service_controller_nodesync_error_total";
const PASS_LATENCY: &str = "service_controller_nodesync_latency_seconds";
const UPDATE_LATENCY: &str = "service_controller_update_loadbalancer_host_latency_seconds";

/// The controller.
pub struct ServiceLb;

export!(ServiceLb);

impl Controller for ServiceLb {
    fn describe() -> Description {
        let description = describe("service-lb-controller", env!("CARGO_PKG_VERSION"))
            .watch(services())
            .watch(nodes())
            .index(BY_TYPE, Service::KIND, "spec.type")
            .queue_with(retrying(SERVICES))
            .queue_with(retrying(NODES))
            .config(
                CLUSTER_NAME,
                Some("kubernetes"),
                "name of the cluster, for the cloud",
            )
            .config(
                SYNCS,
                Some("1"),
                "number of load balancers that are written at once",
            )
            .permission_on(Service::KIND, "status", ["patch"])
            .import("cloud")
            .event_source("service-controller")
            .memo_schema(1);
        metrics(description)
    }

    fn describe_configured(host: &Host) -> Description {
        // `reconcile` reports an invalid number.
        Self::describe().concurrency(syncs(host).unwrap_or(1))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let concurrency = syncs(host)?;
        let capabilities = match Cloud::of(host).capabilities() {
            Err(error) if error.is_unavailable() => return Ok(Outcome::RequeueAfter(WAIT)),
            result => result?,
        };
        if !capabilities.load_balancer {
            return Ok(Outcome::Done);
        }
        if request.queue != NODES {
            return sync::reconcile(host, &request.key);
        }
        let start = host.now();
        let outcome = pass::all(host, concurrency)?;
        let seconds = host.now().since(start).as_secs_f64();
        host.metrics().observe(PASS_LATENCY, &[], seconds);
        Ok(outcome)
    }

    /// Enqueues Services that are new, changed in what a load balancer depends on, or need it no longer. A deletion
    /// enqueues nothing: the finalizer keeps a Service until it has been cleaned up.
    fn route(_: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let mut routed = Vec::new();
        for delta in deltas {
            let Some(new) = delta.after::<Fields>()? else {
                continue;
            };
            let has_changed = match delta.before::<Fields>()? {
                Some(old) => new.differs_from(&old),
                None => new.wants_load_balancer(),
            };
            if has_changed || new.needs_cleanup() {
                routed.push(RoutedKey::now(new.meta.key()));
            }
        }
        Ok(routed)
    }
}

fn services() -> Watch {
    let changes = || Mapping::route().on([DeltaType::Added, DeltaType::Modified]);
    watch::<Service>()
        .enqueue(changes().having("spec.type", LOAD_BALANCER))
        .enqueue(changes().having("metadata.finalizers", FINALIZER))
}

/// The nodes. A change of a node's readiness or taints alone starts no pass.
fn nodes() -> Watch {
    watch::<Row>()
        .when_at(&[
            "metadata.labels['node.kubernetes.io/exclude-from-external-load-balancers']",
            "spec.providerID",
        ])
        .enqueue(Mapping::key(ALL).queue(NODES))
}

fn retrying(name: &str) -> Queue {
    Queue {
        base_delay_ms: 5_000,
        max_delay_ms: 300_000,
        qps: 0.0,
        ..queue(name)
    }
}

fn syncs(host: &Host) -> Result<u32, Error> {
    host.config_number(SYNCS, 1, 1..)
}

fn cluster_name(host: &Host) -> String {
    host.config(CLUSTER_NAME).unwrap_or_default()
}

fn metrics(description: Description) -> Description {
    let seconds = || MetricType::Histogram((0..15).map(|power| 2_f64.powi(power)).collect());
    description
        .metric(
            MetricType::Counter,
            UPDATES,
            &[],
            "A metric counting the amount of times any load balancer has been configured, as an effect of service/node changes on the cluster",
        )
        .metric(
            MetricType::Counter,
            ERRORS,
            &[],
            "A metric counting the amount of times any load balancer has been configured and errored, as an effect of node changes on the cluster",
        )
        .metric(
            seconds(),
            PASS_LATENCY,
            &[],
            "A metric measuring the latency for nodesync which updates loadbalancer hosts on cluster node updates.",
        )
        .metric(
            seconds(),
            UPDATE_LATENCY,
            &[],
            "A metric measuring the latency for updating each load balancer hosts.",
        )
}
