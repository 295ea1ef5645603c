//! A kubelet without containers: nodes and pods that behave as annotations say.
//!
//! It registers nodes and keeps them alive ([`node`], [`heartbeat`]), and makes the pods bound to
//! them what their annotations ask for: a [`script`] is read, the [`lifecycle`] says what the pod's
//! status should be by now, and what differs is written. `README.md` lists the configuration and
//! the annotations.
//!
//! The guest remembers nothing: when a container started, how often it was restarted and what is
//! due next are all told by the pod's own status.

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

use pod::Pod;
use script::Script;
use settings::Settings;
use status::Status;

/// The queue of pods, by their keys.
pub const PODS: &str = "pods";
/// The queue of nodes, by their names, and of [`heartbeat::ALL`].
pub const NODES: &str = "nodes";
/// The index of pods by their address.
const BY_ADDRESS: &str = "pod-ip";

/// The kubelet of all the fake nodes.
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
            .allow("v1/Node", ["create", "patch"])
            .allow_on("v1/Node", "status", ["patch"])
            .allow("coordination.k8s.io/v1/Lease", ["create", "patch"])
            .allow("v1/Pod", ["delete"])
            .allow_on("v1/Pod", "status", ["patch"])
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

/// Makes a pod what it should be by now, and comes back when the next change is due.
fn reconcile_pod(host: &Host, settings: &Settings, key: &Key) -> Result<Outcome, Error> {
    let Some(pod) = host.get_key::<Pod>(key)? else {
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

/// What the pod's annotations ask for. A pod that is being deleted must not stay because of a
/// typing error.
fn script_of(pod: &Pod) -> Result<Script, Error> {
    match Script::read(&pod.meta.annotations) {
        Ok(script) => Ok(script),
        Err(_) if pod.meta.is_deleting() => Ok(Script::default()),
        Err(problem) => Err(Error::terminal(problem.to_string())),
    }
}

/// Chooses an address that no other pod has, of those of the node.
fn give_address(
    host: &Host,
    settings: &Settings,
    node: u32,
    pod: &Pod,
    status: &mut Status,
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

/// Writes what differs, and then takes away a pod that has ended and is being deleted. A pod that
/// is gone needs neither.
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

/// The pods that are bound to a node. Their status does not count: this controller writes it.
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

/// The nodes. A deleted node is created again, and a node that was tainted when it was created
/// loses the taint.
fn nodes() -> Watch {
    watch::<node::Node>()
        .when_at(&["spec.taints"])
        .enqueue(Mapping::itself().queue(NODES))
}

/// The first heartbeat waits for the namespace of the leases, which a new API server creates a
/// moment after it starts.
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
