//! Taints of nodes, and the tolerations of pods.
//!
//! Upstream: staging/src/k8s.io/api/core/v1/toleration.go: ToleratesTaint, compareNumericValues.

use flyball_sdk::meta::null_is_default;
use serde::Deserialize;

/// The effect of a taint on nodes whose pods may stay, but to which no new pods are scheduled.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// The effect of a taint that also evicts pods.
pub const NO_EXECUTE: &str = "NoExecute";
/// The operator of a toleration that ignores the value.
pub const EXISTS: &str = "Exists";
/// The feature gate of the operators `Lt` and `Gt` of tolerations, which is off by default.
pub const COMPARISON_OPERATORS: &str = "TaintTolerationComparisonOperators";

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Taint {
    pub key: String,
    #[serde(deserialize_with = "null_is_default")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Empty for all keys.
    #[serde(deserialize_with = "null_is_default")]
    pub key: String,
    /// `Equal` if empty.
    #[serde(deserialize_with = "null_is_default")]
    pub operator: String,
    #[serde(deserialize_with = "null_is_default")]
    pub value: String,
    /// Empty for all effects.
    #[serde(deserialize_with = "null_is_default")]
    pub effect: String,
    /// How long a `NoExecute` taint is tolerated; `None` for ever.
    pub toleration_seconds: Option<i64>,
}

impl Taint {
    /// Whether the taint keeps new pods away.
    pub fn repels(&self) -> bool {
        self.effect == NO_SCHEDULE || self.evicts()
    }

    /// Whether the taint evicts running pods.
    pub fn evicts(&self) -> bool {
        self.effect == NO_EXECUTE
    }
}

impl Toleration {
    /// Whether this toleration tolerates a taint. The operators `Lt` and `Gt` tolerate nothing unless `compares` is
    /// set.
    pub fn tolerates(&self, taint: &Taint, compares: bool) -> bool {
        let fits = |own: &str, other: &str| own.is_empty() || own == other;
        if !fits(&self.effect, &taint.effect) || !fits(&self.key, &taint.key) {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            EXISTS => true,
            "Lt" | "Gt" if compares => match (integer(&taint.value), integer(&self.value)) {
                (Some(value), Some(limit)) if self.operator == "Lt" => value < limit,
                (Some(value), Some(limit)) => value > limit,
                _ => false,
            },
            _ => false,
        }
    }
}

/// Parses an integer without a plus sign and leading zeros.
fn integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        Taint {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        Toleration {
            key: key.into(),
            operator: operator.into(),
            value: value.into(),
            effect: effect.into(),
            ..Toleration::default()
        }
    }

    #[test]
    fn a_toleration_matches_by_key_value_and_effect() {
        let gpu = taint("gpu", "a", NO_SCHEDULE);
        for (key, operator, value, effect, expected) in [
            ("gpu", "Equal", "a", NO_SCHEDULE, true),
            ("gpu", "", "a", NO_SCHEDULE, true),
            ("gpu", "Equal", "b", NO_SCHEDULE, false),
            ("gpu", "Equal", "a", NO_EXECUTE, false),
            ("gpu", "Equal", "a", "", true),
            ("gpu", "Exists", "", "", true),
            ("cpu", "Exists", "", "", false),
            ("", "Exists", "", "", true),
            ("", "Exists", "", NO_EXECUTE, false),
            ("gpu", "Like", "a", NO_SCHEDULE, false),
        ] {
            let toleration = toleration(key, operator, value, effect);
            assert_eq!(
                toleration.tolerates(&gpu, false),
                expected,
                "{toleration:?}"
            );
        }
    }

    #[test]
    fn numbers_are_compared_only_behind_the_feature_gate() {
        let load = taint("load", "5", NO_SCHEDULE);
        for (operator, value, expected) in [
            ("Lt", "6", true),
            ("Lt", "5", false),
            ("Gt", "4", true),
            ("Gt", "-1", true),
            ("Gt", "5", false),
            ("Gt", "04", false),
            ("Gt", "+4", false),
            ("Gt", "four", false),
        ] {
            let toleration = toleration("load", operator, value, "");
            assert_eq!(
                toleration.tolerates(&load, true),
                expected,
                "{toleration:?}"
            );
            assert!(!toleration.tolerates(&load, false), "{toleration:?}");
        }
        let text = taint("load", "high", NO_SCHEDULE);
        assert!(!toleration("load", "Gt", "4", "").tolerates(&text, true));
    }

    #[test]
    fn only_noschedule_and_noexecute_repel() {
        let effects = ["NoSchedule", "NoExecute", "PreferNoSchedule", ""];
        assert_eq!(
            effects.map(|e| taint("a", "", e).repels()),
            [true, true, false, false]
        );
        assert_eq!(
            effects.map(|e| taint("a", "", e).evicts()),
            [false, true, false, false]
        );
    }
}
