//! Finds or creates the revision of a DaemonSet's current template, and deletes old revisions.
//!
//! Upstream: pkg/controller/daemon/update.go: constructHistory, cleanupHistory, maxRevision, dedupCurHistories,
//! snapshot, Match, getPatch.

use std::collections::HashSet;

use flyball_pods::PodTemplateMeta;
use flyball_revisions::{ControllerRevision, NewRevision};
use flyball_revisions::{exact_data, next_number, set_number, sort, surplus};
use flyball_sdk::prelude::*;
use flyball_template_hash::{name, template_hash};
use serde::Deserialize;

use crate::observed::HASH_LABEL;
use crate::ownership;
use crate::views::{DaemonSet, Pod, Presence};

/// The revisions of a DaemonSet.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The hash of the current revision, which the pods of the current template have as a label.
    pub hash: String,
    /// All other revisions, oldest first.
    pub old: Vec<ControllerRevision>,
}

/// Returns the revisions, with one of the current template that is the newest. Claims revisions,
/// labels them, and unites those with the same data.
///
/// # Errors
/// A read or a write failed.
pub fn history(
    host: &Host,
    set: &DaemonSet,
    template: &PodTemplateMeta,
    selector: &LabelSelector,
) -> Result<History, Error> {
    let data = exact_data(&set.template);
    let mut all = ownership::revisions(host, set, selector)?;
    for revision in &mut all {
        label(host, revision)?;
    }
    sort(&mut all);
    let (mut equal, old): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.data == data);

    let number = next_number(&old);
    let current = match equal.pop() {
        None => {
            let new = NewRevision {
                labels: template.labels.clone(),
                annotations: set.meta.annotations.clone(),
                data,
                revision: number,
            };
            create(host, set, &new)?
        }
        Some(newest) => {
            if !equal.is_empty() {
                unite(host, set, selector, &newest, &equal)?;
            }
            match newest.revision < number {
                true => set_number(host, newest, number)?,
                false => newest,
            }
        }
    };
    Ok(History {
        hash: hash_of(&current).unwrap_or_default().into(),
        old,
    })
}

/// Deletes the oldest revisions beyond the limit, except for those whose pods exist.
///
/// # Errors
/// A deletion failed. No further one is started.
pub fn clean_up(
    host: &Host,
    set: &DaemonSet,
    old: &[ControllerRevision],
    pods: &[Pod],
) -> Result<(), Error> {
    let limit = set.revision_history_limit.unwrap_or(10);
    let count = old
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or(0));
    if count == 0 {
        return Ok(());
    }
    let pods = pods.iter().filter(|pod| pod.target_node().is_some());
    let live: HashSet<&str> = pods
        .filter_map(|pod| pod.labels.label(HASH_LABEL))
        .collect();
    let is_live = |one: &ControllerRevision| hash_of(one).is_some_and(|hash| live.contains(hash));
    delete(host, surplus(old, count, is_live))
}

/// Labels a revision that has no hash with its name, which no other revision has. A computed hash could collide.
fn label(host: &Host, revision: &mut ControllerRevision) -> Result<(), Error> {
    if hash_of(revision).is_some() {
        return Ok(());
    }
    let name = revision.meta.name.clone();
    let change = json!({"metadata": {"labels": {HASH_LABEL: name}}});
    let update = Write::update(ControllerRevision::KIND, &revision.meta, &change)
        .returning(&["metadata.resourceVersion"]);
    let Versioned { metadata } = host.write(update)?.parse()?;
    revision.meta.resource_version = metadata.resource_version;
    revision.meta.labels.insert(HASH_LABEL.into(), name);
    Ok(())
}

/// Gives the pods of all equal revisions to the newest one, and deletes the others.
fn unite(
    host: &Host,
    set: &DaemonSet,
    selector: &LabelSelector,
    newest: &ControllerRevision,
    others: &[ControllerRevision],
) -> Result<(), Error> {
    let pods = ownership::pods(host, set, selector)?;
    let hash = hash_of(newest);
    let labels = json!({"metadata": {"labels": {HASH_LABEL: hash}}});
    let patches = pods
        .iter()
        .filter(|pod| pod.labels.label(HASH_LABEL) != hash)
        .map(|pod| {
            let (namespace, name) = (&set.meta.namespace, &pod.name);
            Write::patch(Pod::KIND, namespace, name, PatchType::Merge, &labels)
        });
    for result in host.batch().extend(patches).stop_on_error().run() {
        result?;
    }
    delete(host, others.iter())
}

/// Creates the revision of the current template.
///
/// # Errors
/// A request failed; or another revision with other data has the name. Then the number of collisions
/// in the status was incremented, and a retry creates the revision under another name.
fn create(host: &Host, set: &DaemonSet, new: &NewRevision) -> Result<ControllerRevision, Error> {
    let (namespace, collisions) = (&set.meta.namespace, set.status.collision_count);
    let hash = template_hash(&set.template, collisions.map(i64::from));
    let name = name(&set.meta.name, &hash);
    let owner = set.meta.controller_reference(DaemonSet::KIND);
    let refused = match host.write(new.creation(namespace, &name, (HASH_LABEL, &hash), &owner)) {
        Ok(_) => {
            let mut created = ControllerRevision::default();
            created.meta.labels.insert(HASH_LABEL.into(), hash);
            return Ok(created);
        }
        Err(error) if error.is_already_exists() => error,
        Err(error) => return Err(error.into()),
    };

    let existing = host.live().get::<ControllerRevision>(namespace, &name)?;
    let existing = existing.ok_or_else(|| gone("ControllerRevision", namespace, &name))?;
    if existing.data == new.data {
        return Ok(existing);
    }
    let live = host.live().get::<Presence>(namespace, &set.meta.name)?;
    let Presence { meta, mut status } =
        live.ok_or_else(|| gone("DaemonSet", namespace, &set.meta.name))?;
    if status.collision_count != collisions {
        return Err(Error::failed(format!(
            "found a stale collision count ({}, expected {}) of DaemonSet {:?} while processing; \
             will retry until it is updated",
            collisions.unwrap_or(0),
            status.collision_count.unwrap_or(0),
            set.meta.name
        )));
    }
    status.collision_count = Some(collisions.unwrap_or(0) + 1);
    host.update_status(DaemonSet::KIND, &meta, &status)?;
    Err(refused.into())
}

fn delete<'a>(
    host: &Host,
    revisions: impl Iterator<Item = &'a ControllerRevision>,
) -> Result<(), Error> {
    let deletions = revisions.map(|one| Write::delete_exactly(ControllerRevision::KIND, &one.meta));
    for result in host.batch().extend(deletions).stop_on_error().run() {
        result.found()?;
    }
    Ok(())
}

fn hash_of(revision: &ControllerRevision) -> Option<&str> {
    revision.meta.label(HASH_LABEL)
}

fn gone(kind: &str, namespace: &str, name: &str) -> Error {
    Error::failed(format!("{kind} {namespace}/{name} was deleted"))
}

/// The response to an update.
#[derive(Deserialize)]
struct Versioned {
    metadata: Meta,
}
