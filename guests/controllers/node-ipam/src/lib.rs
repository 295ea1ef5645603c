//! node-ipam-controller: gives each node ranges of addresses for its pods.
//!
//! Each range of the cluster is cut into blocks of equal size ([`cidr_set`]). A new node gets the next free block of
//! each. The [`used`] blocks follow from the nodes themselves, so the blocks of a deleted node are free again. Keys
//! name nodes:
//!
//! 1. A node without ranges gets a [`reservation`] of free blocks.
//! 2. When it is reconciled again, its ranges are written.
//! 3. When it has ranges, its reservation ends. Ranges that another client wrote are checked.
//!
//! A further key counts the used blocks ([`usage`]).
//!
//! Upstream: pkg/controller/nodeipam/ipam/range_allocator.go: NewCIDRRangeAllocator, syncNode, updateCIDRsAllocation.
//! Upstream: pkg/controller/nodeipam/ipam/cidrset/metrics.go.
//! Upstream: staging/src/k8s.io/component-helpers/node/util/cidr.go: PatchNodeCIDRs.

pub mod blocks;
pub mod cidr_set;
pub mod reservation;
pub mod settings;
pub mod usage;
pub mod used;
pub mod views;

#[cfg(test)]
mod tests;

use std::time::Duration;

use flyball_sdk::Effect;
use flyball_sdk::describe::MetricType;
use flyball_sdk::info;
use flyball_sdk::prelude::*;

use reservation::{Exhausted, Reservation};
use settings::{KEYS, Settings};
use views::{Node, Row};

/// The queue of nodes.
pub const NODES: &str = "cidrallocator_node";
/// The queue of the key that counts the used blocks.
const COUNTS: &str = "cidrallocator_usage";
/// How long changes of nodes are collected before they are counted.
const COUNT_DELAY: Duration = Duration::from_millis(200);
/// How often ranges are written before the failure is reported.
const ATTEMPTS: usize = 3;

/// The controller.
pub struct NodeIpam;

export!(NodeIpam);

impl Controller for NodeIpam {
    fn describe() -> Description {
        let nodes = watch::<Node>()
            .and_view::<Row>()
            .when_at(&["spec.podCIDRs"])
            .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified]))
            .enqueue(Mapping::key("all").queue(COUNTS).after(COUNT_DELAY));
        let description = describe("node-ipam-controller", env!("CARGO_PKG_VERSION"))
            .watch(nodes)
            .queue(NODES)
            .queue(COUNTS)
            .permission(Node::KIND, ["list", "patch"])
            .event_source("cidrAllocator")
            .memo_schema(1)
            .concurrency(30);
        let description = metrics(description);
        KEYS.iter().fold(description, |description, (key, help)| {
            description.config(key, None, help)
        })
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let settings = Settings::read(host)?;
        if request.queue == COUNTS {
            return usage::count(host, &settings).map(|()| Outcome::Done);
        }
        let node = host.get_by_key::<Node>(&request.key)?;
        let Some(node) = node.filter(|node| !node.meta.is_deleting()) else {
            return Ok(Outcome::Done);
        };
        let reservation = Reservation::recall(host, &node.meta);
        if !node.pod_cidrs.is_empty() {
            if let Some(reservation) = reservation {
                reservation.release(host, &node.meta);
            }
            used::check(&settings, &node.meta.name, &node.pod_cidrs)?;
            return Ok(Outcome::Done);
        }
        match reservation {
            Some(reservation) if reservation.holds(host, &settings)? => {
                assign(host, &node, &reservation.pod_cidrs(&settings))?;
                Ok(Outcome::Done)
            }
            outdated => {
                if let Some(outdated) = outdated {
                    outdated.release(host, &node.meta);
                }
                reserve(host, &settings, &node)?;
                Ok(Outcome::RequeueAfter(Duration::ZERO))
            }
        }
    }
}

fn reserve(host: &Host, settings: &Settings, node: &Node) -> Result<(), Error> {
    if let Err(Exhausted(index)) = Reservation::make(host, settings, node)? {
        report(host, node, "CIDRNotAvailable");
        usage::wait(host)?;
        return Err(Error::failed(format!(
            "no range for node {}: all of {} are in use",
            node.meta.name,
            settings.sets[index].label()
        )));
    }
    Ok(())
}

/// Writes the ranges of a node. After a failure the reservation stays: the request may have been carried out.
fn assign(host: &Host, node: &Node, pod_cidrs: &[String]) -> Result<(), Error> {
    let Meta { name, uid, .. } = &node.meta;
    let patch = json!({
        "metadata": {"uid": uid},
        "spec": {"podCIDR": pod_cidrs[0], "podCIDRs": pod_cidrs},
    });
    let write = || host.patch(Node::KIND, "", name, PatchType::Strategic, &patch);
    let mut result = write();
    for _ in 1..ATTEMPTS {
        // If the effect of the write is unknown, the cache shows it when the key is reconciled again.
        if !result
            .as_ref()
            .is_err_and(|error| error.effect == Effect::Refused)
        {
            break;
        }
        result = write();
    }
    if result.is_err() {
        report(host, node, "CIDRAssignmentFailed");
    }
    result.doing(|| format!("writing the ranges {} of node {name}", pod_cidrs.join(", ")))?;
    info!(host, "node {name} has the ranges {}", pod_cidrs.join(", "));
    Ok(())
}

fn report(host: &Host, node: &Node, status: &str) {
    let mut about = node.meta.reference(Node::KIND);
    about.resource_version = String::new();
    let message = format!("Node {} status is now: {status}", node.meta.name);
    host.emit(Event::normal(&about, status, &message));
}

fn metrics(description: Description) -> Description {
    let label = &["clusterCIDR"];
    description
        .metric(
            MetricType::Counter,
            usage::ALLOCATIONS,
            label,
            "Counter measuring total number of CIDR allocations.",
        )
        .metric(
            MetricType::Counter,
            usage::RELEASES,
            label,
            "Counter measuring total number of CIDR releases.",
        )
        .metric(
            MetricType::Gauge,
            usage::MAX,
            label,
            "Maximum number of CIDRs that can be allocated.",
        )
        .metric(
            MetricType::Gauge,
            usage::USAGE,
            label,
            "Gauge measuring percentage of allocated CIDRs.",
        )
        .metric(
            MetricType::Histogram(vec![1.0, 5.0, 25.0, 125.0, 625.0]),
            reservation::TRIES,
            label,
            "Number of CIDRs that were in use before a free one was found.",
        )
}
