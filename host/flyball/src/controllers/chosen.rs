//! Chooses the built-in controllers that run: the ones that `--controllers` enables, unless something that they need is
//! off or missing.

use std::fmt;

use anyhow::ensure;
use flyball_controllers::{Controller, Need, find};

use crate::builtins::{BUILTINS, Builtin};
use crate::config::RunConfig;
use crate::kcm::leader_migration::LeaderMigration;

/// The reason why an enabled controller does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// A boolean flag that the controller needs is false.
    FlagOff(&'static str),
    /// Leader migration assigns the controller to another component.
    Migrated,
    GateOff(&'static str),
    NoServiceAccountKey,
    NoClusterSigning,
}

/// Chooses the controllers, and logs why an enabled one does not run. Fails if a name is unknown, or if a controller is
/// named and nothing can run.
pub(crate) fn choose(config: &RunConfig) -> anyhow::Result<Vec<&'static Builtin>> {
    // The names of plugins are known only after they are loaded.
    if !config.plugins.may_load() {
        config.check_names(&[])?;
    }
    let enabled = BUILTINS
        .iter()
        .filter(|builtin| config.controllers.enables(builtin.name));
    let mut builtins = Vec::new();
    for builtin in enabled {
        match find(builtin.name).and_then(|controller| reason_not_to_run(controller, config)) {
            None => builtins.push(builtin),
            Some(reason) => tracing::info!(
                plugin = builtin.name,
                "the controller does not run: {reason}"
            ),
        }
    }
    check(&builtins, config, !BUILTINS.is_empty())?;
    Ok(builtins)
}

/// Returns the first reason why a controller does not run.
fn reason_not_to_run(controller: &Controller, config: &RunConfig) -> Option<Reason> {
    let built_ins = &config.built_ins;
    let flag_off = controller
        .enabled_by
        .filter(|flag| built_ins.turned_off.contains(flag));
    let migration = config.leader_election.migration.iter();
    let is_migrated = migration
        .flat_map(LeaderMigration::of_others)
        .any(|name| name == controller.name);
    let mut gates = controller.gates.iter().copied();
    let gate_off = gates.find(|gate| !config.feature_gates.is_enabled(gate));
    let needs = |need| controller.needs.contains(&need);
    let lacks_key = needs(Need::ServiceAccountKey) && built_ins.service_account_key_file.is_none();
    let lacks_signing = needs(Need::ClusterSigning) && built_ins.cluster_signing.is_empty();
    [
        flag_off.map(Reason::FlagOff),
        is_migrated.then_some(Reason::Migrated),
        gate_off.map(Reason::GateOff),
        lacks_key.then_some(Reason::NoServiceAccountKey),
        lacks_signing.then_some(Reason::NoClusterSigning),
    ]
    .into_iter()
    .flatten()
    .next()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FlagOff(flag) => write!(f, "--{flag}=false"),
            Self::Migrated => {
                f.write_str("--leader-migration-config gives it to another component")
            }
            Self::GateOff(gate) => write!(f, "the feature gate {gate} is off"),
            Self::NoServiceAccountKey => {
                f.write_str("--service-account-private-key-file is missing")
            }
            Self::NoClusterSigning => f.write_str(
                "--cluster-signing-cert-file and --cluster-signing-key-file are missing",
            ),
        }
    }
}

/// Fails if built-in controllers are to run and this binary has none, unless plugins may run. A process without controllers
/// goes on, as in kube-controller-manager, and serves health checks and metrics.
fn check(chosen: &[&Builtin], config: &RunConfig, has_builtins: bool) -> anyhow::Result<()> {
    let nothing_to_run = chosen.is_empty() && !config.plugins.may_load();
    if !has_builtins && config.controllers.enables_any() {
        let unbuilt = "built without built-in controllers: build with `cargo xtask build`";
        ensure!(!nothing_to_run, unbuilt);
        tracing::warn!("{unbuilt}");
    } else if nothing_to_run {
        tracing::warn!(
            "no controller runs: --controllers enables none that can, and there is neither --plugin-dir nor --policy"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flyball_controllers::{Guest, Scenarios, Start};

    use super::*;
    use crate::flags::parse;

    const GATE: &str = "PodDeletionCost";
    const FLAG: &str = "enable-garbage-collector";
    /// A controller that needs everything that can be off or missing.
    const DEMANDING: Controller = Controller {
        name: "demanding-controller",
        aliases: &[],
        start: Start::Default,
        gates: &["HPAConfigurableTolerance", GATE],
        enabled_by: Some(FLAG),
        since: None,
        flags: &[],
        needs: &[Need::RootCa, Need::ServiceAccountKey, Need::ClusterSigning],
        resyncs: true,
        native_histograms: true,
        guest: Guest {
            folder: "demanding",
            about: "",
            state: "",
            policy: "",
            scenarios: Scenarios {
                plane: "",
                killed: &[],
                killed_at_every_write: &[],
            },
        },
    };
    /// The flags with which it runs.
    const ENOUGH: [&str; 3] = [
        "--service-account-private-key-file=key",
        "--cluster-signing-cert-file=certificate",
        "--cluster-signing-key-file=key",
    ];

    fn read(flags: &[&str]) -> RunConfig {
        RunConfig::read(&parse(flags).expect("they parse")).expect("valid flags")
    }

    fn migration(component: &str) -> LeaderMigration {
        let text = format!(
            "{{apiVersion: controllermanager.config.k8s.io/v1, kind: LeaderMigrationConfiguration, leaderName: a, \
             controllerLeaders: [{{name: {}, component: {component}}}]}}",
            DEMANDING.name
        );
        LeaderMigration::parse(&text).expect("it is valid")
    }

    #[test]
    fn a_controller_runs_if_it_has_all_that_it_needs() {
        let mut config = read(&ENOUGH);
        assert_eq!(reason_not_to_run(&DEMANDING, &config), None);
        config.leader_election.migration = Some(migration("kube-controller-manager"));
        assert_eq!(reason_not_to_run(&DEMANDING, &config), None);
    }

    #[test]
    fn a_controller_that_needs_nothing_runs_whatever_is_off() {
        let frugal = Controller {
            gates: &[],
            enabled_by: None,
            needs: &[],
            ..DEMANDING
        };
        let config = read(&[
            &format!("--{FLAG}=false"),
            &format!("--feature-gates={GATE}=false"),
        ]);
        assert_eq!(reason_not_to_run(&frugal, &config), None);
    }

    #[test]
    fn each_reason_is_found_and_told() {
        let (gate, flag) = (
            format!("--feature-gates={GATE}=false"),
            format!("--{FLAG}=false"),
        );
        let cases: [(&[&str], _, _); 4] = [
            (
                &[&*gate, ENOUGH[0], ENOUGH[1], ENOUGH[2]],
                Reason::GateOff(GATE),
                "the feature gate PodDeletionCost is off",
            ),
            (
                &[&*flag, ENOUGH[0], ENOUGH[1], ENOUGH[2]],
                Reason::FlagOff(FLAG),
                "--enable-garbage-collector=false",
            ),
            (
                &ENOUGH[1..],
                Reason::NoServiceAccountKey,
                "--service-account-private-key-file is missing",
            ),
            (
                &ENOUGH[..1],
                Reason::NoClusterSigning,
                "--cluster-signing-cert-file and --cluster-signing-key-file are missing",
            ),
        ];
        for (flags, expected, text) in cases {
            assert_eq!(
                reason_not_to_run(&DEMANDING, &read(flags)),
                Some(expected),
                "{flags:?}"
            );
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn the_first_of_several_reasons_is_told() {
        let gate = format!("--feature-gates={GATE}=false");
        let mut config = read(&[&gate]);
        assert_eq!(
            reason_not_to_run(&DEMANDING, &config),
            Some(Reason::GateOff(GATE))
        );
        config.leader_election.migration = Some(migration("cloud-controller-manager"));
        assert_eq!(
            reason_not_to_run(&DEMANDING, &config),
            Some(Reason::Migrated)
        );
        config.built_ins.turned_off.push(FLAG);
        assert_eq!(
            reason_not_to_run(&DEMANDING, &config),
            Some(Reason::FlagOff(FLAG))
        );
    }

    #[test]
    fn a_binary_without_built_in_controllers_runs_only_plugins() {
        let refusal = |flags: &[&str], has_builtins| {
            check(&[], &read(flags), has_builtins)
                .err()
                .map(|error| error.to_string())
        };
        let unbuilt = refusal(&[], false).expect("it fails");
        assert!(unbuilt.starts_with("built without built-in controllers"));
        assert_eq!(refusal(&["--plugin-dir=a"], false), None);
        assert_eq!(refusal(&["--policy=a"], false), None);
        // None is to run.
        assert_eq!(refusal(&["--controllers="], false), None);
        // None can run.
        assert_eq!(refusal(&[], true), None);
    }
}
