//! Taints of nodes, and the tolerations of daemon pods.

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::Deserialize;

/// A taint whose pods may stay, but to which no new ones are scheduled.
const NO_SCHEDULE: &str = "NoSchedule";
/// A taint that also evicts pods.
const NO_EXECUTE: &str = "NoExecute";
/// The operator of a toleration that ignores the value.
const EXISTS: &str = "Exists";

/// The taints that all daemon pods tolerate for any time, with their effects. Daemon pods run on
/// nodes with problems.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];
/// The taint that daemon pods in the host's network tolerate too.
const TOLERATED_IN_HOST_NETWORK: (&str, &str) =
    ("node.kubernetes.io/network-unavailable", NO_SCHEDULE);

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
#[serde(default)]
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
}

impl Taint {
    /// Whether it keeps new pods away.
    pub fn repels(&self) -> bool {
        self.effect == NO_SCHEDULE || self.evicts()
    }

    /// Whether it evicts pods that run.
    pub fn evicts(&self) -> bool {
        self.effect == NO_EXECUTE
    }
}

impl Toleration {
    /// Whether it tolerates a taint. The operators `Lt` and `Gt` tolerate nothing unless `compares` is
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

/// Returns the taints that daemon pods tolerate whatever their template says.
fn tolerated(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let more = host_network.then_some(TOLERATED_IN_HOST_NETWORK);
    TOLERATED.into_iter().chain(more)
}

/// Returns the tolerations that daemon pods have whatever their template says.
pub fn default_tolerations(host_network: bool) -> impl Iterator<Item = Toleration> {
    tolerated(host_network).map(|(key, effect)| Toleration {
        key: key.into(),
        operator: EXISTS.into(),
        value: String::new(),
        effect: effect.into(),
    })
}

/// Adds the tolerations of daemon pods to a pod's spec. They replace those that differ only in the
/// time for which they hold.
pub fn add_tolerations(spec: &mut Value) {
    let host_network = spec["hostNetwork"] == true;
    let tolerations = &mut spec["tolerations"];
    if tolerations.is_null() {
        *tolerations = json!([]);
    }
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for (key, effect) in tolerated(host_network) {
        let ours = json!({"key": key, "operator": EXISTS, "effect": effect});
        let is_same = |one: &Value| {
            ["key", "operator", "value", "effect"].iter().all(|field| {
                one[field].as_str().unwrap_or_default() == ours[field].as_str().unwrap_or_default()
            })
        };
        let mut is_new = true;
        for present in tolerations.iter_mut().filter(|one| is_same(one)) {
            *present = ours.clone();
            is_new = false;
        }
        if is_new {
            tolerations.push(ours);
        }
    }
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
    fn tolerations_are_added_after_those_of_the_template() {
        let mut spec = json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]});
        add_tolerations(&mut spec);
        let lines: Vec<String> = spec["tolerations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| format!("{} {}", one["key"], one["effect"]))
            .collect();
        assert_eq!(
            lines,
            [
                r#""gpu" null"#,
                r#""node.kubernetes.io/not-ready" "NoExecute""#,
                r#""node.kubernetes.io/unreachable" "NoExecute""#,
                r#""node.kubernetes.io/disk-pressure" "NoSchedule""#,
                r#""node.kubernetes.io/memory-pressure" "NoSchedule""#,
                r#""node.kubernetes.io/pid-pressure" "NoSchedule""#,
                r#""node.kubernetes.io/unschedulable" "NoSchedule""#,
            ]
        );
    }

    #[test]
    fn pods_in_the_hosts_network_tolerate_its_absence() {
        for (network, count) in [(json!({"hostNetwork": true}), 7), (json!({}), 6)] {
            let mut spec = network;
            add_tolerations(&mut spec);
            assert_eq!(spec["tolerations"].as_array().unwrap().len(), count);
            assert_eq!(default_tolerations(count == 7).count(), count);
        }
    }

    #[test]
    fn a_toleration_that_holds_for_some_time_is_replaced_in_its_place() {
        let short = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                           "effect": "NoExecute", "tolerationSeconds": 30});
        let mut spec = json!({"tolerations": [short, {"key": "gpu", "operator": "Exists"}]});
        add_tolerations(&mut spec);
        assert_eq!(
            spec["tolerations"][0],
            json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"})
        );
        assert_eq!(spec["tolerations"].as_array().unwrap().len(), 7);
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
