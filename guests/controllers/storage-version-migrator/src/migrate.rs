//! Rewrites the objects of a migration.
//!
//! The objects are listed in pages, and one page is rewritten in each reconcile. The memo keeps the token of the next page.
//! Without it, the migration begins again: objects that were rewritten are newer than the migration's version.
//!
//! kube-controller-manager takes the objects from the cache of its garbage collector, and waits until that is not older than
//! the migration. It never ends the migration of a resource that the garbage collector doesn't watch, such as events.
//!
//! Upstream: pkg/controller/storageversionmigrator/storageversionmigrator.go: sync, runMigration, isRetriableError,
//! failMigration.

use std::time::Duration;

use flyball_sdk::imports::Read;
use flyball_sdk::live::{LiveList, PAGE};
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::MIGRATIONS;
use crate::resource::Served;
use crate::version::Version;
use crate::views::{Migration, SUCCEEDED};

/// The field manager of the applies. They own nothing.
const MANAGER: &str = "storage-version-migrator-controller";
/// How long the token of a page is kept. The API server forgets it after about five minutes.
const TOKEN_KEPT: Duration = Duration::from_secs(300);

/// How far a migration is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Progress {
    /// The version at which the migration starts.
    version: String,
    /// The token of the next page.
    token: String,
}

/// An object to rewrite.
#[derive(Clone, Debug, Default, Deserialize)]
struct Object {
    metadata: Meta,
}

/// The end of a page.
#[derive(Debug)]
enum Rewritten {
    All,
    /// The message of an error that no retry resolves.
    Failed(String),
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
    let page = next_page(host, migration, &resource)?;
    match rewrite_page(host, &resource, version, &page.items)? {
        Rewritten::Failed(error) => fail(host, migration, &error),
        Rewritten::All => go_on(host, migration, page.metadata.continue_token),
    }
}

/// Reads the next page of the objects.
fn next_page(
    host: &Host,
    migration: &Migration,
    resource: &Served,
) -> Result<LiveList<Object>, Error> {
    let uid = &migration.meta.uid;
    let progress: Progress = host.memo().get(uid).unwrap_or_default();
    let mut parameters = vec![("limit".to_owned(), PAGE.to_string())];
    let is_begun = progress.version == migration.status.resource_version;
    if is_begun && !progress.token.is_empty() {
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
    page.doing(|| format!("listing {}", resource.shown()))?
        .parse()
}

/// Rewrites the objects that are not newer than the migration: first one of them, so that objects that can't be rewritten
/// cost one write, and twice as many after each round without a failure.
///
/// # Errors
/// The API server was too busy for one of them. The page is to be tried again.
fn rewrite_page(
    host: &Host,
    resource: &Served,
    version: Version,
    objects: &[Object],
) -> Result<Rewritten, Error> {
    let mut writes = Vec::new();
    for Object { metadata } in objects {
        match Version::parse(&metadata.resource_version) {
            Err(error) => return Ok(Rewritten::Failed(error)),
            Ok(own) if own > version => {}
            Ok(_) => writes.push(unchanged(resource, metadata)),
        }
    }
    let (mut writes, mut round) = (writes.into_iter(), 1);
    while writes.len() > 0 {
        for result in host.batch().extend(writes.by_ref().take(round)).run() {
            match result {
                Ok(_) => {}
                // The object was updated or deleted in the meantime.
                Err(error) if error.is_conflict() => {}
                Err(error) if is_transient(&error) => return Err(error.into()),
                Err(error) => return Ok(Rewritten::Failed(error.message)),
            }
        }
        round *= 2;
    }
    Ok(Rewritten::All)
}

/// Returns an apply that changes nothing. With the UID and the version, it conflicts if the object was changed, deleted or
/// created again.
fn unchanged(resource: &Served, object: &Meta) -> Write {
    let (api_version, kind) = resource.type_of_objects();
    let applied = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"uid": object.uid, "resourceVersion": object.resource_version},
    });
    let Meta {
        namespace, name, ..
    } = object;
    Write::patch(
        &resource.0.kind,
        namespace,
        name,
        PatchType::Apply,
        &applied,
    )
    .field_manager(MANAGER)
}

/// Whether a later attempt may succeed.
fn is_transient(error: &ApiError) -> bool {
    matches!(error.status, 429 | 500 | 503 | 504)
}

/// Goes on with the page of this token, or ends the migration if there is none.
fn go_on(host: &Host, migration: &Migration, token: String) -> Result<(), Error> {
    let uid = &migration.meta.uid;
    if token.is_empty() {
        host.memo().remove(uid);
        let reason = "StorageVersionMigrationSucceeded";
        return migration.add_condition(host, SUCCEEDED, reason, "");
    }
    let version = migration.status.resource_version.clone();
    host.memo()
        .put(uid, &Progress { version, token }, uid, TOKEN_KEPT)?;
    host.queue().add(MIGRATIONS, &migration.meta.key())?;
    Ok(())
}

fn fail(host: &Host, migration: &Migration, error: &str) -> Result<(), Error> {
    migration.fail(
        host,
        &format!("migration encountered unhandled error: {error}"),
    )
}
