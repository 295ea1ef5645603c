//! The condition of a DeviceTaintRule: how many pods it evicts, or would evict.
//!
//! Upstream: pkg/controller/devicetainteviction/device_taint_eviction.go: handleRuleChange, maybeUpdateRuleStatus,
//! countPendingPods, countTaintedDevices.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_taints::NO_EXECUTE;

use crate::pods::Scope;
use crate::taints::{Devices, Eviction, current};
use crate::views::{Claim, Rule, Slice};
use crate::{ALL_POOLS, NAME, POOLS, count, pods};

/// The type of the condition.
const IN_PROGRESS: &str = "EvictionInProgress";
/// The effect of a rule that evicts nothing. Its status shows the pods that it would evict.
const NO_EFFECT: &str = "None";
/// The shortest time between two updates of a status.
const PERIOD: Duration = Duration::from_secs(10);

/// Enqueues the rules that evict a pod, so that their status is updated.
///
/// # Errors
/// The queue is full.
pub fn update_later(host: &Host, eviction: &Eviction) -> Result<(), Error> {
    let mut names = eviction.rules.values();
    names.try_for_each(|name| enqueue(host, name))
}

/// Enqueues the rule with this UID, if it exists, so that its status is updated.
///
/// # Errors
/// The rules can't be read, or the queue is full.
pub fn update_later_by_uid(host: &Host, uid: &str) -> Result<(), Error> {
    let rules = host.list::<Rule>().all()?;
    let mut found = rules.iter().filter(|rule| rule.meta.uid == uid);
    found.try_for_each(|rule| enqueue(host, &rule.meta.name))
}

fn enqueue(host: &Host, name: &str) -> Result<(), Error> {
    Ok(host.queue().add_after("", &Key::new("", name), PERIOD)?)
}

/// Updates the status of a rule. After a change of its spec, the pods that it affects are enqueued afterwards, so that
/// the status shows them first.
///
/// # Errors
/// A read or a write failed.
pub fn reconcile(host: &Host, name: &str) -> Result<Outcome, Error> {
    let Some(rule) = host.get::<Rule>("", name)? else {
        host.queue().add(POOLS, &Key::parse(ALL_POOLS))?;
        return Ok(Outcome::Done);
    };
    if let Some(wait) = wait(&rule, host.now()) {
        return Ok(Outcome::RequeueAfter(wait));
    }
    let result = update(host, &rule);
    if !is_observed(&rule) {
        host.queue().add(POOLS, &Key::parse(ALL_POOLS))?;
    }
    result.map(|()| Outcome::Done)
}

/// Whether the condition describes the current spec.
fn is_observed(rule: &Rule) -> bool {
    let generation = rule
        .condition
        .as_ref()
        .and_then(|one| one.observed_generation);
    generation == Some(rule.meta.generation)
}

/// The time until the next update is allowed; `None` if it is.
fn wait(rule: &Rule, now: Time) -> Option<Duration> {
    let last = rule.condition.as_ref()?.last_transition_time?;
    let wait = (last + PERIOD).from_now(now);
    (is_observed(rule) && !wait.is_zero()).then_some(wait)
}

fn update(host: &Host, rule: &Rule) -> Result<(), Error> {
    let numbers = match rule.taint.effect.as_str() {
        NO_EXECUTE | NO_EFFECT => count(host, rule)?,
        _ => Numbers::default(),
    };
    let condition = condition(rule, &numbers, count::evicted(host, &rule.meta.uid));
    if rule.condition.as_ref() == Some(&condition) {
        return Ok(());
    }
    let (group_version, kind) = host.kind::<Rule>().rsplit_once('/').unwrap_or_default();
    let status = json!({
        "apiVersion": group_version,
        "kind": kind,
        "metadata": {"name": rule.meta.name, "uid": rule.meta.uid},
        "status": {"conditions": [{
            "type": condition.condition_type,
            "status": condition.status,
            "reason": condition.reason,
            // The message is written even if it is empty, because the field is required.
            "message": condition.message,
            "observedGeneration": condition.observed_generation,
            "lastTransitionTime": host.now(),
        }]},
    });
    let write = Write::patch(
        host.kind::<Rule>(),
        "",
        &rule.meta.name,
        PatchType::Apply,
        &status,
    )
    .on("status")
    .field_manager(NAME)
    .force();
    host.write(write)
        .doing(|| format!("updating the status of DeviceTaintRule {}", rule.meta.name))?;
    Ok(())
}

/// The numbers of objects that a rule affects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pub pods: usize,
    pub namespaces: usize,
    /// Devices in slices; counted only for the effect `None`.
    pub published: usize,
    /// Devices in allocations.
    pub allocated: usize,
}

/// Counts as if the rule evicted.
fn count(host: &Host, rule: &Rule) -> Result<Numbers, Error> {
    let is_selected = |claim: &Claim| {
        let mut devices = claim.devices.iter();
        devices.any(|one| rule.selects(&one.driver, &one.pool, &one.device))
    };
    let mut claims = host.list::<Claim>().all()?;
    claims.retain(is_selected);
    let mut numbers = Numbers::default();
    if rule.taint.effect == NO_EFFECT {
        numbers.published = published(rule, &host.list::<Slice>().all()?);
        let devices = claims.iter().flat_map(|claim| &claim.devices);
        numbers.allocated = devices
            .filter(|one| rule.selects(&one.driver, &one.pool, &one.device))
            .count();
    }
    let alone = Devices {
        slices: Vec::new(),
        rules: vec![rule.clone()],
    };
    let scope = Scope::read(host);
    let (mut found, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    for claim in claims
        .iter()
        .filter(|claim| alone.eviction(claim).is_some())
    {
        for pod in pods::referencing(host, &claim.meta.key())? {
            if !pod.meta.is_deleting() && pods::is_consumer(&pod, claim, scope) {
                namespaces.insert(pod.meta.namespace);
                found.insert(pod.meta.uid);
            }
        }
    }
    (numbers.pods, numbers.namespaces) = (found.len(), namespaces.len());
    Ok(numbers)
}

/// The number of published devices that a rule selects.
fn published(rule: &Rule, slices: &[Slice]) -> usize {
    let mut by_pool: BTreeMap<(&str, &str), Vec<&Slice>> = BTreeMap::new();
    for slice in slices {
        let pool = by_pool.entry((&slice.driver, &slice.pool)).or_default();
        pool.push(slice);
    }
    let current = by_pool
        .values()
        .flat_map(|pool| current(pool.iter().copied()));
    let selected = current.map(|slice| {
        let devices = slice.devices.iter();
        devices
            .filter(|device| rule.selects(&slice.driver, &slice.pool, &device.name))
            .count()
    });
    selected.sum()
}

/// Returns the condition of a rule that affects these numbers of objects and has evicted `evicted` pods. Its transition
/// time is copied from the current condition.
pub fn condition(rule: &Rule, numbers: &Numbers, evicted: usize) -> Condition {
    let before = rule.condition.as_ref();
    let mut parts = Vec::new();
    let (status, reason) = match rule.taint.effect.as_str() {
        NO_EXECUTE if numbers.pods > 0 => {
            let pods = counted(numbers.pods, "pod needs", "pods need");
            let namespaces = namespaces(numbers.namespaces);
            parts.push(format!("{pods} to be evicted in {namespaces}."));
            ("True", "PodsPendingEviction")
        }
        NO_EXECUTE if evicted > 0 => ("False", "Completed"),
        NO_EXECUTE => ("False", "NotStarted"),
        NO_EFFECT => {
            for (number, what) in [
                (numbers.published, "published"),
                (numbers.allocated, "allocated"),
            ] {
                let devices = if number == 1 { "device" } else { "devices" };
                parts.push(format!("{number} {what} {devices} selected."));
            }
            parts.push(format!(
                "{} would be evicted in {} if the effect was NoExecute.",
                counted(numbers.pods, "pod", "pods"),
                namespaces(numbers.namespaces),
            ));
            parts.push(
                "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
                    .into(),
            );
            ("False", "NoEffect")
        }
        _ => {
            parts.push("Eviction only happens for the NoExecute effect.".into());
            ("False", "OtherEffect")
        }
    };
    if evicted > 0 {
        let pods = counted(evicted, "pod", "pods");
        parts.push(format!("{pods} evicted since starting the controller."));
    }
    Condition {
        observed_generation: Some(rule.meta.generation),
        last_transition_time: before.and_then(|before| before.last_transition_time),
        ..Condition::new(IN_PROGRESS, status, reason, &parts.join(" "))
    }
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn namespaces(number: usize) -> String {
    counted(number, "namespace", "different namespaces")
}
