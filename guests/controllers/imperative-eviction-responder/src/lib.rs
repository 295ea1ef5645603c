//! imperative-eviction-responder-controller: the responder that all pods have (KEP-4563).
//!
//! Responders take turns in evicting the pod of an Eviction. This one is the last. It evicts the pod by its subresource
//! `eviction` ([`evict`]), and [`report`]s in the Eviction's status until the pod is gone.
//!
//! Keys name Evictions.
//!
//! Upstream: pkg/controller/imperativeevictionresponder/imperative_eviction_responder_controller.go: NewController, sync,
//! deletePod, listActiveEvictionsForPod.

pub mod evict;
pub mod report;
pub mod views;

#[cfg(test)]
mod tests;

use flyball_pods::{may_be_over, watch_until_over};
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

use report::{Finding, HEARTBEAT};
use views::{BY_POD, EVICTOR, Eviction, Pod, Report};

/// The name of the controller, of its queue and of the manager of the fields that it applies.
const NAME: &str = "imperative-eviction-responder-controller";

/// The controller.
pub struct ImperativeResponder;

export!(ImperativeResponder);

impl Controller for ImperativeResponder {
    fn describe() -> Description {
        let evictions = watch::<Eviction>()
            .when_at(&[
                "metadata.labels['imperative-eviction.k8s.io/evictor']",
                "status.targetResponders",
                "status.responders[*].name",
            ])
            .enqueue(
                Mapping::itself()
                    .on([DeltaType::Added, DeltaType::Modified])
                    .having_any(&["metadata.labels['imperative-eviction.k8s.io/evictor']"]),
            );
        describe(NAME, env!("CARGO_PKG_VERSION"))
            .watch(evictions)
            .watch(watch_until_over::<Pod>(Eviction::KIND))
            .index(BY_POD, Eviction::KIND, "spec.target.pod.uid")
            .queue(NAME)
            .permission_on(Eviction::KIND, "status", ["patch"])
            .permission_on(Pod::KIND, "eviction", ["create"])
            .memo_schema(1)
            .concurrency(5)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let found = host.get_by_key::<Eviction>(&request.key)?;
        let Some((eviction, (target, present))) =
            { found.as_ref() }.and_then(|eviction| Some((eviction, eviction.turn()?)))
        else {
            return Ok(Outcome::Done);
        };
        let pod = host.get::<Pod>(&eviction.meta.namespace, &target.name)?;
        let last_message = present.message.as_deref().unwrap_or_default();
        let (mut refused, mut again_after) = (None, None);
        let (message, finished) = match report::find(target, pod.as_ref(), last_message) {
            Finding::Evicted(message) => (message, Some((host.now(), true))),
            Finding::Ending(message, at) => {
                again_after = Some(HEARTBEAT);
                (message, Some((at, false)))
            }
            Finding::Running(pod) => {
                let attempt = evict::evict(host, pod, last_message);
                (refused, again_after) = (attempt.refused, attempt.again_after);
                (attempt.message, None)
            }
        };
        if let Some(new) = report::next(present, &message, finished, host.now()) {
            write(host, &eviction.meta, &new)?;
            evict::remember(host, &target.uid, refused)?;
        }
        // Between two attempts, there are reports.
        let again_after = again_after.map(|delay| delay.min(HEARTBEAT));
        Ok(again_after.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    /// Enqueues the Evictions of a pod that is being deleted, has ended or is gone.
    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let mut keys = Vec::new();
        for delta in deltas {
            let (before, after) = (delta.before::<Pod>()?, delta.after::<Pod>()?);
            let is_over = may_be_over(
                before.as_ref().map(Pod::life),
                after.as_ref().map(Pod::life),
            );
            if let Some(pod) = before.filter(|_| is_over) {
                let evictions = host.list::<Eviction>().namespace(&pod.meta.namespace);
                let evictions = evictions.index(BY_POD, &pod.meta.uid).all()?;
                keys.extend({ evictions.iter() }.map(|one| RoutedKey::now(one.meta.key())));
            }
        }
        Ok(keys)
    }
}

/// Applies this responder's report, which is the only part of the status that it manages.
fn write(host: &Host, eviction: &Meta, report: &Report) -> Result<(), Error> {
    let (namespace, name) = (&eviction.namespace, &eviction.name);
    let applied = json!({
        "apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "status": {"responders": [report]},
    });
    let write = Write::patch(Eviction::KIND, namespace, name, PatchType::Apply, &applied);
    { host.write(write.on("status").field_manager(NAME).force()) }
        .doing(|| format!("applying the report of {EVICTOR} on {}", eviction.key()))
        .map(drop)
}
