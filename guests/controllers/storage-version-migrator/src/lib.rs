//! storage-version-migrator-controller: rewrites objects in the current storage version (KEP-4192).
//!
//! A StorageVersionMigration names a resource. Its objects are rewritten one by one, each by a patch that changes nothing:
//! the API server stores it anew if it would now encode it in another way. Three steps share the work, and hand on to each
//! other through the migration's status:
//!
//! 1. `runner.rs` starts one migration of each resource at a time, the oldest first, and cleans up after it ended. It marks
//!    the CustomResourceDefinition, and shortens its list of stored versions.
//! 2. `checkpoint.rs` records the version of the resource at which a migration starts. Objects that were written later need
//!    no migration.
//! 3. `migrate.rs` rewrites the objects, some hundred in each reconcile.
//!
//! Each step waits for one more condition of the status, so that a restart at any moment loses nothing: an object that is
//! rewritten twice is the same.
//!
//! Upstream: pkg/controller/storageversionmigrator/storageversionmigrator.go: NewSVMController.
//! Upstream: pkg/controller/storageversionmigrator/resourceversion.go: NewResourceVersionController.
//! Upstream: pkg/controller/storageversionmigrator/migrationrunner.go: NewCustomResourceController.

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

mod checkpoint;
mod definition;
mod migrate;
mod resource;
mod runner;
#[cfg(test)]
mod tests;
mod version;
mod views;

use definition::Definition;
use resource::GroupResource;
use views::{Migration, PATIENCE_KEY};

/// The queue of migrations whose objects are rewritten.
const MIGRATIONS: &str = "storage-version-migrator-controller";
/// The queue of migrations that need a version, and of resources. kube-controller-manager has two queues of this name.
const VERSIONS: &str = "resource-version-controller";
/// The index of migrations by the plural name of their resource.
const BY_RESOURCE: &str = "resource";

/// The controller. Keys name migrations, or in the queue [`VERSIONS`] also resources.
pub struct StorageVersionMigrator;

export!(StorageVersionMigrator);

impl Controller for StorageVersionMigrator {
    fn describe() -> Description {
        let changed = [DeltaType::Added, DeltaType::Modified];
        describe(
            "storage-version-migrator-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(
            watch::<Migration>()
                // A status is written with the whole metadata.
                .fields(&["metadata"])
                .enqueue(Mapping::itself().on(changed))
                .enqueue(Mapping::itself().on(changed).queue(VERSIONS))
                .enqueue(Mapping::route()),
        )
        .index(BY_RESOURCE, Migration::KIND, "spec.resource.resource")
        .queue(MIGRATIONS)
        .queue(VERSIONS)
        .import("discovery")
        .permission("*", ["list", "patch"])
        .permission(Definition::KIND, ["get"])
        .permission_on(Definition::KIND, "status", ["patch"])
        .permission_on(Migration::KIND, "status", ["update"])
        .config(
            PATIENCE_KEY,
            Some("1m"),
            "How long after its creation a migration waits for a resource that is not served.",
        )
        .emulated_version()
        .memo_schema(2)
        .concurrency(5)
    }

    fn describe_configured(host: &Host) -> Description {
        Self::describe().kind_of_release::<Migration>(host)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let name = &request.key.name;
        if let Some(resource) = GroupResource::parse(name).filter(|_| request.queue == VERSIONS) {
            runner::run(host, &resource)?;
            return Ok(Outcome::Done);
        }
        if let Some(migration) = host.get::<Migration>("", name)? {
            match request.queue.as_str() {
                VERSIONS => checkpoint::record(host, &migration)?,
                _ => migrate::rewrite(host, &migration)?,
            }
        }
        Ok(Outcome::Done)
    }

    /// Enqueues the resource of each migration that is new, has changed or was deleted.
    fn route(_: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let mut routed = Vec::new();
        for delta in deltas {
            let migrations = [delta.before::<Migration>()?, delta.after()?];
            for migration in migrations.into_iter().flatten() {
                routed.push(RoutedKey {
                    queue: VERSIONS.into(),
                    ..RoutedKey::now(migration.resource.key())
                });
            }
        }
        Ok(routed)
    }
}
