//! Reconciles the status of an Eviction: its requesters, its responders and its conditions.
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_controller.go: syncEviction, validateEviction,
//! computeEvictionStatus, computeEvictionConditions.

use std::time::Duration;

use flyball_sdk::prelude::*;
use serde::Serialize;

use crate::conditions::{Applied, Conditions, INVALID, Present};
use crate::relevant;
use crate::responders::{self, ACTIVE, End};
use crate::target::Target;
use crate::views::{
    BY_TARGET, Eviction, EvictionRequest, PodReference, Requester, TargetResponder,
};
use crate::{EVICTIONS, requesters, terminal, write};

/// The status that the controller applies.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    observed_generation: i64,
    conditions: [Applied; 2],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requesters: Vec<Requester>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    target_responders: Vec<TargetResponder>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    responders: Vec<Started>,
}

/// The controller's part of a responder's report. All responders have one, or the server would remove the rest of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<Time>,
}

/// The result of a computation.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    pub status: Status,
    /// Whether the status has to be written.
    pub has_changed: bool,
    pub again_after: Option<Duration>,
    /// Whether the eviction has ended.
    pub is_final: bool,
}

/// Writes the status of an Eviction if it has changed.
///
/// # Errors
/// A read or the write failed.
pub fn reconcile(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let found = host.get_by_key::<Eviction>(key)?;
    let Some(eviction) = found.filter(|eviction| !eviction.has_completed()) else {
        return Ok(Outcome::Done);
    };
    let now = host.now();
    let computed = match &eviction.pod {
        Some(pod) => of_pod(host, &eviction, pod, now)?,
        None => invalid(&eviction, "Unsupported target type.", now),
    };
    let written = match computed.has_changed {
        true => write::status(host, Eviction::KIND, &eviction.meta, &computed.status),
        false => Ok(()),
    };
    if computed.is_final && written.is_ok() {
        terminal::forget(host, &eviction.meta.uid);
    }
    host.queue()
        .due_after(EVICTIONS, key, computed.again_after, written)
}

/// Reads what an Eviction of a pod depends on, and computes its status.
fn of_pod(
    host: &Host,
    eviction: &Eviction,
    pod: &PodReference,
    now: Time,
) -> Result<Computed, Error> {
    let namespace = &eviction.meta.namespace;
    let target = Target::read(host, namespace, pod)?;
    let all = evictions_of(host, namespace, pod)?;
    if let Some(message) = refusal(eviction, &all, &target) {
        return Ok(invalid(eviction, message, now));
    }
    let requests = requests_for(host, namespace, pod)?;
    let end = end(&target, &requests);
    let terminal_time = terminal::time(host, &eviction.meta.uid, &target, end, now)?;
    Ok(compute(
        eviction,
        &target,
        &requests,
        end,
        terminal_time,
        now,
    ))
}

/// Returns the EvictionRequests for a target, ordered by name.
///
/// # Errors
/// The list failed.
pub fn requests_for(
    host: &Host,
    namespace: &str,
    target: &PodReference,
) -> Result<Vec<EvictionRequest>, Error> {
    let requests = host.list::<EvictionRequest>().namespace(namespace);
    requests.index(BY_TARGET, &target.uid).all()
}

/// Returns the Evictions of a target, ordered by name.
///
/// # Errors
/// The list failed.
pub fn evictions_of(
    host: &Host,
    namespace: &str,
    target: &PodReference,
) -> Result<Vec<Eviction>, Error> {
    let evictions = host.list::<Eviction>().namespace(namespace);
    evictions.index(BY_TARGET, &target.uid).all()
}

/// Why an Eviction can't begin, given all of its target.
fn refusal(eviction: &Eviction, all: &[Eviction], target: &Target) -> Option<&'static str> {
    let most = relevant::of(all).eviction;
    if most.is_some_and(|most| !most.has_completed() && most.meta.uid != eviction.meta.uid) {
        return Some("Active Eviction already exists for the same target.");
    }
    (target.has_group())
        .then_some("Target pod references a SchedulingGroup. Eviction is currently not supported.")
}

fn invalid(eviction: &Eviction, message: &str, now: Time) -> Computed {
    let conditions = present(eviction, now).failed(INVALID, message);
    let has_changed = conditions.have_changed() || has_new_generation(eviction);
    Computed {
        status: Status {
            observed_generation: eviction.meta.generation,
            conditions: conditions.into_list(),
            requesters: Vec::new(),
            target_responders: Vec::new(),
            responders: Vec::new(),
        },
        has_changed,
        again_after: None,
        is_final: true,
    }
}

/// Why the eviction needs no further responder.
pub fn end(target: &Target, requests: &[EvictionRequest]) -> Option<End> {
    if target.is_gone() {
        Some(End::Gone)
    } else if target.is_terminal() {
        Some(End::Terminal)
    } else if requests.iter().any(EvictionRequest::wants_eviction) {
        None
    } else {
        Some(End::Canceled)
    }
}

/// Computes the whole status.
pub fn compute(
    eviction: &Eviction,
    target: &Target,
    requests: &[EvictionRequest],
    end: Option<End>,
    terminal_time: Option<Time>,
    now: Time,
) -> Computed {
    let (requesters, mut has_changed) =
        requesters::all(&eviction.requesters, requests, requesters::MOST);
    let mut all = responders::all(eviction, target);
    has_changed |= eviction.target_responders.is_empty() && !all.is_empty();
    let before = all.clone();
    let step = responders::progress(&mut all, eviction, end, terminal_time, now);
    has_changed |= all != before;
    let started: Vec<Started> = all.iter().map(|one| start(eviction, one, now)).collect();
    let begins = |one: &Started| {
        let known = eviction.report(&one.name);
        one.start_time.is_some() && known.is_none_or(|known| known.start_time.is_none())
    };
    has_changed |= started.iter().any(begins);
    let has_ended = matches!(end, Some(End::Gone | End::Terminal));
    let active = responders::active(&all).and_then(|one| eviction.report(&one.name));
    let awaited = Some(()).filter(|()| has_ended);
    let awaited = awaited.and_then(|()| responders::last_report_due(active, terminal_time, now));
    let conditions = conditions(
        &present(eviction, now),
        end,
        step.is_done,
        awaited.is_some(),
    );
    has_changed |= conditions.have_changed() || has_new_generation(eviction);
    Computed {
        is_final: conditions.are_final(),
        status: Status {
            observed_generation: eviction.meta.generation,
            conditions: conditions.into_list(),
            requesters,
            target_responders: all,
            responders: started,
        },
        has_changed,
        again_after: if has_ended { awaited } else { step.again_after },
    }
}

/// The controller's part of a responder's report. The time at which it became active stays.
fn start(eviction: &Eviction, responder: &TargetResponder, now: Time) -> Started {
    let known = { eviction.report(&responder.name) }.and_then(|report| report.start_time);
    Started {
        name: responder.name.clone(),
        start_time: known.or_else(|| (responder.state == ACTIVE).then_some(now)),
    }
}

/// The conditions, given whether the responders are done and whether the last report of the active one is awaited.
fn conditions(
    present: &Present,
    end: Option<End>,
    is_done: bool,
    awaits_report: bool,
) -> Conditions {
    match end {
        Some(End::Gone) if !awaits_report => {
            present.evicted("PodDeleted", "Target pod has been deleted.")
        }
        Some(End::Terminal) if !awaits_report => {
            present.evicted("PodTerminal", "Pod has reached terminal state.")
        }
        Some(End::Canceled) => present.failed(
            "CanceledDueToNoRequesters",
            "No active requesters with eviction intent.",
        ),
        _ if is_done => present.failed(
            "NoFurtherResponder",
            "All responders have completed without evicting the target.",
        ),
        _ if awaits_report => present.awaiting(
            "",
            "Target is evicted, but waiting for the last active responder update.",
        ),
        _ => present.awaiting("", ""),
    }
}

fn present(eviction: &Eviction, now: Time) -> Present<'_> {
    Present {
        conditions: &eviction.conditions,
        now,
    }
}

fn has_new_generation(eviction: &Eviction) -> bool {
    eviction.observed_generation != Some(eviction.meta.generation)
}
