//! The feature gates of Kubernetes 1.36, with the values that the operator chose.
//!
//! Controllers read them as configuration keys: see [`FeatureGates::config`].

use std::collections::BTreeMap;

/// Name, stage (`ALPHA`, `BETA`, `DEPRECATED`, or nothing for general availability), default and whether the default is
/// locked, separated by tabs. `testdata/dump.go` writes it.
const TABLE: &str = include_str!("feature-gates.txt");

/// A gate of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    name: &'static str,
    stage: &'static str,
    default: bool,
    is_locked: bool,
}

/// The values of `--feature-gates`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    /// The gates whose value is not their default, by name.
    changed: BTreeMap<String, bool>,
    /// Names that Kubernetes does not know.
    pub(crate) unknown: Vec<String>,
}

impl FeatureGates {
    /// Reads gates and their values. A gate's name may begin with a component, as in `kube:AllAlpha`. `AllAlpha` and
    /// `AllBeta` set the gates of a stage that are not named themselves.
    ///
    /// # Errors
    /// A gate is locked to another value.
    pub(crate) fn new(given: impl IntoIterator<Item = (String, bool)>) -> Result<Self, String> {
        let mut named: BTreeMap<String, bool> = BTreeMap::new();
        for (name, value) in given {
            let name = name.rsplit(':').next().unwrap_or_default().to_owned();
            named.insert(name, value);
        }
        let stages = [("AllAlpha", "ALPHA"), ("AllBeta", "BETA")]
            .map(|(name, stage)| (stage, named.remove(name)));
        let mut changed = BTreeMap::new();
        for gate in table() {
            let of_stage = || {
                let stage = stages.iter().find(|(stage, _)| *stage == gate.stage);
                stage
                    .and_then(|(_, value)| *value)
                    .filter(|_| !gate.is_locked)
            };
            let named = named.remove(gate.name);
            if gate.is_locked && named.is_some_and(|value| value != gate.default) {
                return Err(format!(
                    "the feature gate {} is locked to {}",
                    gate.name, gate.default
                ));
            }
            let value = named.or_else(of_stage).unwrap_or(gate.default);
            if value != gate.default {
                changed.insert(gate.name.to_owned(), value);
            }
        }
        Ok(Self {
            changed,
            unknown: named.into_keys().collect(),
        })
    }

    /// Whether a gate is on; false if Kubernetes does not know it.
    pub(crate) fn is_enabled(&self, name: &str) -> bool {
        let default = || table().any(|gate| gate.name == name && gate.default);
        self.changed.get(name).copied().unwrap_or_else(default)
    }

    /// The configuration of each controller: `feature-gates.NAME` is `true` or `false`. The gates that keep their default are
    /// left out, because a description declares it.
    pub(crate) fn config(&self) -> impl Iterator<Item = (String, String)> {
        self.changed
            .iter()
            .map(|(name, value)| (format!("feature-gates.{name}"), value.to_string()))
    }
}

fn table() -> impl Iterator<Item = Known> {
    TABLE.lines().filter_map(|line| {
        let mut columns = line.split('\t');
        Some(Known {
            name: columns.next()?,
            stage: columns.next()?,
            default: columns.next()? == "true",
            is_locked: columns.next()? == "true",
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(given: &[(&str, bool)]) -> Result<FeatureGates, String> {
        FeatureGates::new(
            given
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value)),
        )
    }

    #[test]
    fn each_line_of_the_table_is_a_gate() {
        assert_eq!(table().count(), TABLE.lines().count());
        let stages = ["ALPHA", "BETA", "DEPRECATED", ""];
        assert!(table().all(|gate| stages.contains(&gate.stage)));
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
            ("kube:HPAScaleToZero", true),
            ("HPAConfigurableTolerance", true),
        ];
        assert_eq!(
            config(&given),
            [
                "feature-gates.HPAScaleToZero=true",
                "feature-gates.PodDeletionCost=false"
            ]
        );
    }

    #[test]
    fn a_gate_is_on_by_default_or_because_it_is_named() {
        let gates = gates(&[("PodDeletionCost", false), ("HPAScaleToZero", true)]).unwrap();
        let on = [
            "PodDeletionCost",
            "HPAScaleToZero",
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
        let config = config(&[("AllAlpha", true), ("WorkloadWithJob", false)]);
        let is_set = |name: &str| config.contains(&format!("feature-gates.{name}=true"));
        assert!(is_set("GenericWorkload"), "{config:?}");
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
        assert_eq!(
            gates(&[("JobManagedBy", true)]).unwrap(),
            FeatureGates::default()
        );
    }

    #[test]
    fn unknown_gates_are_reported() {
        let gates = gates(&[("NoSuchGate", true)]).unwrap();
        assert_eq!(gates.unknown, ["NoSuchGate"]);
        assert_eq!(gates.config().count(), 0);
    }
}
