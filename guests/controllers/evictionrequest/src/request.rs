//! Reconciles an EvictionRequest: creates the Eviction that it asks for, and copies the conditions of that.
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_controller.go: syncEvictionRequest, validateEvictionRequest.
//! Upstream: pkg/controller/evictionrequest/evictionrequest_utils.go: convertToEvictionRequestConditions,
//! hasEvictionRequestCompleted, hasEvictionIntent, evictionRequestAsOwnerReference.

use std::time::Duration;

use flyball_sdk::condition;
use flyball_sdk::prelude::*;
use serde::Serialize;

use crate::conditions::{AWAITING, Applied, Conditions, INVALID, Present};
use crate::eviction::{evictions_of, requests_for};
use crate::target::Target;
use crate::views::{EVICTED, Eviction, EvictionName, EvictionRequest, FAILED, PodReference};
use crate::write::{self, Labelled};
use crate::{REQUESTS, names, relevant};

/// How long a request waits for its target to appear: both may have been created at the same time.
const PRESENCE: Duration = Duration::from_secs(3);
/// The value of the label of a requester.
pub const REQUESTER: &str = "requester";

/// The status that the controller applies.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    observed_generation: i64,
    conditions: [Applied; 2],
}

/// The result of checking a request.
#[derive(Debug, PartialEq)]
enum Check {
    Valid,
    /// The conditions say why the request can't be met.
    Invalid(Conditions),
    /// The target may appear within this time.
    Early(Conditions, Duration),
}

/// Creates the Eviction that a request asks for, if there is none, and writes the request's status if it has changed.
///
/// # Errors
/// A read or a write failed.
pub fn reconcile(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let found = host.get_by_key::<EvictionRequest>(key)?;
    let Some(request) = found.filter(|request| !is_settled(request)) else {
        return Ok(Outcome::Done);
    };
    let present = Present {
        conditions: &request.conditions,
        now: host.now(),
    };
    let Some(pod) = &request.pod else {
        let refused = present.failed(INVALID, "Unsupported target type.");
        write_status(host, &request, refused)?;
        return Ok(Outcome::Done);
    };
    let target = Target::read(host, &key.namespace, pod)?;
    let evictions = evictions_of(host, &key.namespace, pod)?;
    let (conditions, again_after) =
        match check(&request, &target, !evictions.is_empty(), present.now) {
            Check::Invalid(conditions) => (conditions, None),
            Check::Early(conditions, wait) => (conditions, Some(wait)),
            Check::Valid => {
                create_if_wanted(host, &request, pod, &evictions)?;
                let relevant = relevant::of(&evictions).eviction;
                (copied(relevant, &present), None)
            }
        };
    let written = write_status(host, &request, conditions);
    host.queue().due_after(REQUESTS, key, again_after, written)
}

/// Whether a request needs nothing more: its target was evicted or it is invalid, and its status says so.
fn is_settled(request: &EvictionRequest) -> bool {
    let is_true = |condition_type| {
        condition::get(&request.conditions, condition_type).filter(|found| found.is_true())
    };
    let has_ended = is_true(EVICTED).is_some()
        || is_true(FAILED).is_some_and(|failed| failed.reason == INVALID);
    has_ended && !has_new_generation(request)
}

/// Checks whether the target can be evicted, unless that has begun.
fn check(request: &EvictionRequest, target: &Target, has_evictions: bool, now: Time) -> Check {
    let present = Present {
        conditions: &request.conditions,
        now,
    };
    let message = match &target.pod {
        None if !has_evictions => {
            let created = request.meta.creation_timestamp.unwrap_or_default();
            let rest = PRESENCE.saturating_sub(now.since(created));
            if !rest.is_zero() {
                let waiting = "Waiting for the target to appear.";
                return Check::Early(present.awaiting(waiting, waiting), rest);
            }
            "Target pod not found.".into()
        }
        Some(pod) if !has_evictions && pod.meta.uid != target.reference.uid => format!(
            "Target pod UID mismatch: expected {}, got {}.",
            target.reference.uid, pod.meta.uid
        ),
        _ if target.has_group() => {
            "Target pod references a SchedulingGroup. Eviction is currently not supported.".into()
        }
        _ => return Check::Valid,
    };
    Check::Invalid(present.failed(INVALID, &message))
}

/// Creates an Eviction if none goes on or has succeeded, and a requester wants one.
fn create_if_wanted(
    host: &Host,
    request: &EvictionRequest,
    pod: &PodReference,
    evictions: &[Eviction],
) -> Result<(), Error> {
    let namespace = &request.meta.namespace;
    let requests = requests_for(host, namespace, pod)?;
    let is_wanted = requests.iter().any(EvictionRequest::wants_eviction);
    if !is_wanted || !relevant::of(evictions).may_begin_again {
        return Ok(());
    }
    let all = host.list::<EvictionName>().namespace(namespace).all()?;
    let names = all.iter().map(|eviction| eviction.meta.name.as_str());
    let new = Labelled {
        name: names::next(&pod.name, names),
        namespace: namespace.clone(),
        labels: [(request.requester.clone(), REQUESTER.into())].into(),
        owners: vec![write::owner(&request.meta)],
        target: pod.clone(),
    };
    write::eviction(host, &new)
}

/// The conditions of an Eviction for a request.
fn copied(eviction: Option<&Eviction>, present: &Present) -> Conditions {
    let copy = |condition_type| {
        let own = eviction.and_then(|one| condition::get(&one.conditions, condition_type));
        match own {
            Some(own) => present.with(condition_type, &own.status, &own.reason, &own.message),
            None => {
                let message = "waiting for an Eviction to report on progress";
                present.with(condition_type, "False", AWAITING, message)
            }
        }
    };
    Conditions {
        failed: copy(FAILED),
        evicted: copy(EVICTED),
    }
}

/// Writes the status of a request if it has changed.
fn write_status(
    host: &Host,
    request: &EvictionRequest,
    conditions: Conditions,
) -> Result<(), Error> {
    if !conditions.have_changed() && !has_new_generation(request) {
        return Ok(());
    }
    let status = Status {
        observed_generation: request.meta.generation,
        conditions: conditions.into_list(),
    };
    write::status(host, EvictionRequest::KIND, &request.meta, &status)
}

fn has_new_generation(request: &EvictionRequest) -> bool {
    request.observed_generation != Some(request.meta.generation)
}
