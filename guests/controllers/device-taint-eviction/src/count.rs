//! Counts the pods that were evicted because of a rule, in the memo.
//!
//! Pods are evicted concurrently. If two calls change the same entry of the memo, one of them loses its change. So the
//! entry holds which pods were counted, and each pod has a key of its own that is reconciled until the entry has it.
//!
//! Upstream: pkg/controller/devicetainteviction/device_taint_eviction.go: addConditionAndDeletePod,
//! maybeUpdateRuleStatus.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::rules;

/// The time between counting a pod and checking that the entry has it.
const CHECK: Duration = Duration::from_secs(1);
/// The entries of a rule: the last character of the pods' UIDs selects one.
const PARTS: &str = "0123456789abcdef";

/// The key of a pod that was evicted because of a rule.
pub fn key(rule_uid: &str, pod_uid: &str) -> Key {
    Key::new(rule_uid, pod_uid)
}

/// Counts the pod of a key.
///
/// # Errors
/// The memo is full.
pub fn reconcile(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let (rule, pod) = (&key.namespace, &key.name);
    let last = pod.chars().last().unwrap_or('0');
    let part = PARTS.chars().find(|part| *part == last).unwrap_or('0');
    let entry = entry(rule, part);
    let mut counted: Vec<String> = host.memo().get(&entry).unwrap_or_default();
    if counted.contains(pod) {
        // The rule may have been updated while the pod was being evicted.
        rules::update_later_by_uid(host, rule)?;
        return Ok(Outcome::Done);
    }
    counted.push(pod.clone());
    host.memo().put(&entry, &counted, rule, Duration::ZERO)?;
    Ok(Outcome::RequeueAfter(CHECK))
}

/// Returns how many pods were evicted because of a rule since the controller started.
pub fn evicted(host: &Host, rule_uid: &str) -> usize {
    let part = |part| host.memo().get::<Vec<String>>(&entry(rule_uid, part));
    PARTS.chars().filter_map(part).map(|pods| pods.len()).sum()
}

fn entry(rule_uid: &str, part: char) -> String {
    format!("evicted/{rule_uid}/{part}")
}
