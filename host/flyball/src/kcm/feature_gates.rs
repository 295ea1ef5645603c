//! The feature gates of Kubernetes 1.37, with the values that the operator chose and the versions that the flags
//! emulate.
//!
//! Controllers read them as configuration keys: see [`FeatureGates::config`].

use std::collections::BTreeMap;

use crate::kcm::versions::{Minor, Versions};

/// Name, stages and the gates that it depends on, separated by tabs; `testdata/dump.go` writes it. A stage is
/// `SINCE:STAGE:DEFAULT:LOCKED`, as in `1.35:BETA:true:false`. No stage's name means general availability. `SINCE` may
/// be `1.35>=1.34`: the second version is the least `--min-compatibility-version` with which the stage begins.
const TABLE: &str = include_str!("feature-gates.txt");

/// The stage of a gate that the emulated version does not have yet.
const PRE_ALPHA: &str = "PRE-ALPHA";

/// A gate of the table, as it is in the emulated version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    name: &'static str,
    spec: Spec,
    /// The default in the current version, which descriptions of controllers declare.
    declared: bool,
    needs: &'static str,
}

/// A stage of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spec {
    stage: &'static str,
    default: bool,
    is_locked: bool,
}

/// The values of all gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    gates: BTreeMap<&'static str, Gate>,
    /// Names that Kubernetes does not know.
    pub(crate) unknown: Vec<String>,
}

/// A gate and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    /// The label `stage` of `kubernetes_feature_enabled`.
    pub(crate) stage: &'static str,
    pub(crate) is_on: bool,
    declared: bool,
    /// Whether the flag names it.
    is_named: bool,
}

impl FeatureGates {
    /// Reads gates and their values. A gate's name may begin with a component, as in `kube:AllAlpha`. `AllAlpha` and
    /// `AllBeta` set the gates of a stage that are not named themselves.
    ///
    /// # Errors
    /// Fails if a gate is locked to another value, is not in the emulated version yet, or needs a gate that is off.
    pub(crate) fn new(
        given: impl IntoIterator<Item = (String, bool)>,
        versions: Versions,
    ) -> Result<Self, String> {
        let mut named: BTreeMap<String, bool> = BTreeMap::new();
        for (name, value) in given {
            let name = name.rsplit(':').next().unwrap_or_default().to_owned();
            named.insert(name, value);
        }
        let stages = [("AllAlpha", "ALPHA"), ("AllBeta", "BETA")]
            .map(|(name, stage)| (stage, named.remove(name)));
        let mut gates = BTreeMap::new();
        for Known {
            name,
            spec,
            declared,
            ..
        } in table(versions)
        {
            let of_stage = || {
                let stage = stages.iter().find(|(stage, _)| *stage == spec.stage);
                stage
                    .and_then(|(_, value)| *value)
                    .filter(|_| !spec.is_locked)
            };
            let named = named.remove(name);
            if spec.is_locked && named.is_some_and(|value| value != spec.default) {
                return Err(format!(
                    "the feature gate {name} is locked to {}",
                    spec.default
                ));
            }
            if spec.stage == PRE_ALPHA && named.is_some() {
                return Err(format!(
                    "the feature gate {name} does not exist in the emulated version {}, with the minimum compatibility version {}",
                    versions.emulated, versions.min_compatibility
                ));
            }
            let gate = Gate {
                stage: spec.stage,
                is_on: named.or_else(of_stage).unwrap_or(spec.default),
                declared,
                is_named: named.is_some(),
            };
            gates.insert(name, gate);
        }
        let gates = Self {
            gates,
            unknown: named.into_keys().collect(),
        };
        gates.check_needs(versions)?;
        Ok(gates)
    }

    fn check_needs(&self, versions: Versions) -> Result<(), String> {
        for Known { name, needs, .. } in table(versions).filter(|gate| self.is_enabled(gate.name)) {
            let off = needs
                .split(',')
                .find(|need| !need.is_empty() && !self.is_enabled(need));
            if let Some(off) = off {
                return Err(format!(
                    "the feature gate {name} is on, but {off}, which it depends on, is off"
                ));
            }
        }
        Ok(())
    }

    /// Whether a gate is on; false if Kubernetes does not know it.
    pub(crate) fn is_enabled(&self, name: &str) -> bool {
        self.gates.get(name).is_some_and(|gate| gate.is_on)
    }

    /// Whether the flag names a gate, and turns it off.
    pub(crate) fn is_turned_off(&self, name: &str) -> bool {
        let gate = self.gates.get(name);
        gate.is_some_and(|gate| gate.is_named && !gate.is_on)
    }

    /// The gates that the emulated version has, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, Gate)> {
        let all = self.gates.iter().map(|(name, gate)| (*name, *gate));
        all.filter(|(_, gate)| gate.stage != PRE_ALPHA)
    }

    /// The configuration of each controller: `feature-gates.NAME` is `true` or `false`. The gates that have the default
    /// of the current version are left out, because a description declares it.
    pub(crate) fn config(&self) -> impl Iterator<Item = (String, String)> {
        let changed = self
            .gates
            .iter()
            .filter(|(_, gate)| gate.is_on != gate.declared);
        changed.map(|(name, gate)| (format!("feature-gates.{name}"), gate.is_on.to_string()))
    }
}

fn table(versions: Versions) -> impl Iterator<Item = Known> {
    TABLE.lines().filter_map(move |line| {
        let mut columns = line.split('\t');
        let (name, stages, needs) = (columns.next()?, columns.next()?, columns.next()?);
        Some(Known {
            name,
            spec: spec(stages, versions),
            declared: spec(stages, Versions::default()).default,
            needs,
        })
    })
}

/// Returns the latest stage that has begun.
fn spec(stages: &'static str, versions: Versions) -> Spec {
    let begun = stages.split(' ').rev().find_map(|stage| {
        let mut columns = stage.split(':');
        let (since, stage) = (columns.next()?, columns.next()?);
        let (since, least) = match since.split_once(">=") {
            Some((since, least)) => (since, Some(Minor::parse(least).ok()?)),
            None => (since, None),
        };
        let has_begun = Minor::parse(since).ok()? <= versions.emulated
            && least.is_none_or(|least| least <= versions.min_compatibility);
        has_begun.then_some(Spec {
            stage,
            default: columns.next()? == "true",
            is_locked: columns.next()? == "true",
        })
    });
    begun.unwrap_or(Spec {
        stage: PRE_ALPHA,
        default: false,
        is_locked: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(given: &[(&str, bool)]) -> Result<FeatureGates, String> {
        gates_of("1.37", given)
    }

    fn gates_of(version: &str, given: &[(&str, bool)]) -> Result<FeatureGates, String> {
        let versions = Versions::new(&[version.to_owned()], &[]).expect("a version");
        let given = given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        FeatureGates::new(given, versions)
    }

    #[test]
    fn each_line_of_the_table_is_a_gate() {
        let of_today = || table(Versions::default());
        assert_eq!(of_today().count(), TABLE.lines().count());
        let stages = ["ALPHA", "BETA", "DEPRECATED", "", PRE_ALPHA];
        assert!(of_today().all(|gate| stages.contains(&gate.spec.stage)));
        let names: Vec<&str> = of_today().map(|gate| gate.name).collect();
        for gate in of_today() {
            let mut needs = gate.needs.split(',').filter(|need| !need.is_empty());
            assert!(needs.all(|need| names.contains(&need)), "{gate:?}");
        }
    }

    fn config(given: &[(&str, bool)]) -> Vec<String> {
        let gates = gates(given).expect("no gate is locked");
        gates
            .config()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }

    #[test]
    fn a_gate_has_its_default_unless_it_is_named() {
        let given = [
            ("PodDeletionCost", false),
            ("kube:TaintTolerationComparisonOperators", true),
            ("HPAConfigurableTolerance", true),
        ];
        assert_eq!(
            config(&given),
            [
                "feature-gates.PodDeletionCost=false",
                "feature-gates.TaintTolerationComparisonOperators=true"
            ]
        );
    }

    #[test]
    fn a_gate_is_on_by_default_or_because_it_is_named() {
        let gates = gates(&[
            ("PodDeletionCost", false),
            ("TaintTolerationComparisonOperators", true),
        ])
        .unwrap();
        let on = [
            "PodDeletionCost",
            "TaintTolerationComparisonOperators",
            "APIServerIdentity",
            "StorageVersionAPI",
            "NoSuchGate",
        ];
        assert_eq!(
            on.map(|gate| gates.is_enabled(gate)),
            [false, true, true, false, false]
        );
    }

    #[test]
    fn a_stage_sets_its_gates_except_those_that_are_named() {
        let all = [("AllAlpha", true), ("AllBeta", true)];
        let config = config(&[all[0], all[1], ("WorkloadWithJob", false)]);
        let is_set = |name: &str| config.contains(&format!("feature-gates.{name}=true"));
        assert!(
            is_set("GenericWorkload") && is_set("StatefulSetRecreateStrategy"),
            "{config:?}"
        );
        let on = gates(&[("ComponentFlagz", false)]).unwrap();
        assert!(on.is_enabled("ComponentStatusz") && !on.is_enabled("ComponentFlagz"));
        assert!(!on.is_enabled("NoSuchGate"));
        assert!(!is_set("WorkloadWithJob") && !is_set("PodDeletionCost"));
    }

    #[test]
    fn a_locked_gate_keeps_its_value() {
        assert_eq!(
            gates(&[("JobManagedBy", false)]).unwrap_err(),
            "the feature gate JobManagedBy is locked to true"
        );
        let values = |given: &[(&str, bool)]| -> Vec<(&str, bool)> {
            let gates = gates(given).unwrap();
            gates.all().map(|(name, gate)| (name, gate.is_on)).collect()
        };
        assert_eq!(values(&[("JobManagedBy", true)]), values(&[]));
    }

    #[test]
    fn unknown_gates_are_reported() {
        let gates = gates(&[("NoSuchGate", true)]).unwrap();
        assert_eq!(gates.unknown, ["NoSuchGate"]);
        assert_eq!(gates.config().count(), 0);
    }

    #[test]
    fn the_emulated_version_has_its_own_defaults_and_locks() {
        // In beta and off until 1.34, on in 1.37.
        let name = "DeploymentReplicaSetTerminatingReplicas";
        let old = gates_of("1.34", &[]).unwrap();
        assert!(!old.is_enabled(name) && gates(&[]).unwrap().is_enabled(name));
        let key = format!("feature-gates.{name}");
        assert!(
            old.config()
                .any(|pair| pair == (key.clone(), "false".to_owned()))
        );
        // Locked since 1.35.
        let named = [("JobManagedBy", false)];
        assert!(gates_of("1.35", &named).unwrap_err().contains("is locked"));
        assert!(!gates_of("1.34", &named).unwrap().is_enabled("JobManagedBy"));
    }

    #[test]
    fn a_gate_that_the_emulated_version_lacks_is_off_and_cannot_be_set() {
        let old = gates_of("1.35", &[("AllAlpha", false)]).unwrap();
        assert!(old.all().all(|(name, _)| name != "WorkloadWithJob"));
        let error = gates_of("1.35", &[("WorkloadWithJob", false)]).unwrap_err();
        assert!(
            error.contains("does not exist in the emulated version 1.35"),
            "{error}"
        );
    }

    #[test]
    fn a_gate_needs_those_that_it_depends_on() {
        let given = [("WorkloadWithJob", true)];
        assert_eq!(
            gates(&given).unwrap_err(),
            "the feature gate WorkloadWithJob is on, but GenericWorkload, which it depends on, is off"
        );
        gates(&[given[0], ("GenericWorkload", true)]).unwrap();
    }

    #[test]
    fn a_stage_may_need_a_minimum_compatibility_version() {
        let versions = |least: &str| Versions::new(&[], &[least.to_owned()]).expect("a version");
        let stages = "1.34:BETA:false:false 1.35>=1.35:BETA:true:false 1.36>=1.36::true:true";
        let of = |least: &str| {
            let Spec {
                stage,
                default,
                is_locked,
            } = spec(stages, versions(least));
            (stage, default, is_locked)
        };
        assert_eq!(of("1.34"), ("BETA", false, false));
        assert_eq!(of("1.35"), ("BETA", true, false));
        assert_eq!(of("1.36"), ("", true, true));
    }
}
