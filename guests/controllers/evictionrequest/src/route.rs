//! Turns changes into keys: an Eviction and its requests share a target.
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_controller.go: NewController, enqueueEvictionForEvictionRequest,
//! enqueueEvictionRequestsForEviction, enqueueEvictionRefresh, enqueueEvictionRefreshesForEvictionRequest, deletePod.

use flyball_pods::may_be_over;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey, condition};

use crate::eviction::{evictions_of, requests_for};
use crate::views::{EVICTED, Eviction, EvictionRequest, FAILED, Pod, PodReference};
use crate::{EVICTIONS, METADATA, REQUESTS};

/// Returns the keys that changes enqueue, besides those of the changed objects themselves.
///
/// # Errors
/// A list failed.
pub fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
    let mut keys = Vec::new();
    for delta in deltas {
        match delta.watch.as_str() {
            Eviction::KIND => of_eviction(host, delta, &mut keys)?,
            EvictionRequest::KIND => of_request(host, delta, &mut keys)?,
            _ => of_pod(host, delta, &mut keys)?,
        }
    }
    Ok(keys)
}

fn of_eviction(host: &Host, delta: &Delta, keys: &mut Vec<RoutedKey>) -> Result<(), Error> {
    let [before, after] = [delta.before::<Eviction>()?, delta.after::<Eviction>()?];
    if let Some(after) = &after {
        let is_same = |before: &Eviction| {
            (&before.meta.labels, &before.meta.owner_references)
                == (&after.meta.labels, &after.meta.owner_references)
        };
        if !before.as_ref().is_some_and(is_same) {
            keys.push(in_queue(METADATA, after.meta.key()));
        }
    }
    // A new Eviction has no conditions yet.
    let Some(before) = before else {
        return Ok(());
    };
    let is_same = |after: &Eviction| {
        [EVICTED, FAILED].iter().all(|one| {
            condition::get(&before.conditions, one) == condition::get(&after.conditions, one)
        })
    };
    if let (Some(pod), false) = (&before.pod, after.as_ref().is_some_and(is_same)) {
        let requests = requests_for(host, &before.meta.namespace, pod)?;
        keys.extend({ requests.iter() }.map(|one| in_queue(REQUESTS, one.meta.key())));
    }
    Ok(())
}

fn of_request(host: &Host, delta: &Delta, keys: &mut Vec<RoutedKey>) -> Result<(), Error> {
    let before = delta.before::<EvictionRequest>()?;
    let after = delta.after::<EvictionRequest>()?;
    let (changes_intent, is_other) = match (&before, &after) {
        (Some(before), Some(after)) => (
            before.intent != after.intent || before.meta.is_deleting() != after.meta.is_deleting(),
            before.meta.uid != after.meta.uid,
        ),
        _ => (true, true),
    };
    for request in [before.filter(|_| is_other), after].into_iter().flatten() {
        let (namespace, Some(pod)) = (&request.meta.namespace, &request.pod) else {
            continue;
        };
        if changes_intent || is_other {
            add_evictions(host, namespace, pod, EVICTIONS, keys)?;
        }
        if is_other {
            add_evictions(host, namespace, pod, METADATA, keys)?;
        }
    }
    Ok(())
}

fn of_pod(host: &Host, delta: &Delta, keys: &mut Vec<RoutedKey>) -> Result<(), Error> {
    let [before, after] = [delta.before::<Pod>()?, delta.after::<Pod>()?];
    let is_over = may_be_over(
        before.as_ref().map(Pod::life),
        after.as_ref().map(Pod::life),
    );
    if let Some(pod) = before.filter(|_| is_over) {
        let reference = PodReference {
            name: pod.meta.name.clone(),
            uid: pod.meta.uid.clone(),
        };
        add_evictions(host, &pod.meta.namespace, &reference, EVICTIONS, keys)?;
    }
    Ok(())
}

/// Adds the keys of the Evictions of a target.
fn add_evictions(
    host: &Host,
    namespace: &str,
    target: &PodReference,
    queue: &str,
    keys: &mut Vec<RoutedKey>,
) -> Result<(), Error> {
    let evictions = evictions_of(host, namespace, target)?;
    keys.extend({ evictions.iter() }.map(|one| in_queue(queue, one.meta.key())));
    Ok(())
}

fn in_queue(queue: &str, key: Key) -> RoutedKey {
    RoutedKey {
        queue: queue.into(),
        ..RoutedKey::now(key)
    }
}
