//! Writes to a namespace: its phase, its conditions and its finalizer.
//!
//! Upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go: retryOnConflictError,
//! updateNamespaceStatusFunc, finalizeNamespace, finalized.
//! Upstream: pkg/controller/namespace/deletion/status_condition_utils.go: Update, updateConditions.

use std::collections::BTreeSet;

use flyball_sdk::prelude::*;
use flyball_sdk::{condition, warning};

use crate::views::Namespace;

/// The finalizer of this controller.
const FINALIZER: &str = "kubernetes";
const TERMINATING: &str = "Terminating";
/// Maximum number of attempts to write to a namespace that other clients keep changing. After that
/// the key is left to the queue's backoff.
const ATTEMPTS: usize = 10;

/// Writes to a namespace, if `write` returns a write. If the namespace has changed in the meantime,
/// it is read again and `write` is applied to the new version, but never to another namespace of
/// the same name. Returns the resulting namespace; `None` if it was deleted.
///
/// # Errors
/// The write or the read failed, or the namespace was replaced.
pub fn apply(
    host: &Host,
    mut namespace: Namespace,
    write: impl Fn(&Namespace) -> Option<Write>,
) -> Result<Option<Namespace>, Error> {
    let mut attempt = 1;
    loop {
        let Some(write) = write(&namespace) else {
            return Ok(Some(namespace));
        };
        match host.write(write.returning(Namespace::FIELDS)) {
            Ok(answer) => return answer.parse().map(Some),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(error.into()),
        }
        let Some(latest) = host.live().get::<Namespace>("", &namespace.meta.name)? else {
            return Ok(None);
        };
        if latest.meta.uid != namespace.meta.uid {
            return Err(Error::failed("namespace uid has changed across retries"));
        }
        namespace = latest;
    }
}

/// Returns the write that sets the phase of a namespace being deleted; `None` if it is set.
pub fn mark_terminating(namespace: &Namespace) -> Option<Write> {
    let is_due = namespace.meta.is_deleting() && namespace.phase != TERMINATING;
    is_due.then(|| status(namespace, TERMINATING, &namespace.conditions))
}

/// Returns the write that removes this controller's finalizer and keeps others; `None` if it is not
/// present.
pub fn finalize(namespace: &Namespace) -> Option<Write> {
    let others: BTreeSet<&String> = namespace
        .finalizers
        .iter()
        .filter(|name| *name != FINALIZER)
        .collect();
    let is_due = others.len() < namespace.finalizers.len();
    is_due.then(|| {
        let change = json!({"spec": {"finalizers": others}});
        Write::update(Namespace::KIND, &namespace.meta, &change).on("finalize")
    })
}

/// Writes the conditions if any has changed, and returns the resulting namespace. An error is
/// logged and not returned: the next reconcile writes them again.
pub fn set_conditions(host: &Host, namespace: Namespace, conditions: &[Condition]) -> Namespace {
    let mut updated = namespace.conditions.clone();
    let now = host.now();
    let mut has_changed = false;
    for condition in conditions {
        has_changed |= condition::set(&mut updated, condition.clone(), now);
    }
    if !has_changed {
        return namespace;
    }
    let write = status(&namespace, &namespace.phase, &updated).returning(Namespace::FIELDS);
    let written = host
        .write(write)
        .map_err(Error::from)
        .and_then(|answer| answer.parse());
    written.unwrap_or_else(|error| {
        warning!(host, "the conditions were not written: {}", error.message());
        namespace
    })
}

/// A write of the whole status.
fn status(namespace: &Namespace, phase: &str, conditions: &[Condition]) -> Write {
    let mut status = json!({"phase": phase});
    if !conditions.is_empty() {
        status["conditions"] = json!(conditions);
    }
    Write::update_status(Namespace::KIND, &namespace.meta, &status)
}
