use flyball_sdk::testing::view;

use super::*;

fn owners(policy: [&str; 2], ordinal: i64, pod_uid: &str) -> Owners {
    let [when_deleted, when_scaled] = policy;
    let set = view(json!({
        "metadata": {"name": "web", "uid": "set"},
        "spec": {"replicas": 2, "persistentVolumeClaimRetentionPolicy":
                 {"whenDeleted": when_deleted, "whenScaled": when_scaled}},
    }));
    Owners::of(&set, ordinal, pod_uid)
}

const POLICIES: [[&str; 2]; 4] = [
    ["Retain", "Retain"],
    ["Retain", "Delete"],
    ["Delete", "Retain"],
    ["Delete", "Delete"],
];

/// A reference to the set, `web`, or to the pod, `web-1` or `web-2`.
fn reference(name: &str, uid: &str, controller: Option<bool>) -> Owner {
    let is_set = name == "web";
    Owner {
        api_version: if is_set { "apps/v1" } else { "v1" }.into(),
        kind: if is_set { "StatefulSet" } else { "Pod" }.into(),
        name: name.into(),
        uid: uid.into(),
        controller,
        block_owner_deletion: controller,
    }
}

fn set_ref() -> Owner {
    reference("web", "set", Some(true))
}

fn pod_ref(ordinal: i64) -> Owner {
    reference(&format!("web-{ordinal}"), "pod", Some(true))
}

fn other(controller: Option<bool>) -> Owner {
    reference("random", "random", controller)
}

#[test]
fn each_policy_has_its_owners() {
    // For a pod that is wanted, and for a condemned one.
    for (policy, wanted, condemned) in [
        (["Retain", "Retain"], vec![], vec![]),
        (["Retain", "Delete"], vec![], vec![pod_ref(2)]),
        (["Delete", "Retain"], vec![set_ref()], vec![set_ref()]),
        (["Delete", "Delete"], vec![set_ref()], vec![pod_ref(2)]),
    ] {
        for (ordinal, expected) in [(1, wanted), (2, condemned)] {
            let owners = owners(policy, ordinal, "pod");
            for before in [
                vec![],
                vec![set_ref()],
                vec![pod_ref(ordinal)],
                vec![set_ref(), pod_ref(ordinal)],
            ] {
                assert_eq!(owners.applied(&before), expected, "{policy:?} {before:?}");
                let matches = before == expected;
                assert_eq!(
                    owners.match_those(&before),
                    matches,
                    "{policy:?} {before:?}"
                );
            }
        }
    }
}

#[test]
fn a_policy_that_the_api_does_not_define_retains() {
    let owners = owners(["", "Sometimes"], 2, "pod");
    assert!(owners.match_those(&[]));
    assert_eq!(owners.applied(&[set_ref()]), []);
}

#[test]
fn an_owner_that_does_not_control_becomes_the_controller() {
    for flag in [None, Some(false)] {
        let owners = owners(["Delete", "Retain"], 1, "pod");
        let before = [reference("web", "set", flag)];
        assert!(!owners.match_those(&before));
        assert_eq!(owners.applied(&before), [set_ref()]);
    }
    let owners = owners(["Retain", "Delete"], 2, "pod");
    let before = [reference("web-2", "pod", None)];
    assert!(!owners.match_those(&before));
    assert_eq!(owners.applied(&before), [pod_ref(2)]);
}

#[test]
fn a_claim_of_an_object_that_was_deleted_is_left_alone() {
    for policy in POLICIES {
        for ordinal in [1, 2] {
            let owners = owners(policy, ordinal, "pod");
            for stale in [
                reference("web", "stale", Some(true)),
                reference(&format!("web-{ordinal}"), "stale", Some(true)),
            ] {
                assert!(owners.match_those(&[stale]), "{policy:?}");
            }
        }
    }
}

#[test]
fn a_claim_of_another_controller_is_only_released() {
    for policy in &POLICIES[1..] {
        let owners = owners(*policy, 2, "pod");
        let before = [other(Some(true))];
        assert!(owners.conflict_with(&before));
        assert!(owners.match_those(&before), "{policy:?}");
        for own in [set_ref(), pod_ref(2)] {
            let before = [own, other(Some(true))];
            assert!(!owners.match_those(&before), "{policy:?}");
            assert_eq!(owners.applied(&before), [other(Some(true))]);
        }
    }
}

#[test]
fn a_set_that_retains_claims_has_no_conflicts() {
    let owners = owners(["Retain", "Retain"], 1, "pod");
    assert!(!owners.conflict_with(&[other(Some(true))]));
    assert!(owners.match_those(&[other(Some(true))]));
    let before = [set_ref(), other(Some(true))];
    assert!(!owners.match_those(&before));
    assert_eq!(owners.applied(&before), [other(Some(true))]);
}

#[test]
fn other_owners_are_kept_and_change_nothing() {
    for flag in [None, Some(false)] {
        let owners = owners(["Delete", "Retain"], 1, "pod");
        assert!(!owners.conflict_with(&[other(flag)]));
        assert!(owners.match_those(&[other(flag), set_ref()]));
        assert_eq!(owners.applied(&[other(flag)]), [other(flag), set_ref()]);
    }
}

#[test]
fn the_kind_of_an_owner_matters() {
    let owners = owners(["Delete", "Retain"], 1, "pod");
    let mut impostor = reference("web", "other", Some(true));
    impostor.api_version = "example.com/v1".into();
    assert!(owners.conflict_with(std::slice::from_ref(&impostor)));
    assert_eq!(owners.applied(std::slice::from_ref(&impostor)), [impostor]);
}

#[test]
fn a_claim_of_a_pod_that_was_deleted_is_stale_for_the_next_one() {
    let owners = owners(["Retain", "Delete"], 1, "");
    assert!(owners.pod_is_stale(&[pod_ref(1)]));
    assert!(!owners.pod_is_stale(&[pod_ref(2)]));
    assert!(!owners.pod_is_stale(&[set_ref()]));
    assert!(!owners.pod_is_stale(&[]));
}
