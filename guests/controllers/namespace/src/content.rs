//! Deletes the content of a namespace, pods first, and counts the remaining objects.
//!
//! Pods may need other objects until they have ended (network policies, quotas), so nothing else is
//! deleted while a pod remains (KEP-5080).
//!
//! Upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go: deleteAllContent,
//! deleteAllContentForGroupVersionResource, deleteCollection, listCollection, deleteEachItem,
//! estimateGracefulTermination, estimateGracefulTerminationForPods.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::kinds::Deletable;
use crate::views::{ITEM_FIELDS, Item, Namespace, Pod};

/// How long to wait for finalizers of objects, in seconds.
const FINALIZER_WAIT: u64 = 15;

/// The result of deleting a namespace's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Number of remaining objects by resource, as named in the conditions.
    pub remaining: BTreeMap<String, usize>,
    /// Number of remaining objects by finalizer.
    pub finalizers: BTreeMap<String, usize>,
    /// Errors of listing or deleting objects, at most one per kind.
    pub failures: Vec<String>,
    /// Seconds after which the remaining objects may be deleted; 0 if there is nothing to wait for.
    pub wait_seconds: u64,
}

/// Deletes the content of a namespace: pods and, once there are none, everything else.
pub fn delete(host: &Host, namespace: &Namespace, kinds: &[Deletable]) -> Content {
    let (pods, others): (Vec<&Deletable>, Vec<&Deletable>) =
        kinds.iter().partition(|kind| kind.is_pods());
    let mut content = Content::default();
    if !pods.is_empty() {
        match seconds_to_end(host, namespace) {
            Ok(seconds) => delete_all(host, &namespace.meta.name, &pods, seconds, &mut content),
            Err(error) => content.failures.push(error.message()),
        }
    }
    if content.remaining.is_empty() {
        delete_all(host, &namespace.meta.name, &others, 0, &mut content);
    }
    content
}

/// Returns how long the namespace's pods may take to end, in seconds; 0 if that time has passed
/// since the namespace was deleted.
fn seconds_to_end(host: &Host, namespace: &Namespace) -> Result<u64, Error> {
    let mut longest: i64 = 0;
    host.live()
        .each(Pod::KIND, &namespace.meta.name, Pod::FIELDS, |pod: Pod| {
            if !pod.has_ended() {
                longest = longest.max(pod.grace_seconds.unwrap_or(0));
            }
            Ok(())
        })?;
    let since = namespace
        .meta
        .deletion_timestamp
        .map_or(Duration::ZERO, |deleted| host.now().since(deleted));
    // Like Go, which counts the nanoseconds in 64 bits: a grace period of more than 292 years may have passed at once.
    let nanos = longest.wrapping_mul(1_000_000_000);
    let has_passed = i128::try_from(since.as_nanos()).is_ok_and(|since| since >= nanos.into());
    Ok(if has_passed {
        0
    } else {
        longest.unsigned_abs()
    })
}

/// Deletes all objects of these kinds and counts the remaining ones. `seconds` is how long their termination may take;
/// 0 if they should be deleted at once.
fn delete_all(
    host: &Host,
    namespace: &str,
    kinds: &[&Deletable],
    seconds: u64,
    content: &mut Content,
) {
    for (kind, deleted) in delete_collections(host, namespace, kinds) {
        let deleted = deleted.and_then(|is_deleted| match is_deleted {
            true => Ok(()),
            false => delete_each(host, namespace, kind),
        });
        let counted = deleted.and_then(|()| count(host, namespace, kind, seconds, content));
        if let Err(error) = counted {
            content.failures.push(error.message());
        }
    }
}

/// Deletes each kind's objects with one request; the kinds concurrently. Returns each kind, and
/// whether it supports the verb.
fn delete_collections<'k>(
    host: &Host,
    namespace: &str,
    kinds: &[&'k Deletable],
) -> Vec<(&'k Deletable, Result<bool, Error>)> {
    let (supporting, others): (Vec<&Deletable>, Vec<&Deletable>) =
        kinds.iter().partition(|kind| kind.has_delete_collection);
    let deletions = supporting.into_iter().map(|kind| {
        let deletion = Write::delete_collection(&kind.kind, namespace, "", "");
        (kind, deletion.propagation(Propagation::Background))
    });
    let results = host.tagged_batch().extend(deletions).run().into_iter();
    let results = results.map(|(kind, result)| match result {
        Ok(_) => (kind, Ok(true)),
        Err(error) if is_not_supported(&error) => (kind, Ok(false)),
        Err(error) => (kind, Err(error.into())),
    });
    let others = others.into_iter().map(|kind| (kind, Ok(false)));
    results.chain(others).collect()
}

/// Deletes the objects of a kind one by one.
fn delete_each(host: &Host, namespace: &str, kind: &Deletable) -> Result<(), Error> {
    let Some(items) = list(host, namespace, kind)? else {
        return Ok(());
    };
    let deletions = items
        .iter()
        .map(|item| delete_exactly(namespace, kind, &item.metadata));
    let results = host.batch().extend(deletions).run().into_iter();
    let mut failures = results
        .filter_map(Result::err)
        .filter(|error| !is_not_supported(error));
    failures.next().map_or(Ok(()), |error| Err(error.into()))
}

/// The write that deletes an object, with its UID as a precondition.
fn delete_exactly(namespace: &str, kind: &Deletable, meta: &Meta) -> Write {
    let write =
        Write::delete(&kind.kind, namespace, &meta.name).propagation(Propagation::Background);
    // Some aggregated servers give their objects no UID.
    if meta.uid.is_empty() {
        write
    } else {
        write.uid(&meta.uid)
    }
}

/// Counts the remaining objects of a kind. Objects that remain without a finalizer or a grace period are a failure.
fn count(
    host: &Host,
    namespace: &str,
    kind: &Deletable,
    seconds: u64,
    content: &mut Content,
) -> Result<(), Error> {
    let Some(items) = list(host, namespace, kind)?.filter(|items| !items.is_empty()) else {
        return Ok(());
    };
    content.remaining.insert(kind.resource(), items.len());
    let mut is_held = false;
    for finalizer in items.iter().flat_map(|item| &item.metadata.finalizers) {
        *content.finalizers.entry(finalizer.clone()).or_default() += 1;
        is_held = true;
    }
    let wait = match seconds {
        0 if is_held => FINALIZER_WAIT,
        seconds => seconds,
    };
    content.wait_seconds = content.wait_seconds.max(wait);
    if wait > 0 {
        return Ok(());
    }
    let Deletable {
        group,
        version,
        plural,
        ..
    } = kind;
    Err(Error::failed(format!(
        "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={plural}"
    )))
}

/// Lists the objects of a kind live; `None` if they can't be listed.
fn list(host: &Host, namespace: &str, kind: &Deletable) -> Result<Option<Vec<Item>>, Error> {
    if !kind.has_list {
        return Ok(None);
    }
    let mut items = Vec::new();
    let listed = host
        .live()
        .each(&kind.kind, namespace, ITEM_FIELDS, |item: Item| {
            items.push(item);
            Ok(())
        });
    match listed {
        Ok(()) => Ok(Some(items)),
        Err(error) if error.api().is_some_and(is_not_supported) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the server does not serve this kind or verb, even if discovery reports it. This happens
/// when a kind is being removed, and with some aggregated servers. A server that does not know the verb may say
/// `NotFound` instead of `MethodNotAllowed` (kubernetes/kubernetes#22413).
fn is_not_supported(error: &ApiError) -> bool {
    error.is_method_not_supported() || error.is_not_found()
}
