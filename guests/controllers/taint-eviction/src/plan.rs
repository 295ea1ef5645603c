//! Decides which pods of a node are evicted, now or later: a pure function of the objects that were read.
//!
//! Upstream: pkg/controller/tainteviction/taint_eviction.go: processPodOnNode.

use std::time::Duration;

use flyball_sdk::Key;
use flyball_sdk::prelude::*;
use flyball_taints::Taint;

use crate::evict::is_evicted;
use crate::timers::Timer;
use crate::tolerance::{Tolerance, tolerance};
use crate::views::Pod;

/// The taints of a node that evict pods; `None` if the node does not exist. Then nothing is decided anew, and pending
/// evictions stay pending.
pub type Taints = Option<Vec<Taint>>;

/// The evictions of the pods of a node.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The pods to delete, each with the time for which its deletion has been due.
    pub evict: Vec<(Pod, Duration)>,
    /// The pending evictions afterwards, including those of `evict`, until the pods are deleted.
    pub timers: Vec<Timer>,
    /// The pods whose pending eviction ends.
    pub cancelled: Vec<Key>,
}

/// Returns the plan for the pods of a node. `compares` is the value of
/// [`COMPARISON_OPERATORS`](flyball_taints::COMPARISON_OPERATORS).
///
/// A pending eviction keeps its time if the taints or the tolerations change, as in kube-controller-manager, unless the
/// pod tolerates all taints for ever, or one of them not at all.
pub fn plan(taints: &Taints, pods: Vec<Pod>, timers: &[Timer], now: Time, compares: bool) -> Plan {
    let mut plan = Plan::default();
    let of_pod = |timer: &&Timer, pod: &Pod| timer.uid == pod.meta.uid;
    let is_gone = |timer: &&Timer| !pods.iter().any(|pod| of_pod(timer, pod));
    let gone = timers.iter().filter(is_gone);
    let cancelled = gone.filter(|timer| !timer.is_second_look);
    plan.cancelled.extend(cancelled.map(Timer::pod));
    for pod in pods {
        let timer = timers.iter().find(|timer| of_pod(timer, &pod));
        let tolerance = match taints {
            None => None,
            Some(taints) if taints.is_empty() => Some(Tolerance::Forever),
            Some(taints) => Some(tolerance(taints, &pod.tolerations, compares)),
        };
        if is_evicted(&pod) {
            if tolerance != Some(Tolerance::Forever) {
                look_again(&mut plan, pod, timer, now);
            }
            continue;
        }
        match (tolerance, timer) {
            (Some(Tolerance::Forever), timer) => plan.cancelled.extend(timer.map(Timer::pod)),
            (Some(Tolerance::None), timer) => {
                plan.cancelled.extend(timer.map(Timer::pod));
                plan.evict.push((pod, Duration::ZERO));
            }
            (_, Some(timer)) => {
                plan.timers.push(timer.clone());
                if timer.is_due {
                    plan.evict.push((pod, timer.late(now)));
                }
            }
            (Some(Tolerance::For(Duration::ZERO)), None) => plan.evict.push((pod, Duration::ZERO)),
            (Some(Tolerance::For(delay)), None) => {
                plan.timers.push(Timer::new(&pod.meta, now, delay));
            }
            (None, None) => {}
        }
    }
    plan
}

/// Plans for an evicted pod, which its kubelet has not ended yet. If its deletion still looks incomplete at the second
/// look, the API server was interrupted, and the pod is evicted again.
fn look_again(plan: &mut Plan, pod: Pod, timer: Option<&Timer>, now: Time) {
    if !pod.meta.has_incomplete_deletion() {
        return;
    }
    let known = timer.filter(|timer| timer.is_second_look).cloned();
    let timer = known.unwrap_or_else(|| Timer::second_look(&pod.meta, now));
    if timer.is_due {
        plan.evict.push((pod, timer.late(now)));
    }
    plan.timers.push(timer);
}
