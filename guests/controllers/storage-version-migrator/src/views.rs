//! StorageVersionMigrations.
//!
//! Upstream: pkg/controller/storageversionmigrator/util.go: setStatusConditions.
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
/// Configuration key: how long after its creation a migration waits for its resource, because discovery may lag behind.
pub(crate) const PATIENCE_KEY: &str = "unserved-resource-timeout";
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(View, Clone, Debug, Default)]
#[view(kind = "storagemigration.k8s.io/v1beta1/StorageVersionMigration")]
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
        self.add_condition(host, FAILED, "StorageVersionMigrationFailed", message)
    }

    pub(crate) fn write_status(&self, host: &Host, status: &Status) -> Result<(), Error> {
        host.update_status(Migration::KIND, &self.meta, status)
            .doing(|| format!("updating the status of {}", self.meta.name))
            .map(drop)
    }
}
