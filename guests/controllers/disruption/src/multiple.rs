//! Warns about pods that several budgets select. The API server refuses to evict them.
//!
//! Upstream: pkg/controller/disruption/disruption.go: getPdbForPod.

use std::time::Duration;

use flyball_sdk::info;
use flyball_sdk::prelude::*;

use crate::pods;
use crate::views::{Budget, LabelledPod, Rival};

/// Emits an event about each pod of a budget that another budget selects as well, once for each version of the pod.
///
/// As in kube-controller-manager, a change of the pod causes the event, and a change of the budget does not. So the
/// first reconcile after a change of the budget only records the pods' versions.
///
/// # Errors
/// A list failed, or the selector is invalid.
pub fn warn(host: &Host, budget: &Budget) -> Result<(), Error> {
    let Meta {
        namespace, name, ..
    } = &budget.meta;
    let rivals = host.list::<Rival>().namespace(namespace).all()?;
    let selector = pods::selector(budget)?;
    if rivals.len() < 2 || selector.is_nothing() {
        return Ok(());
    }
    let pods = host.list().namespace(namespace).labels(&selector).all()?;
    for (pod, chosen) in contested(name, &pods, &rivals) {
        if !is_new_version(host, pod) || budget.has_changed() {
            continue;
        }
        let message = format!(
            "Pod {namespace:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {chosen:?} arbitrarily.",
            pod.name
        );
        info!(host, "{message}");
        let about = pod.reference(namespace);
        let reason = "MultiplePodDisruptionBudgets";
        host.emit(Event::warning(&about, reason, &message));
    }
    Ok(())
}

/// Returns the pods of the budget `own` that another budget selects as well, each with the first of its budgets by
/// name. `rivals` are all budgets of the namespace, sorted by name; a budget with an invalid selector selects nothing.
pub fn contested<'a>(
    own: &'a str,
    pods: &'a [LabelledPod],
    rivals: &'a [Rival],
) -> Vec<(&'a LabelledPod, &'a str)> {
    let others: Vec<(&str, LabelSelector)> = rivals
        .iter()
        .filter(|rival| rival.name != own)
        .filter_map(|rival| {
            let selector = LabelSelector::of_json(rival.selector.text().as_bytes());
            Some((rival.name.as_str(), selector.ok()?))
        })
        .collect();
    let with_first = |pod: &'a LabelledPod| {
        let other = others
            .iter()
            .find(|(_, selector)| selector.matches(&pod.labels));
        other.map(|&(other, _)| (pod, other.min(own)))
    };
    pods.iter().filter_map(with_first).collect()
}

/// Records the version of a pod. Returns whether the version is new.
fn is_new_version(host: &Host, pod: &LabelledPod) -> bool {
    let (memo, key) = (host.memo(), format!("contested/{}", pod.uid));
    if memo.get::<String>(&key).as_ref() == Some(&pod.resource_version) {
        return false;
    }
    // If the memo is full, the event is repeated.
    let _ = memo.put(&key, &pod.resource_version, &pod.uid, Duration::ZERO);
    true
}
