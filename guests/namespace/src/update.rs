//! Writes to a namespace: its phase, its conditions, and the finalizer by which it is held.

use std::collections::BTreeSet;

use flyball_sdk::prelude::*;
use flyball_sdk::{condition, warning};

use crate::failure::said;
use crate::views::Namespace;

/// The finalizer that is ours.
const FINALIZER: &str = "kubernetes";
const TERMINATING: &str = "Terminating";
/// How often a write is made to a namespace that others keep changing before its key is left to the
/// queue's backoff.
const ATTEMPTS: usize = 10;

/// Makes a write to a namespace, if there is one to be made. If the namespace has changed
/// meanwhile, it is read anew and the write is made to what it is then, but never to another
/// namespace of its name. Answers the namespace as it is afterwards; none if it is gone.
///
/// # Errors
/// The write, or reading the namespace anew, failed; or another namespace has taken its place.
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
        let Some(latest) = host.reader().get::<Namespace>("", &namespace.meta.name)? else {
            return Ok(None);
        };
        if latest.meta.uid != namespace.meta.uid {
            return Err(Error::failed("namespace uid has changed across retries"));
        }
        namespace = latest;
    }
}

/// The write that gives a namespace that is being deleted its phase; none if it has it.
pub fn mark_terminating(namespace: &Namespace) -> Option<Write> {
    let is_due = namespace.meta.is_deleting() && namespace.phase != TERMINATING;
    is_due.then(|| status(namespace, TERMINATING, &namespace.conditions))
}

/// The write that takes our finalizer from a namespace and leaves those of others; none if ours is
/// not there.
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

/// Sets the conditions, if that changes any, and answers the namespace as it is then. That it can't
/// be done is no reason to stop: it is logged, and tried again with the next reconcile.
pub fn tell(host: &Host, namespace: Namespace, conditions: &[Condition]) -> Namespace {
    let mut told = namespace.conditions.clone();
    let now = host.now();
    let mut has_changed = false;
    for condition in conditions {
        has_changed |= condition::set(&mut told, condition.clone(), now);
    }
    if !has_changed {
        return namespace;
    }
    let write = status(&namespace, &namespace.phase, &told).returning(Namespace::FIELDS);
    let written = host
        .write(write)
        .map_err(Error::from)
        .and_then(|answer| answer.parse());
    written.unwrap_or_else(|error| {
        warning!(host, "the conditions were not written: {}", said(&error));
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
