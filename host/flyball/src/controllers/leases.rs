//! The leases that elect the process whose controllers act.

use flyball_api::lease::{CandidateVersions, LeaderElection};
use flyball_manager::Migration;

use crate::ccm;
use crate::config::{CloudControllers, RunConfig};
use crate::kcm::versions::CURRENT;

/// Default name of the Lease of a process that runs built-in controllers: the one of kube-controller-manager, which
/// then doesn't run at the same time.
const KCM_LEASE: &str = "kube-controller-manager";
/// Default name of the Lease of a process that runs only plugins.
pub(crate) const OWN_LEASE: &str = "flyball";

/// Returns the identity of this process in the Lease: the host name and a random number. A process id would not be
/// unique, because processes in different containers may have the same one. A standby recognises another Flyball by the
/// 32 hex digits.
pub(crate) fn holder_identity() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{:032x}", machine.trim(), rand::random::<u128>())
}

/// Returns the settings of leader election; none if it is disabled. By default, a process that runs only plugins does
/// not compete with kube-controller-manager for its Lease.
pub(super) fn leader_election(config: &RunConfig, has_builtins: bool) -> Option<LeaderElection> {
    let settings = &config.leader_election;
    let default_name = || {
        let name = match (config.cloud.controllers, has_builtins) {
            (CloudControllers::Only, _) => ccm::NAME,
            (_, true) => KCM_LEASE,
            (_, false) => OWN_LEASE,
        };
        name.to_owned()
    };
    settings.enabled.then(|| LeaderElection {
        namespace: settings.namespace.clone(),
        name: settings.name.clone().unwrap_or_else(default_name),
        lease_duration: settings.lease_duration,
        renew_deadline: settings.renew_deadline,
        retry_period: settings.retry_period,
        // Off in kube-controller-manager unless the operator turns it on. The next leader then waits for 15 s.
        is_given_up: !config
            .feature_gates
            .is_turned_off("ControllerManagerReleaseLeaderElectionLockOnExit"),
        candidate: candidate(config).filter(|_| has_builtins),
    })
}

/// Returns the versions by which the API server chooses the leader; none if the processes elect it.
fn candidate(config: &RunConfig) -> Option<CandidateVersions> {
    let is_coordinated = config.feature_gates.is_enabled("CoordinatedLeaderElection");
    is_coordinated.then(|| CandidateVersions {
        binary: format!("{CURRENT}.0"),
        emulation: format!("{}.0", config.versions.emulated),
    })
}

/// Returns the second lease and the controllers that run under it; none without leader migration.
pub(super) fn migration(config: &RunConfig) -> Option<Migration> {
    let migration = config.leader_election.migration.as_ref()?;
    let main = leader_election(config, true)?;
    Some(Migration {
        election: LeaderElection {
            name: migration.lease.clone(),
            // The API server chooses no holder of this lease, because it has no candidates.
            candidate: None,
            ..main
        },
        controllers: migration.migrated().map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;

    fn read(flags: &[&str]) -> RunConfig {
        RunConfig::read(&parse(flags).expect("they parse")).expect("valid flags")
    }

    #[test]
    fn the_api_server_chooses_the_leader_behind_a_gate_and_only_of_the_main_lease() {
        let on = read(&[
            "--feature-gates=CoordinatedLeaderElection=true",
            "--emulated-version=1.35",
            "--enable-leader-migration",
        ]);
        let chosen = leader_election(&on, true).and_then(|election| election.candidate);
        let chosen = chosen.expect("it is a candidate");
        assert_eq!((&*chosen.binary, &*chosen.emulation), ("1.37.0", "1.35.0"));
        let second = migration(&on).expect("there is a second lease");
        assert!(second.election.candidate.is_none());
        let plugins_alone = leader_election(&on, false).expect("it is elected");
        assert!(plugins_alone.candidate.is_none());
        let off = read(&["--feature-gates=CoordinatedLeaderElection=false"]);
        let off = leader_election(&off, true).expect("it is elected");
        assert!(off.candidate.is_none());
    }

    #[test]
    fn the_lease_is_given_up_unless_a_gate_is_turned_off() {
        let is_given_up = |flags: &[&str]| {
            leader_election(&read(flags), true).is_some_and(|election| election.is_given_up)
        };
        let gate = "--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit";
        assert!(is_given_up(&[]));
        assert!(is_given_up(&[&format!("{gate}=true")]));
        assert!(!is_given_up(&[&format!("{gate}=false")]));
    }
}
