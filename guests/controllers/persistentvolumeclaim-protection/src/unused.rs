//! The condition `Unused`: whether no pod refers to a claim, and since when.
//!
//! Upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go: updateUnusedCondition,
//! setUnusedCondition, findCondition.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;

use crate::Claim;
use crate::usage::{Purpose, is_used_in_cache, live_pods};

const UNUSED: &str = "Unused";

/// A claim with its whole status, which an update replaces.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
struct LiveClaim {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    meta: Meta,
    #[view(path = "status")]
    status: Map<String, Value>,
}

/// Updates the condition if it is absent or out of date.
///
/// # Errors
/// A read or the write failed.
pub fn report(host: &Host, claim: &Claim) -> Result<(), Error> {
    let Some(condition) = due_condition(host, claim)? else {
        return Ok(());
    };
    let Claim { meta, .. } = claim;
    let live = host.live().get::<LiveClaim>(&meta.namespace, &meta.name)?;
    let Some(mut live) = live.filter(|live| live.meta.uid == meta.uid && !live.meta.is_deleting())
    else {
        return Ok(());
    };
    set(&mut live.status, condition);
    host.update_status(Claim::KIND, &live.meta, &live.status)?;
    Ok(())
}

/// Returns the condition that is to be written, without its transition time; `None` if it holds already.
fn due_condition(host: &Host, claim: &Claim) -> Result<Option<Condition>, Error> {
    let is_reported_unused = claim.unused.as_deref() == Some("True");
    if is_used_in_cache(host, claim, Purpose::Unused)? {
        let is_due = claim.unused.is_none() || is_reported_unused;
        return Ok(is_due.then(|| used(host)));
    }
    // A pod that refers to the claim and is not in the cache yet will enqueue it.
    if is_reported_unused {
        return Ok(None);
    }
    let pods = live_pods(host, &claim.meta.namespace)?;
    let is_used = pods.iter().any(|pod| pod.uses(claim, Purpose::Unused));
    Ok(match is_used {
        true => claim.unused.is_none().then(|| used(host)),
        false => Some(unused(host)),
    })
}

fn used(host: &Host) -> Condition {
    condition(
        host,
        "False",
        "PodUsingPVC",
        "A pod is currently referencing this PVC",
    )
}

fn unused(host: &Host) -> Condition {
    condition(
        host,
        "True",
        "NoPodsUsingPVC",
        "No pods are currently referencing this PVC",
    )
}

fn condition(host: &Host, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        last_transition_time: Some(host.now()),
        ..Condition::new(UNUSED, status, reason, message)
    }
}

/// Replaces the condition in a status, or appends it. Other conditions keep fields that this controller does not
/// know.
fn set(status: &mut Map<String, Value>, condition: Condition) {
    let conditions = status.entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let conditions = conditions.as_array_mut().expect("set to an array above");
    let new = json!(condition);
    match conditions.iter_mut().find(|own| own["type"] == UNUSED) {
        Some(own) => *own = new,
        None => conditions.push(new),
    }
}
