//! The pass over all Services after a change of the nodes: gives the cloud the new set of nodes where it differs from the
//! one that it was last given.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/service/controller.go: processNextNodeItem, syncNodes,
//! nodeSyncService, updateLoadBalancerHosts, lockedUpdateLoadBalancerHosts.

use std::time::Duration;

use flyball_cloud::{Answer, Call, Cloud, CloudError, ErrorKind};
use flyball_sdk::prelude::*;
use flyball_sdk::warning;

use crate::memory::Memory;
use crate::nodes::NodeSet;
use crate::service::{LOAD_BALANCER, Service};
use crate::sync::NO_NODES;
use crate::{BY_TYPE, ERRORS, SERVICES, UPDATE_LATENCY, UPDATES, cluster_name};

/// A Service that may want a load balancer.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Service")]
struct Row {
    #[view(path = "metadata.namespace")]
    namespace: String,
    #[view(path = "metadata.name")]
    name: String,
    #[view(path = "metadata.deletionTimestamp")]
    deleted: Option<String>,
    #[view(path = "spec.loadBalancerClass")]
    class: Option<String>,
}

/// The time until the next pass while Services are being reconciled for the first time.
const UNTIL_KNOWN: Duration = Duration::from_secs(1);

/// The Services of a pass.
#[derive(Default)]
struct Found {
    /// Those that have been reconciled with other nodes, or whose reconcile failed before it called the cloud.
    outdated: Vec<Key>,
    /// Whether others have not been reconciled yet: they wait in the queue, or are being reconciled just now.
    has_unknown: bool,
}

/// Updates the load balancers, at most `concurrency` of them at once. A Service whose update fails is reconciled as a
/// whole. Another pass follows as long as it is not known which nodes some load balancers have.
///
/// # Errors
/// The nodes or the Services can't be read.
pub(crate) fn all(host: &Host, concurrency: u32) -> Result<Outcome, Error> {
    let nodes = NodeSet::read(host)?;
    let found = find(host, &nodes)?;
    for some in found.outdated.chunks(concurrency.max(1) as usize) {
        let mut services = Vec::with_capacity(some.len());
        for key in some {
            let service = host.get_by_key::<Service>(key)?;
            services.extend(service.filter(|service| service.wants_load_balancer()));
        }
        update(host, &services, &nodes)?;
    }
    Ok(match found.has_unknown {
        true => Outcome::RequeueAfter(UNTIL_KNOWN),
        false => Outcome::Done,
    })
}

fn find(host: &Host, nodes: &NodeSet) -> Result<Found, Error> {
    let mut found = Found::default();
    host.list::<Row>()
        .index(BY_TYPE, LOAD_BALANCER)
        .each(|row| {
            let key = Key::new(&row.namespace, &row.name);
            let memory = Memory::of(host, &key);
            match memory.nodes() {
                _ if row.class.is_some() => {}
                Some(given) if given == nodes.digest() => {}
                // One that is being deleted has been cleaned up, or will be.
                None if memory.service().is_none() => found.has_unknown |= row.deleted.is_none(),
                Some(_) | None => found.outdated.push(key),
            }
            Ok(())
        })?;
    Ok(found)
}

/// Gives the load balancers of these Services these nodes.
///
/// # Errors
/// The memo is full.
pub(crate) fn update(host: &Host, services: &[Service], nodes: &NodeSet) -> Result<(), Error> {
    let cluster_name = cluster_name(host);
    let mut calls = Vec::with_capacity(services.len());
    for service in services {
        // Noted before the call: a Service whose update fails is reconciled with these nodes.
        Memory::of(host, &service.meta.key()).keep_nodes(nodes.digest())?;
        calls.push(Call::update_load_balancer(
            &cluster_name,
            service,
            &nodes.documents,
        ));
    }
    let answers = Cloud::of(host).run_all(calls, 0);
    for (service, Answer { outcome, took }) in services.iter().zip(answers) {
        let checked = match outcome {
            Err(error) if !error.is(&ErrorKind::ImplementedElsewhere) => {
                after_failure(host, &cluster_name, service, nodes, &error)?
            }
            Err(_) => Duration::ZERO,
            Ok(()) => {
                report(host, service, nodes);
                Duration::ZERO
            }
        };
        host.metrics().add(UPDATES, &[], 1.0);
        let seconds = (took + checked).as_secs_f64();
        host.metrics().observe(UPDATE_LATENCY, &[], seconds);
    }
    Ok(())
}

fn report(host: &Host, service: &Service, nodes: &NodeSet) {
    let about = service.meta.reference(Service::KIND);
    host.emit(match nodes.is_empty() {
        true => Event::warning(&about, "UnAvailableLoadBalancer", NO_NODES),
        false => {
            let updated = "Updated load balancer with new hosts";
            Event::normal(&about, "UpdatedLoadBalancer", updated)
        }
    });
}

/// Reports a failed update, unless the load balancer does not exist. Returns how long it took to find out.
fn after_failure(
    host: &Host,
    cluster_name: &str,
    service: &Service,
    nodes: &NodeSet,
    error: &CloudError,
) -> Result<Duration, Error> {
    let key = service.meta.key();
    let get = Call::get_load_balancer(cluster_name, service);
    let mut answers = Cloud::of(host).run_all(vec![get], 0);
    let Answer { outcome, took } = answers.pop().expect("an answer for each call");
    match outcome {
        Ok(found) if !found.exists => return Ok(took),
        Ok(_) => {}
        Err(error) => {
            warning!(
                host,
                "can't check whether the Service {key} has a load balancer: {error}"
            );
        }
    }
    let (names, count) = (nodes.summary(), nodes.len());
    let failed = format!(
        "Error updating load balancer with new hosts {names} [node names limited, total number of nodes: {count}], error: {error}"
    );
    let about = service.meta.reference(Service::KIND);
    host.emit(Event::warning(&about, "UpdateLoadBalancerFailed", &failed));
    host.metrics().add(ERRORS, &[], 1.0);
    host.queue().add(SERVICES, &key)?;
    Ok(took)
}
