//! Rewrites the objects of a migration.
//!
//! The objects are listed in pages, and one page is rewritten in each reconcile. The memo keeps the token of the next page
//! and the counts of objects. Without it, the migration begins again: objects that were rewritten are newer than the
//! migration's version.
//!
//! kube-controller-manager takes the objects from the cache of its garbage collector, and waits until that is not older than
//! the migration. It never ends the migration of a resource that the garbage collector doesn't watch, such as events. Of
//! objects in later pages, it already knows which are newer than the migration; here they count as not yet migrated.
//!
//! Before Kubernetes 1.37, each object was applied with its UID, and conditions had no counts.
//!
//! Upstream: pkg/controller/storageversionmigrator/storageversionmigrator.go: sync, runMigration, updateRunningCondition,
//! isRetriableError, failMigration, failMigrationWithObjectsMigrated.

use std::time::Duration;

use flyball_sdk::imports::Read;
use flyball_sdk::live::{LiveList, PAGE};
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::MIGRATIONS;
use crate::resource::Served;
use crate::version::Version;
use crate::views::{Counts, Migration};

/// The field manager of the patches. They own nothing.
const MANAGER: &str = "storage-version-migrator-controller";
/// How long the token of a page is kept. The API server forgets it after about five minutes.
const TOKEN_KEPT: Duration = Duration::from_secs(300);

/// How far a migration is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Progress {
    /// The version at which the migration starts.
    version: String,
    /// The token of the next page; empty for the first one.
    token: String,
    counts: Counts,
}

/// An object to rewrite.
#[derive(Clone, Debug, Default, Deserialize)]
struct Object {
    metadata: Meta,
}

/// What became of a page.
#[derive(Debug)]
struct Rewritten {
    /// How many of the objects need no migration any more.
    done: usize,
    /// The first error of the others.
    failure: Option<Failure>,
}

#[derive(Debug)]
enum Failure {
    /// An object's version is malformed. Nothing was rewritten.
    Malformed(String),
    /// The API server was too busy. The page is to be tried again.
    Busy(ApiError),
    /// No retry resolves it.
    Refused(String),
}

/// Rewrites the next page of a migration's objects, and ends the migration after the last one.
pub(crate) fn rewrite(host: &Host, migration: &Migration) -> Result<(), Error> {
    let version = &migration.status.resource_version;
    if migration.has_ended() || version.is_empty() {
        return Ok(());
    }
    let Some(resource) = migration.resource.served(host)? else {
        if migration.is_new(host)? {
            return Err(Error::failed("the resource is not served yet"));
        }
        return fail(host, migration, "unable to obtain GVR from discovery");
    };
    let version = match Version::parse(version) {
        Ok(version) => version,
        Err(error) => {
            let error =
                format!("error comparing resource versions between GC and SVM resource: {error}");
            return fail(host, migration, &error);
        }
    };
    let (mut counts, page) = next_page(host, migration, &resource)?;
    let Rewritten { done, failure } = rewrite_page(host, &resource, version, &page.items);
    counts.left = counts.left.saturating_sub(done);
    match failure {
        None => go_on(host, migration, page.metadata.continue_token, counts),
        Some(Failure::Malformed(error)) => fail(host, migration, &error),
        Some(Failure::Refused(error)) if !host.release_at_least(37) => {
            fail(host, migration, &error)
        }
        Some(Failure::Refused(error)) => migration.fail_after(host, counts, &error),
        Some(Failure::Busy(error)) => {
            if host.release_at_least(37) {
                migration.report(host, counts, &error.message)?;
            }
            Err(error.into())
        }
    }
}

/// Reads the next page of the objects. The counts are those before it is rewritten.
fn next_page(
    host: &Host,
    migration: &Migration,
    resource: &Served,
) -> Result<(Counts, LiveList<Object>), Error> {
    let uid = &migration.meta.uid;
    let progress: Progress = host.memo().get(uid).unwrap_or_default();
    let mut parameters = vec![("limit".to_owned(), PAGE.to_string())];
    let is_begun =
        progress.version == migration.status.resource_version && !progress.token.is_empty();
    if is_begun {
        parameters.push(("continue".into(), progress.token));
    }
    let read = Read::List {
        kind: resource.0.kind.clone(),
        namespace: String::new(),
        parameters,
        fields: vec!["metadata.name".into()],
    };
    let page = host.live().batch().with(read).run().pop();
    let page = page.ok_or_else(|| Error::failed("the host returned no list"))?;
    if page.as_ref().is_err_and(|error| error.status == 410) {
        // The token is too old.
        host.memo().remove(uid);
    }
    let page: LiveList<Object> = page
        .doing(|| format!("listing {}", resource.shown()))?
        .parse()?;
    let counts = match is_begun {
        true => progress.counts,
        false => {
            let remaining = page.metadata.remaining_item_count.unwrap_or_default();
            let total = page.items.len() + usize::try_from(remaining).unwrap_or_default();
            Counts { left: total, total }
        }
    };
    Ok((counts, page))
}

/// Rewrites the objects that are not newer than the migration: first one of them, so that objects that can't be rewritten
/// cost one write, and twice as many after each round without a failure.
fn rewrite_page(host: &Host, resource: &Served, version: Version, objects: &[Object]) -> Rewritten {
    let is_merge = host.release_at_least(37);
    let mut writes = Vec::new();
    for Object { metadata } in objects {
        match Version::parse(&metadata.resource_version) {
            Err(error) => {
                return Rewritten {
                    done: 0,
                    failure: Some(Failure::Malformed(error)),
                };
            }
            Ok(own) if own > version => {}
            Ok(_) if is_merge => writes.push(unchanged(resource, metadata)),
            Ok(_) => writes.push(applied(resource, metadata)),
        }
    }
    let mut done = objects.len() - writes.len();
    let mut failure = None;
    let (mut writes, mut round) = (writes.into_iter(), 1);
    while writes.len() > 0 && failure.is_none() {
        for result in host.batch().extend(writes.by_ref().take(round)).run() {
            let error = match result {
                Ok(_) => None,
                // The object was updated or deleted in the meantime.
                Err(error) if error.is_conflict() || is_merge && error.is_not_found() => None,
                Err(error) => Some(error),
            };
            match error {
                None => done += 1,
                Some(error) if failure.is_some() => drop(error),
                Some(error) if is_transient(&error) => failure = Some(Failure::Busy(error)),
                Some(error) => failure = Some(Failure::Refused(error.message)),
            }
        }
        round *= 2;
    }
    Rewritten { done, failure }
}

/// Returns a merge patch that changes nothing. With the version, it conflicts if the object was changed or created again.
fn unchanged(resource: &Served, object: &Meta) -> Write {
    let metadata = json!({"resourceVersion": object.resource_version});
    patch(resource, object, PatchType::Merge, metadata)
}

/// Returns an apply that changes nothing. With the UID and the version, it conflicts if the object was changed, deleted or
/// created again.
fn applied(resource: &Served, object: &Meta) -> Write {
    let metadata = json!({"uid": object.uid, "resourceVersion": object.resource_version});
    patch(resource, object, PatchType::Apply, metadata)
}

fn patch(resource: &Served, object: &Meta, patch_type: PatchType, metadata: Value) -> Write {
    let (api_version, kind) = resource.type_of_objects();
    let body = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    let Meta {
        namespace, name, ..
    } = object;
    Write::patch(&resource.0.kind, namespace, name, patch_type, &body).field_manager(MANAGER)
}

/// Whether a later attempt may succeed.
fn is_transient(error: &ApiError) -> bool {
    matches!(error.status, 429 | 500 | 503 | 504)
}

/// Goes on with the page of this token, or ends the migration if there is none.
fn go_on(host: &Host, migration: &Migration, token: String, counts: Counts) -> Result<(), Error> {
    let uid = &migration.meta.uid;
    if token.is_empty() {
        host.memo().remove(uid);
        return migration.succeed(host, counts);
    }
    let progress = Progress {
        version: migration.status.resource_version.clone(),
        token,
        counts,
    };
    host.memo().put(uid, &progress, uid, TOKEN_KEPT)?;
    host.queue().add(MIGRATIONS, &migration.meta.key())?;
    Ok(())
}

fn fail(host: &Host, migration: &Migration, error: &str) -> Result<(), Error> {
    migration.fail(
        host,
        &format!("migration encountered unhandled error: {error}"),
    )
}
