//! StorageVersionMigrations.
//!
//! Upstream: pkg/controller/storageversionmigrator/util.go: setStatusConditions, migrationRunningMessage.
//! Upstream: pkg/controller/storageversionmigrator/migrationrunner.go: isRunning, isTerminal.

use std::time::Duration;

use flyball_sdk::condition;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::resource::GroupResource;

/// The condition of a migration that was started and not yet cleaned up.
pub(crate) const RUNNING: &str = "Running";
pub(crate) const SUCCEEDED: &str = "Succeeded";
pub(crate) const FAILED: &str = "Failed";
/// The message of the condition [`RUNNING`] as long as nothing else is known.
pub(crate) const IS_RUNNING: &str = "The migration is running";
/// The reason of the condition [`RUNNING`].
pub(crate) const RUNNING_REASON: &str = "MigrationRunning";
const FAILED_REASON: &str = "StorageVersionMigrationFailed";
const SUCCEEDED_REASON: &str = "StorageVersionMigrationSucceeded";
/// Configuration key: how long after its creation a migration waits for its resource, because discovery may lag behind.
pub(crate) const PATIENCE_KEY: &str = "unserved-resource-timeout";
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(View, Clone, Debug, Default)]
#[view(
    kind = "storagemigration.k8s.io/v1/StorageVersionMigration",
    until(36, "storagemigration.k8s.io/v1beta1/StorageVersionMigration")
)]
pub(crate) struct Migration {
    #[view(path = "metadata", fields("creationTimestamp", "generation"))]
    pub(crate) meta: Meta,
    #[view(path = "spec.resource")]
    pub(crate) resource: GroupResource,
    #[view(path = "status")]
    pub(crate) status: Status,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) conditions: Vec<Condition>,
    /// The version of the resource at which the migration starts; empty until it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) resource_version: String,
}

/// How many objects a migration has.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Those that are not yet migrated.
    pub(crate) left: usize,
    pub(crate) total: usize,
}

impl Counts {
    /// The message of the condition [`RUNNING`].
    fn message(self) -> String {
        let Self { left, total } = self;
        match (left, total) {
            (_, 0) => IS_RUNNING.to_owned(),
            (0, _) => format!("{IS_RUNNING}, {total} objects verified migrated"),
            _ => format!("{IS_RUNNING}, {left}/{total} objects not yet migrated"),
        }
    }
}

impl Migration {
    pub(crate) fn is(&self, condition_type: &str) -> bool {
        let found = condition::get(&self.status.conditions, condition_type);
        found.is_some_and(Condition::is_true)
    }

    /// Whether the migration has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.is(SUCCEEDED) || self.is(FAILED)
    }

    /// Whether the migration is so new that discovery may lack its resource.
    pub(crate) fn is_new(&self, host: &Host) -> Result<bool, Error> {
        let patience = host.config_duration(PATIENCE_KEY, PATIENCE)?;
        let created = self.meta.creation_timestamp;
        Ok(created.is_some_and(|created| created + patience > host.now()))
    }

    /// Writes the status with one more condition, which is true. Does nothing if the migration has the condition.
    pub(crate) fn add_condition(
        &self,
        host: &Host,
        condition_type: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), Error> {
        if condition::get(&self.status.conditions, condition_type).is_some() {
            return Ok(());
        }
        let mut status = self.status.clone();
        status.conditions.push(Condition {
            last_transition_time: Some(host.now().to_second()),
            ..Condition::new(condition_type, "True", reason, message)
        });
        self.write_status(host, &status)
    }

    /// Ends the migration as failed.
    pub(crate) fn fail(&self, host: &Host, message: &str) -> Result<(), Error> {
        self.add_condition(host, FAILED, FAILED_REASON, message)
    }

    /// Ends the migration as failed, after some objects may have been migrated.
    pub(crate) fn fail_after(&self, host: &Host, counts: Counts, error: &str) -> Result<(), Error> {
        let Counts { left, total } = counts;
        let message = format!(
            "{left}/{total} not yet migrated. migration encountered unhandled error: {error}"
        );
        let running = Condition::new(RUNNING, "True", RUNNING_REASON, &counts.message());
        let failed = Condition::new(FAILED, "True", FAILED_REASON, &message);
        self.set_conditions(host, [running, failed])
    }

    /// Ends the migration as succeeded.
    pub(crate) fn succeed(&self, host: &Host, counts: Counts) -> Result<(), Error> {
        if !host.release_at_least(37) {
            return self.add_condition(host, SUCCEEDED, SUCCEEDED_REASON, "");
        }
        let running = Condition::new(RUNNING, "True", RUNNING_REASON, &counts.message());
        let succeeded = Condition::new(SUCCEEDED, "True", SUCCEEDED_REASON, "Migration completed");
        self.set_conditions(host, [running, succeeded])
    }

    /// Reports how far the migration is, and the error for which it is tried again.
    pub(crate) fn report(&self, host: &Host, counts: Counts, error: &str) -> Result<(), Error> {
        let message = format!("{}; transient error: {error}", counts.message());
        self.set_conditions(
            host,
            [Condition::new(RUNNING, "True", RUNNING_REASON, &message)],
        )
    }

    /// Writes the status with these conditions, unless it has them.
    fn set_conditions(
        &self,
        host: &Host,
        conditions: impl IntoIterator<Item = Condition>,
    ) -> Result<(), Error> {
        let mut status = self.status.clone();
        let mut has_changed = false;
        for condition in conditions {
            has_changed |= condition::set(&mut status.conditions, condition, host.now());
        }
        match has_changed {
            true => self.write_status(host, &status),
            false => Ok(()),
        }
    }

    pub(crate) fn write_status(&self, host: &Host, status: &Status) -> Result<(), Error> {
        host.update_status(host.kind::<Migration>(), &self.meta, status)
            .doing(|| format!("updating the status of {}", self.meta.name))
            .map(drop)
    }
}
