//! The tolerations of daemon pods.
//!
//! Upstream: pkg/controller/daemon/util/daemonset_util.go: AddOrUpdateDaemonPodTolerations.
//! Upstream: pkg/apis/core/v1/helper/helpers.go: AddOrUpdateTolerationInPodSpec.

use flyball_sdk::prelude::*;
use flyball_taints::{EXISTS, NO_EXECUTE, NO_SCHEDULE, Toleration};

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

/// Returns the taints that daemon pods tolerate in addition to their template's tolerations.
fn tolerated(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let more = host_network.then_some(TOLERATED_IN_HOST_NETWORK);
    TOLERATED.into_iter().chain(more)
}

/// Returns the tolerations that daemon pods have in addition to their template's.
pub fn default_tolerations(host_network: bool) -> impl Iterator<Item = Toleration> {
    tolerated(host_network).map(|(key, effect)| Toleration {
        key: key.into(),
        operator: EXISTS.into(),
        effect: effect.into(),
        ..Toleration::default()
    })
}

/// Adds the tolerations of daemon pods to a pod's spec. They replace tolerations that differ only in
/// `tolerationSeconds`.
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
}
