//! Reads and writes the revisions of an owner: a StatefulSet or a DaemonSet.
//!
//! Upstream: pkg/controller/history/controller_history.go: ListControllerRevisions, CreateControllerRevision,
//! UpdateControllerRevision, AdoptControllerRevision.

use flyball_ownership::adoption;
use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::name::{HASH_LABEL, hash, name};
use crate::revision::{ControllerRevision, NewRevision, sort};

/// Lists the revisions that match the selector and are controlled by the owner or by nobody, oldest
/// first.
///
/// # Errors
/// As [`List::all`](flyball_sdk::list::List::all).
pub fn list(
    host: &Host,
    owner: &Meta,
    selector: &LabelSelector,
) -> Result<Vec<ControllerRevision>, Error> {
    if selector.is_nothing() {
        return Ok(Vec::new());
    }
    let matching = || {
        host.list::<ControllerRevision>()
            .namespace(&owner.namespace)
            .labels(selector)
    };
    let mut revisions = matching().controller(&owner.uid).all()?;
    let orphans = matching().orphans().all()?;
    // The two lists are read at different times: a revision can be in both.
    let is_new =
        |one: &ControllerRevision| !revisions.iter().any(|own| own.meta.uid == one.meta.uid);
    let orphans: Vec<_> = orphans.into_iter().filter(is_new).collect();
    revisions.extend(orphans);
    sort(&mut revisions);
    Ok(revisions)
}

/// Makes the owner, of `kind`, the controller of all revisions that have none. `recheck` checks with
/// a live read whether the owner [`may_adopt`](flyball_ownership::may_adopt); it is called only if
/// there is an orphan.
///
/// # Errors
/// The owner may not adopt, or a write failed. No further write is started.
pub fn adopt(
    host: &Host,
    owner: &Meta,
    kind: &str,
    revisions: &mut [ControllerRevision],
    recheck: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let is_orphan = |one: &&mut ControllerRevision| one.meta.controller().is_none();
    let orphans: Vec<_> = revisions.iter_mut().filter(is_orphan).collect();
    if orphans.is_empty() {
        return Ok(());
    }
    recheck().doing(|| "can't adopt ControllerRevisions".into())?;
    let reference = owner.controller_reference(kind);
    let adoptions = orphans.into_iter().map(|orphan| {
        let adoption = adoption(
            ControllerRevision::KIND,
            &owner.namespace,
            &*orphan,
            &reference,
        );
        (orphan, adoption.returning(&["metadata.resourceVersion"]))
    });
    let batch = host.tagged_batch().extend(adoptions).stop_on_error();
    for (orphan, result) in batch.run() {
        let answered = result
            .map_err(Error::from)
            .and_then(|answer| answer.parse::<Answered>())
            .doing(|| format!("adopting ControllerRevision {}", orphan.meta.key()))?;
        orphan.meta.resource_version = answered.metadata.resource_version;
        orphan.meta.owner_references.push(reference.clone());
    }
    Ok(())
}

/// Creates a revision of the owner, of `kind`. If another revision has its name, returns that one if
/// it has the same data; otherwise increments `collisions` and tries the next name.
///
/// # Errors
/// A request failed.
pub fn create(
    host: &Host,
    owner: &Meta,
    kind: &str,
    new: &NewRevision,
    collisions: &mut i32,
) -> Result<ControllerRevision, Error> {
    let reference = owner.controller_reference(kind);
    // The label keeps the hash of the first try.
    let label = hash(&new.data, *collisions);
    loop {
        let name = name(&owner.name, &hash(&new.data, *collisions));
        let creation = new.creation(&owner.namespace, &name, (HASH_LABEL, &label), &reference);
        match host.write(creation) {
            Ok(answer) => {
                let mut meta = answer.parse::<Answered>()?.metadata;
                meta.labels = new.labels.clone();
                meta.labels.insert(HASH_LABEL.into(), label);
                meta.owner_references.push(reference);
                return Ok(ControllerRevision {
                    meta,
                    data: new.data.clone(),
                    revision: new.revision,
                });
            }
            Err(error) if error.is_already_exists() => {
                let existing = get_live(host, &owner.namespace, &name)?;
                if existing.data == new.data {
                    return Ok(existing);
                }
                *collisions += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Changes the number of a revision. Tries once more on the latest version if the revision has
/// changed since it was read.
///
/// # Errors
/// A request failed.
pub fn set_number(
    host: &Host,
    mut revision: ControllerRevision,
    number: i64,
) -> Result<ControllerRevision, Error> {
    match write_number(host, &mut revision, number) {
        Err(Error::Api(error)) if error.is_conflict() => {
            let Meta {
                namespace, name, ..
            } = &revision.meta;
            revision = get_live(host, namespace, name)?;
            write_number(host, &mut revision, number)?;
        }
        result => result?,
    }
    Ok(revision)
}

fn write_number(host: &Host, revision: &mut ControllerRevision, number: i64) -> Result<(), Error> {
    if revision.revision == number {
        return Ok(());
    }
    let change = json!({"revision": number});
    let update = Write::update(ControllerRevision::KIND, &revision.meta, &change)
        .returning(&["metadata.resourceVersion"]);
    let answered: Answered = host.write(update)?.parse()?;
    revision.meta.resource_version = answered.metadata.resource_version;
    revision.revision = number;
    Ok(())
}

fn get_live(host: &Host, namespace: &str, name: &str) -> Result<ControllerRevision, Error> {
    host.live()
        .get::<ControllerRevision>(namespace, name)?
        .ok_or_else(|| Error::failed(format!("ControllerRevision {namespace}/{name} was deleted")))
}

/// The response to a write.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answered {
    metadata: Meta,
}

#[cfg(test)]
mod tests;
