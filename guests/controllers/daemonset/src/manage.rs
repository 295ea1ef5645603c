//! Decides for each node which pods it needs and which it has too many of.
//!
//! Upstream: pkg/controller/daemon/daemon_controller.go: podsShouldBeOnNode, getUnscheduledPodsWithoutNode.

use std::time::Duration;

use crate::backoff::Backoffs;
use crate::observed::{ByNode, Observed, sort};
use crate::placement::Fit;
use crate::plan::{Note, Plan};
use crate::settings::Settings;
use crate::views::Pod;

/// Returns the pods to create and to delete so that each node has the pods that it should have. Deletions of failed
/// pods are entered in `backoffs`.
pub fn plan<'a>(
    observed: &Observed<'a>,
    by_node: &ByNode<'a>,
    backoffs: &mut Backoffs,
    settings: &Settings,
) -> Plan<'a> {
    let mut plan = Plan::default();
    for (node, &fit) in observed.fits {
        match by_node.get(node.as_str()) {
            None if fit.should_run() => plan.create.push(node),
            None => {}
            Some(pods) if fit.may_stay() => {
                let mut of_node = OfNode {
                    observed,
                    node,
                    plan: &mut plan,
                };
                let mut running = of_node.delete_ended(pods, backoffs, settings);
                sort(&mut running);
                of_node.keep_some(fit, running);
            }
            Some(pods) => {
                let present = pods.iter().copied().filter(|pod| !pod.is_deleting());
                plan.delete.extend(present);
            }
        }
    }
    plan.delete.extend(stranded(observed, by_node));
    plan
}

/// The decision about a node on which pods may stay.
struct OfNode<'p, 'a> {
    observed: &'p Observed<'a>,
    node: &'a str,
    plan: &'p mut Plan<'a>,
}

impl<'a> OfNode<'_, 'a> {
    /// Deletes pods that have ended, failed ones with backoff. Returns the running pods.
    fn delete_ended(
        &mut self,
        pods: &[&'a Pod],
        backoffs: &mut Backoffs,
        settings: &Settings,
    ) -> Vec<&'a Pod> {
        let mut running = Vec::new();
        for &pod in pods.iter().filter(|pod| !pod.is_deleting()) {
            match pod.phase.as_str() {
                "Failed" => match backoffs.pass(self.node, settings, self.observed.now) {
                    Ok(()) => {
                        let end = "will try to kill it";
                        self.note(true, "FailedDaemonPod", "failed", pod, end);
                        self.plan.delete.push(pod);
                    }
                    Err(wait) => self.requeue_after(wait),
                },
                "Succeeded" => {
                    let end = "will try to delete it";
                    self.note(false, "SucceededDaemonPod", "succeeded", pod, end);
                    self.plan.delete.push(pod);
                }
                _ => running.push(pod),
            }
        }
        running
    }

    /// Deletes the surplus among the running pods, which are sorted. Without surge, the first pod is kept.
    fn keep_some(&mut self, fit: Fit, running: Vec<&'a Pod>) {
        if !self.observed.set.allows_surge() {
            self.plan.delete.extend(running.into_iter().skip(1));
            return;
        }
        match running.as_slice() {
            // During a surge a node always has a pod that is not being deleted.
            [] if fit.should_run() => self.plan.create.push(self.node),
            [] | [_] => {}
            _ => self.keep_new_and_old(running),
        }
    }

    /// Keeps the first pod of the current revision and the first other one. The other one is deleted if
    /// it is not ready, or as soon as the current one is available.
    fn keep_new_and_old(&mut self, running: Vec<&'a Pod>) {
        let is_new = |pod: &&Pod| self.observed.has_hash(pod);
        let (new, old): (Vec<_>, Vec<_>) = running.into_iter().partition(is_new);
        for surplus in [&new, &old] {
            self.plan.delete.extend(surplus.iter().skip(1));
        }
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.is_ready() || self.observed.is_available(new))
        {
            self.plan.delete.push(old);
        }
    }

    fn note(&mut self, is_warning: bool, reason: &'static str, state: &str, pod: &Pod, end: &str) {
        let namespace = &self.observed.set.meta.namespace;
        let (name, node) = (&pod.name, self.node);
        self.plan.notes.push(Note {
            is_warning,
            reason,
            message: format!("Found {state} daemon pod {namespace}/{name} on node {node}, {end}"),
        });
    }

    fn requeue_after(&mut self, wait: Duration) {
        let earliest = self
            .plan
            .requeue_after
            .map_or(wait, |other| other.min(wait));
        self.plan.requeue_after = Some(earliest);
    }
}

/// Returns the pods that can never be scheduled, because their node does not exist. No other controller deletes them.
fn stranded<'a>(observed: &Observed<'a>, by_node: &ByNode<'a>) -> impl Iterator<Item = &'a Pod> {
    by_node
        .iter()
        .filter(|(node, _)| observed.fit(node).is_none())
        .flat_map(|(_, pods)| pods.iter().copied())
        .filter(|pod| !pod.is_scheduled() && !pod.is_deleting())
}
