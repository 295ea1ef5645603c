//! Evicts one pod, and remembers whether its eviction is pending.
//!
//! Upstream: pkg/controller/devicetainteviction/device_taint_eviction.go: maybeDeletePod, addConditionAndDeletePod,
//! evictPod, cancelEvict, handlePod, emitPodDeletionEvent, emitCancelPodDeletionEvent.

use std::time::Duration;

use flyball_pods::disruption::{Disruption, Target};
use flyball_sdk::info;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::pods::Scope;
use crate::taints::{Devices, Eviction};
use crate::views::{Claim, LivePod, Pod};
use crate::{EVICTED, count, has_rules, pods, rules};

/// The counter of deleted pods.
pub const DELETED: &str = "device_taint_eviction_controller_pod_deletions_total";
/// The histogram of the delay between the time when a pod's deletion was due and its deletion, in seconds.
pub const DURATION: &str = "device_taint_eviction_controller_pod_deletion_duration_seconds";

/// The reason of the events.
const REASON: &str = "DeviceTaintManagerEviction";

/// The condition of an evicted pod.
const DISRUPTION: Disruption = Disruption {
    reason: "DeletionByDeviceTaintManager",
    message: "Device Taint manager: deleting due to NoExecute taint",
};

/// The state of a pod's eviction. The memo keeps it while the pod exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Progress {
    /// The pod's eviction is pending.
    Pending,
    /// The pod was deleted. It is left alone until its kubelet has ended it.
    Evicted,
}

/// Whether the eviction of a pod is pending.
pub fn is_pending(host: &Host, pod: &Meta) -> bool {
    state(host, pod) == Some(Progress::Pending)
}

fn state(host: &Host, pod: &Meta) -> Option<Progress> {
    host.memo().get(&of_pod(pod))
}

fn of_pod(pod: &Meta) -> String {
    format!("pod/{}", pod.uid)
}

/// Decides whether a pod is evicted, and evicts it once its eviction is due.
///
/// # Errors
/// A read or a write failed.
pub fn reconcile(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let Some(pod) = host.get_by_key::<Pod>(key)? else {
        return Ok(Outcome::Done);
    };
    let before = state(host, &pod.meta);
    let Some(eviction) = decide(host, &pod)? else {
        if before == Some(Progress::Pending) {
            host.memo().remove(&of_pod(&pod.meta));
            emit(host, &pod.meta, "Cancelling deletion");
        }
        return Ok(Outcome::Done);
    };
    if before == Some(Progress::Evicted) {
        return Ok(Outcome::Done);
    }
    if before.is_none() {
        remember(host, &pod.meta, Progress::Pending)?;
    }
    rules::update_later(host, &eviction)?;
    let wait = eviction.at.from_now(host.now());
    if !wait.is_zero() {
        return Ok(Outcome::RequeueAfter(wait));
    }
    let is_deleted = delete(host, &pod.meta).doing(|| format!("deleting pod {key}"))?;
    remember(host, &pod.meta, Progress::Evicted)?;
    if is_deleted {
        let late = host.now().since(eviction.at);
        host.metrics().add(DELETED, &[], 1.0);
        host.metrics().observe(DURATION, &[], late.as_secs_f64());
        for rule in eviction.rules.keys() {
            host.queue()
                .add(EVICTED, &count::key(rule, &pod.meta.uid))?;
        }
    }
    Ok(Outcome::Done)
}

/// Reads the claims of a pod and their devices. Pods without claims cost nothing.
fn decide(host: &Host, pod: &Pod) -> Result<Option<Eviction>, Error> {
    let (mut claims, scope) = (Vec::new(), Scope::read(host));
    for reference in pods::references(pod, scope) {
        claims.extend(host.get::<Claim>(&pod.meta.namespace, reference.name)?);
    }
    let devices = Devices::of_claims(host, &claims, has_rules(host))?;
    Ok(pods::eviction(pod, &claims, &devices, scope))
}

fn remember(host: &Host, pod: &Meta, state: Progress) -> Result<(), Error> {
    let memo = host.memo();
    Ok(memo.put(&of_pod(pod), &state, &pod.uid, Duration::ZERO)?)
}

/// Marks and deletes a pod. Returns false if it no longer existed. As in kube-controller-manager, a pod that is being
/// deleted already counts as deleted.
fn delete(host: &Host, pod: &Meta) -> Result<bool, Error> {
    let live = host.live().get::<LivePod>(&pod.namespace, &pod.name)?;
    let Some(live) = live.filter(|live| live.meta.uid == pod.uid) else {
        return Ok(false);
    };
    if live.meta.is_deleting() {
        return Ok(true);
    }
    emit(host, pod, "Marking for deletion");
    let target = Target {
        pod: &live.meta,
        before: live.disruption.as_ref(),
        observed_generation: None,
    };
    let result = DISRUPTION.delete(host, [((), target)]).pop();
    let ((), result) = result.expect("one result for each pod");
    let deleted = result.found()?;
    if deleted.is_some() {
        info!(
            host,
            "deleted pod {}: it does not tolerate a taint of its devices",
            pod.key()
        );
    }
    Ok(deleted.is_some())
}

/// Emits an event about a pod. Like kube-controller-manager's event, it doesn't contain the pod's resource version.
fn emit(host: &Host, pod: &Meta, message: &str) {
    let about = flyball_sdk::ObjectReference {
        resource_version: String::new(),
        ..pod.reference(Pod::KIND)
    };
    host.emit(Event::normal(&about, REASON, message));
}
