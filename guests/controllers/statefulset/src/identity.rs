//! The identity of pods: names with ordinals, labels, and volumes of their own claims.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: getParentNameAndOrdinal, getOrdinal, getPodName,
//! getPersistentVolumeClaimName, isMemberOf, identityMatches, storageMatches.

use flyball_sdk::prelude::*;

use crate::views::{Pod, StatefulSet, Volume};

/// The label with the pod's name, for Services that select one pod.
pub const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label with the pod's ordinal.
pub const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// The label with the pod's revision.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// Splits a pod's name into the name of its set and its ordinal. The ordinal is `None` if it is too
/// large.
pub fn split(pod: &str) -> Option<(&str, Option<i64>)> {
    let (set, digits) = pod.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let ordinal = || digits.parse::<i32>().ok().map(i64::from);
    is_number.then(|| (set, ordinal()))
}

/// Whether the name belongs to a pod of this set.
pub fn is_member(set: &str, pod: &str) -> bool {
    split(pod).is_some_and(|(own, _)| own == set)
}

/// The ordinal in a pod's name.
pub fn ordinal(pod: &str) -> Option<i64> {
    split(pod)?.1
}

pub fn pod_name(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

/// The name of a pod's claim that is created from this template.
pub fn claim_name(template: &str, set: &str, ordinal: i64) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// The labels that identify a pod.
pub fn labels(name: &str, ordinal: i64) -> [(&'static str, String); 2] {
    [
        (NAME_LABEL, name.to_owned()),
        (INDEX_LABEL, ordinal.to_string()),
    ]
}

/// Whether the pod has the name and the label of its ordinal.
pub fn matches(set: &StatefulSet, pod: &Pod, ordinal: i64) -> bool {
    let meta = &pod.meta;
    meta.name == pod_name(&set.meta.name, ordinal)
        && meta.labels.label(NAME_LABEL) == Some(&meta.name)
}

/// Whether each claim template has a volume in the pod that uses the pod's own claim.
pub fn storage_matches(set: &StatefulSet, pod: &Pod, ordinal: i64) -> bool {
    let has_volume = |template: &str| {
        let claim = claim_name(template, &set.meta.name, ordinal);
        // The last volume of a name counts.
        let found = pod.volumes.iter().rfind(|volume| volume.name == template);
        found.and_then(Volume::claim) == Some(&claim)
    };
    set.claim_templates
        .iter()
        .all(|template| has_volume(template.name()))
}

impl Volume {
    /// The claim that it uses.
    fn claim(&self) -> Option<&str> {
        let source = self.persistent_volume_claim.as_ref();
        source.map(|source| source.claim_name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::view;

    use super::*;

    #[test]
    fn a_name_is_split_at_its_ordinal() {
        assert_eq!(split("web-0"), Some(("web", Some(0))));
        assert_eq!(split("my-web-12"), Some(("my-web", Some(12))));
        assert_eq!(split("web-007"), Some(("web", Some(7))));
        assert_eq!(split("-3"), Some(("", Some(3))));
        assert_eq!(split("web-2147483647"), Some(("web", Some(2_147_483_647))));
        assert_eq!(split("web-2147483648"), Some(("web", None)));
        for name in ["web", "web-", "web-a", "web-1a", "web-1-", ""] {
            assert_eq!(split(name), None, "{name}");
        }
    }

    #[test]
    fn a_member_has_the_name_of_the_set_before_its_ordinal() {
        assert!(is_member("web", "web-0"));
        assert!(is_member("web", "web-99999999999"));
        assert!(!is_member("web", "xweb-0"));
        assert!(!is_member("web", "web-0-0"));
        assert!(!is_member("web", "web"));
    }

    fn set() -> StatefulSet {
        view(json!({
            "metadata": {"name": "web"},
            "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}, {"metadata": {"name": "log"}}]},
        }))
    }

    fn pod(name: &str, label: &str, volumes: Value) -> Pod {
        view(json!({
            "metadata": {"name": name, "labels": {NAME_LABEL: label}},
            "spec": {"volumes": volumes},
        }))
    }

    #[test]
    fn the_identity_is_the_name_and_the_label() {
        let is_good = |name, label, ordinal| matches(&set(), &pod(name, label, json!([])), ordinal);
        assert!(is_good("web-1", "web-1", 1));
        assert!(!is_good("web-1", "web-2", 1));
        assert!(!is_good("web-1", "", 1));
        assert!(!is_good("web-01", "web-01", 1));
        assert!(!is_good("other-1", "other-1", 1));
    }

    #[test]
    fn the_storage_is_a_volume_of_each_template() {
        let volume = |name: &str, claim: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
        let is_good = |volumes| storage_matches(&set(), &pod("web-1", "", volumes), 1);
        let (data, log) = (volume("data", "data-web-1"), volume("log", "log-web-1"));
        assert!(is_good(json!([data, {"name": "x", "emptyDir": {}}, log])));
        assert!(!is_good(json!([data])));
        assert!(!is_good(json!([data, volume("log", "log-web-2")])));
        assert!(!is_good(json!([data, {"name": "log", "emptyDir": {}}])));
        assert!(!is_good(json!([])));
    }
}
