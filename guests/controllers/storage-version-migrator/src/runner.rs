//! Starts one migration of each resource at a time, and cleans up after it has ended.
//!
//! Upstream: pkg/controller/storageversionmigrator/migrationrunner.go: sync, getSVMsForResource, compareSVM,
//! cleanupAdmission, markAsActive.

use flyball_sdk::condition;
use flyball_sdk::prelude::*;

use crate::BY_RESOURCE;
use crate::definition::Definition;
use crate::resource::GroupResource;
use crate::views::{IS_RUNNING, Migration, RUNNING, RUNNING_REASON, SUCCEEDED};

/// The work on the migrations of a resource.
#[derive(Debug)]
pub(crate) struct Due<'a> {
    /// The migrations that have ended and were not cleaned up yet.
    pub(crate) ended: Vec<&'a Migration>,
    /// The migration to start.
    pub(crate) next: Option<&'a Migration>,
}

/// Decides which migrations of a resource are to be cleaned up, and which one starts: the oldest, if none is running.
pub(crate) fn due(migrations: &[Migration]) -> Due<'_> {
    let (running, others): (Vec<_>, Vec<_>) =
        { migrations.iter() }.partition(|migration| migration.is(RUNNING));
    let (ended, running): (Vec<_>, Vec<_>) =
        { running.into_iter() }.partition(|migration| migration.has_ended());
    let waiting = others
        .into_iter()
        .filter(|migration| !migration.has_ended());
    let oldest = waiting.min_by_key(|migration| {
        let meta = &migration.meta;
        (meta.creation_timestamp, meta.name.clone())
    });
    Due {
        ended,
        next: oldest.filter(|_| running.is_empty()),
    }
}

/// Does what is due for the migrations of a resource.
pub(crate) fn run(host: &Host, resource: &GroupResource) -> Result<(), Error> {
    let of_name = host
        .list::<Migration>()
        .index(BY_RESOURCE, &resource.resource);
    let mut migrations = of_name.all()?;
    migrations.retain(|migration| migration.resource == *resource);
    let Due { ended, next } = due(&migrations);
    for migration in ended {
        clean_up(host, migration)?;
    }
    next.map_or(Ok(()), |migration| start(host, migration))
}

fn clean_up(host: &Host, migration: &Migration) -> Result<(), Error> {
    if let Some(definition) = Definition::read(host, &migration.resource)? {
        definition.end(host, migration.is(SUCCEEDED))?;
    }
    let mut status = migration.status.clone();
    let ended = Condition {
        observed_generation: Some(migration.meta.generation),
        ..Condition::new(
            RUNNING,
            "False",
            "MigrationCompleted",
            "Migration completed",
        )
    };
    condition::set(&mut status.conditions, ended, host.now());
    migration.write_status(host, &status)
}

fn start(host: &Host, migration: &Migration) -> Result<(), Error> {
    if let Some(definition) = Definition::read(host, &migration.resource)? {
        definition.begin(host, &migration.meta.name)?;
    }
    migration.add_condition(host, RUNNING, RUNNING_REASON, IS_RUNNING)
}
