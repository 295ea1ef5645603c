//! CustomResourceDefinitions: a condition says whether a migration of the resource is running, and the list of stored
//! versions is shortened after a migration.
//!
//! Each apply names the version that it is made for. The condition has the generation that it was set for: if it is still
//! the current one at the end, no other storage version was chosen in the meantime.
//!
//! Upstream: pkg/controller/storageversionmigrator/migrationrunner.go: markAsActive, cleanupCRD,
//! finishCRDMigration, crdForGroupResource.

use flyball_sdk::condition;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::resource::GroupResource;

/// The condition of a definition whose resource is being migrated.
const MIGRATING: &str = "StorageMigrating";
/// The field manager of the definition's status.
const MANAGER: &str = "migration-runner-controller";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "apiextensions.k8s.io/v1/CustomResourceDefinition")]
pub(crate) struct Definition {
    #[view(path = "metadata", fields("generation"))]
    meta: Meta,
    #[view(path = "spec.versions", fields("[*].name", "[*].storage"))]
    versions: Vec<StorageVersion>,
    #[view(path = "status.conditions")]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StorageVersion {
    name: String,
    #[serde(deserialize_with = "null_is_default")]
    storage: bool,
}

impl Definition {
    /// Reads the definition of a resource from the API server; `None` if it is not a custom one.
    pub(crate) fn read(host: &Host, resource: &GroupResource) -> Result<Option<Self>, Error> {
        let GroupResource { group, resource } = resource;
        if group.is_empty() {
            return Ok(None);
        }
        host.live().get("", &format!("{resource}.{group}"))
    }

    /// Marks the resource as being migrated.
    pub(crate) fn begin(&self, host: &Host, migration: &str) -> Result<(), Error> {
        let message = format!("Migration {migration} is running");
        let condition = self.condition(host, "True", "MigrationRunning", &message);
        self.apply(host, json!({"conditions": [condition]}))
    }

    /// Marks the resource as no longer being migrated. If the definition has not changed since the migration began, the
    /// list of stored versions is shortened to the current one, even after a failure, as by kube-controller-manager.
    pub(crate) fn end(&self, host: &Host, has_succeeded: bool) -> Result<(), Error> {
        let is_unchanged = self.is_unchanged();
        let (reason, message) = match (has_succeeded, is_unchanged) {
            (false, _) => ("MigrationFailed", "The migration has failed"),
            (true, true) => (
                "MigrationSucceeded",
                "The migration has succeeded and the stored versions have been updated",
            ),
            (true, false) => (
                "MigrationSucceeded",
                "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
            ),
        };
        let condition = self.condition(host, "False", reason, message);
        let mut status = json!({"conditions": [condition]});
        let stored = self.versions.iter().find(|version| version.storage);
        if let Some(stored) = stored.filter(|_| is_unchanged) {
            status["storedVersions"] = json!([stored.name]);
        }
        self.apply(host, status)
    }

    /// Whether the definition has the generation at which the migration began.
    fn is_unchanged(&self) -> bool {
        let migrating = condition::get(&self.conditions, MIGRATING);
        migrating.is_some_and(|migrating| {
            migrating.observed_generation.unwrap_or_default() == self.meta.generation
        })
    }

    fn condition(&self, host: &Host, status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            observed_generation: Some(self.meta.generation),
            last_transition_time: Some(host.now().to_second()),
            ..Condition::new(MIGRATING, status, reason, message)
        }
    }

    fn apply(&self, host: &Host, status: Value) -> Result<(), Error> {
        let Meta {
            name,
            resource_version,
            ..
        } = &self.meta;
        let applied = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "resourceVersion": resource_version},
            "status": status,
        });
        let write = Write::patch(Self::KIND, "", name, PatchType::Apply, &applied).on("status");
        host.write(write.field_manager(MANAGER).force())
            .doing(|| format!("updating the status of the CustomResourceDefinition {name}"))
            .map(drop)
    }
}
