//! Pods with the condition DisruptionTarget that are not being deleted: the component that announced the disruption has
//! failed to delete them. After some time, the condition is set to False.
//!
//! Upstream: pkg/controller/disruption/disruption.go: syncStalePodDisruption,
//! nonTerminatingPodHasStaleDisruptionCondition.

use std::time::Duration;

use flyball_pods::has_ended;
use flyball_sdk::info;
use flyball_sdk::prelude::*;

use crate::views::{DisruptedPod, Pod};

const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Sets the condition of the pod with this key to False if it is older than `timeout`.
///
/// # Errors
/// The pod can't be read or written.
pub fn reconcile(host: &Host, key: &Key, timeout: Duration) -> Result<Outcome, Error> {
    let Some(pod) = host.get_by_key::<DisruptedPod>(key)? else {
        return Ok(Outcome::Done);
    };
    let now = host.now();
    match time_left(&pod, timeout, now) {
        None => return Ok(Outcome::Done),
        Some(left) if !left.is_zero() => return Ok(Outcome::RequeueAfter(left)),
        Some(_) => {}
    }
    if host.write(reset(&pod, now)).found()?.is_some() {
        info!(
            host,
            "set the stale condition {DISRUPTION_TARGET} of pod {key} to False"
        );
    }
    Ok(Outcome::Done)
}

/// Returns the time until the condition of a pod is stale; `None` if it can't become stale.
pub fn time_left(pod: &DisruptedPod, timeout: Duration, now: Time) -> Option<Duration> {
    let condition = pod.condition.as_ref()?;
    // The condition of these pods never becomes stale: the kubelet may take any time to terminate a pod, and an ended
    // pod keeps the reason of its end.
    let is_pending = condition.is_true()
        && condition.reason != "TerminationByKubelet"
        && !has_ended(&pod.phase)
        && !pod.meta.is_deleting();
    let since = condition.last_transition_time.unwrap_or_default();
    is_pending.then(|| (since + timeout).from_now(now))
}

/// Returns the patch that sets the condition to False. The version is a precondition: a deletion or another disruption
/// may have begun in the meantime.
fn reset(pod: &DisruptedPod, now: Time) -> Write {
    let meta = &pod.meta;
    let condition = json!({
        "type": DISRUPTION_TARGET,
        "status": "False",
        "observedGeneration": meta.generation,
        "lastProbeTime": null,
        "lastTransitionTime": now.to_second(),
        "reason": null,
        "message": null,
    });
    let patch = json!({
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": [condition]},
    });
    let strategic = PatchType::Strategic;
    Write::patch(Pod::KIND, &meta.namespace, &meta.name, strategic, &patch).on("status")
}
