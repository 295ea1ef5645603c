//! A kubelet without containers: nodes, and pods whose behaviour is scripted by annotations.
//!
//! The plugin registers nodes and keeps them alive ([`node`], [`heartbeat`]). For the pods bound to them it parses a
//! [`script`] from their annotations, computes the current status from it ([`lifecycle`]), and writes the difference.
//! `README.md` lists the configuration and the annotations.
//!
//! The plugin keeps no state: the pod's status contains when its containers started, how often they were restarted and
//! the next change that is due.

use flyball_sdk::describe::Ticker;
use flyball_sdk::prelude::*;

pub mod address;
pub mod heartbeat;
pub mod lifecycle;
pub mod node;
pub mod pod;
pub mod script;
pub mod settings;
pub mod status;

use heartbeat::FIELD_MANAGER;
use pod::Pod;
use script::Script;
use settings::Settings;
use status::PodStatus;

/// The queue of pods.
pub const PODS: &str = "pods";
/// The queue of nodes and of [`heartbeat::ALL`].
pub const NODES: &str = "nodes";
/// The index of pods by IP address.
const BY_ADDRESS: &str = "pod-ip";

pub struct FakeKubelet;

export!(FakeKubelet);

impl Controller for FakeKubelet {
    fn describe() -> Description {
        let description = describe("fake-kubelet", env!("CARGO_PKG_VERSION"))
            .watch(pods())
            .watch(nodes())
            .watch(namespace_of_leases())
            .index(BY_ADDRESS, Pod::KIND, "status.podIP")
            .queue(PODS)
            .queue(NODES)
            .permission("v1/Node", ["create", "patch"])
            .permission_on("v1/Node", "status", ["patch"])
            .permission("coordination.k8s.io/v1/Lease", ["create", "patch"])
            .permission("v1/Pod", ["delete"])
            .permission_on("v1/Pod", "status", ["patch"])
            .ticker_with(ticker())
            .concurrency(16);
        settings::declare(description)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let settings = Settings::read(|key| host.config(key))
            .map_err(|problem| Error::terminal(problem.to_string()))?;
        match request.queue.as_str() {
            NODES => heartbeat::reconcile(host, &settings, &request.key),
            _ => reconcile_pod(host, &settings, &request.key),
        }
    }
}

/// Updates a pod's status and requeues it for its next change.
fn reconcile_pod(host: &Host, settings: &Settings, key: &Key) -> Result<Outcome, Error> {
    let Some(pod) = host.get_by_key::<Pod>(key)? else {
        return Ok(Outcome::Done);
    };
    let Some(node) = settings.index_of(&pod.node) else {
        return Ok(Outcome::Done);
    };
    let script = script_of(&pod)?;
    let now = host.now();
    let mut plan = lifecycle::plan(&pod, &script, settings, now);
    if plan.status.start_time.is_some() && plan.status.pod_ip.is_empty() {
        give_address(host, settings, node, &pod, &mut plan.status)?;
    }
    write(host, &pod, &plan)?;
    Ok(plan
        .wake
        .map_or(Outcome::Done, |at| Outcome::RequeueAfter(at.from_now(now))))
}

/// Returns the script in the pod's annotations. For a pod being deleted, invalid annotations are
/// ignored so that they can't block the deletion.
fn script_of(pod: &Pod) -> Result<Script, Error> {
    match Script::read(&pod.meta.annotations) {
        Ok(script) => Ok(script),
        Err(_) if pod.meta.is_deleting() => Ok(Script::default()),
        Err(problem) => Err(Error::terminal(problem.to_string())),
    }
}

/// Assigns an address from the node's range that no other pod has.
fn give_address(
    host: &Host,
    settings: &Settings,
    node: u32,
    pod: &Pod,
    status: &mut PodStatus,
) -> Result<(), Error> {
    let of_node = address::of_node(node);
    let mut own = of_node.clone();
    if !pod.host_network {
        let range = address::pods_of_node(node, settings.nodes);
        for attempt in 0.. {
            own = range.choose(&pod.meta.uid, attempt);
            if attempt == address::ATTEMPTS
                || host.list::<Pod>().index(BY_ADDRESS, &own).count()? == 0
            {
                break;
            }
        }
    }
    status.set_addresses(own, of_node);
    Ok(())
}

/// Writes the status if it differs, then deletes the pod if it has ended and is being deleted. If
/// the pod no longer exists, both are skipped.
fn write(host: &Host, pod: &Pod, plan: &lifecycle::Plan) -> Result<(), Error> {
    let meta = &pod.meta;
    let status = pod.status.patch_to(&plan.status, &meta.uid).map(|patch| {
        Write::patch(
            Pod::KIND,
            &meta.namespace,
            &meta.name,
            PatchType::Strategic,
            &patch,
        )
        .on("status")
        .field_manager(FIELD_MANAGER)
    });
    let delete = plan
        .delete
        .then(|| Write::delete_exactly(Pod::KIND, meta).grace_seconds(0));
    for result in host
        .batch()
        .extend(status)
        .extend(delete)
        .stop_on_error()
        .run()
    {
        match result.found() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Pods bound to a node. Changes of their status are ignored, because this controller writes it.
fn pods() -> Watch {
    watch::<Pod>()
        .field_selector("spec.nodeName!=")
        .when(Change::Generation)
        .when_at(&[
            "metadata.annotations",
            "metadata.deletionTimestamp",
            "metadata.deletionGracePeriodSeconds",
        ])
        .enqueue(
            Mapping::itself()
                .queue(PODS)
                .on([DeltaType::Added, DeltaType::Modified]),
        )
}

/// Nodes. A deleted node is recreated, and the taint that a new node gets is removed.
fn nodes() -> Watch {
    watch::<node::Node>()
        .when_at(&["spec.taints"])
        .enqueue(Mapping::itself().queue(NODES))
}

/// Triggers the first heartbeat when the namespace of the leases exists: a new API server creates
/// it shortly after it starts.
fn namespace_of_leases() -> Watch {
    watch_kind("v1/Namespace")
        .metadata_only()
        .field_selector(&format!("metadata.name={}", node::LEASES))
        .enqueue(
            Mapping::key(heartbeat::ALL)
                .queue(NODES)
                .on([DeltaType::Added]),
        )
}

fn ticker() -> Ticker {
    Ticker {
        key: heartbeat::ALL.into(),
        queue: NODES.into(),
        period_ms: settings::HEARTBEAT_PERIOD.as_millis() as u32,
        config: "heartbeat-period".into(),
    }
}

#[cfg(test)]
mod tests;
