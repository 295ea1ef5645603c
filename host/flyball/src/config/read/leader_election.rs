//! The flags of leader election.

use super::flags::{ConfigError, Flags};
use crate::config::LeaderElectionConfig;
use crate::kcm::leader_migration::LeaderMigration;

impl Flags<'_> {
    /// Checks the same bounds as client-go.
    pub(super) fn leader_election(&self) -> Result<LeaderElectionConfig, ConfigError> {
        let election = LeaderElectionConfig {
            enabled: self.bool("leader-elect"),
            lease_duration: self.duration("leader-elect-lease-duration")?,
            renew_deadline: self.duration("leader-elect-renew-deadline")?,
            retry_period: self.duration("leader-elect-retry-period")?,
            name: self
                .text("leader-elect-resource-name")
                .filter(|_| self.is_given("leader-elect-resource-name")),
            namespace: self
                .text("leader-elect-resource-namespace")
                .unwrap_or_default(),
            migration: self
                .leader_migration()?
                .filter(|_| self.bool("leader-elect")),
        };
        let LeaderElectionConfig {
            lease_duration,
            renew_deadline,
            retry_period,
            ..
        } = election;
        let problems = [
            (
                self.text("leader-elect-resource-lock").as_deref() != Some("leases"),
                "leader-elect-resource-lock",
                "only leases is supported",
            ),
            (
                election.namespace.is_empty(),
                "leader-elect-resource-namespace",
                "the Lease needs a namespace",
            ),
            (
                lease_duration.is_zero() || lease_duration.subsec_nanos() > 0,
                "leader-elect-lease-duration",
                "it must be at least one second, in whole seconds",
            ),
            (
                lease_duration <= renew_deadline,
                "leader-elect-lease-duration",
                "it must be longer than --leader-elect-renew-deadline, or two processes could lead at once",
            ),
            (
                retry_period.is_zero() || renew_deadline <= retry_period.mul_f64(1.2),
                "leader-elect-retry-period",
                "it must be above 0, and 1.2 times its value must be less than --leader-elect-renew-deadline",
            ),
        ];
        match problems
            .into_iter()
            .find(|(is_wrong, ..)| election.enabled && *is_wrong)
        {
            Some((_, flag, reason)) => Err(self.error(flag, reason)),
            None => Ok(election),
        }
    }

    /// The configuration of leader migration, which has an effect only with leader election.
    pub(super) fn leader_migration(&self) -> Result<Option<LeaderMigration>, ConfigError> {
        if !self.bool("enable-leader-migration") {
            return Ok(None);
        }
        let flag = "leader-migration-config";
        let Some(path) = self.path(flag) else {
            return Ok(Some(LeaderMigration::default()));
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| self.error(flag, format!("can't read it: {error}")))?;
        let migration = LeaderMigration::parse(&text).map_err(|reason| self.error(flag, reason))?;
        Ok(Some(migration))
    }
}
