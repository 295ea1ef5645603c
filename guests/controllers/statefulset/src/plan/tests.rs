use flyball_sdk::testing::view;

use super::*;

fn set(policy: &str) -> StatefulSet {
    view(json!({"metadata": {"name": "web"},
                "spec": {"replicas": 3, "podManagementPolicy": policy, "minReadySeconds": 10}}))
}

/// A pod that became ready at this second.
fn pod(phase: &str, ready_at: Option<i64>) -> Pod {
    let conditions = match ready_at {
        Some(at) => {
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": Time::of_seconds(at)}])
        }
        None => json!([]),
    };
    view(json!({
        "metadata": {"name": "web-0", "uid": "u0",
                     "labels": {"statefulset.kubernetes.io/pod-name": "web-0"}},
        "status": {"phase": phase, "conditions": conditions},
    }))
}

fn deleted(pod: Pod) -> Pod {
    let mut pod = pod;
    pod.meta.deletion_timestamp = Some(Time::default());
    pod
}

fn step(policy: &str, pod: Option<&Pod>) -> Step {
    let set = set(policy);
    let situation = Situation {
        set: &set,
        claims: &Claims::default(),
        now: Time::of_seconds(100),
    };
    situation.replica(&Replica { ordinal: 0, pod })
}

const CLAIMS: Need = Need::Repair(Repair {
    claims: true,
    identity: false,
    storage: false,
    owners: false,
});

#[test]
fn each_state_of_a_pod_has_its_step() {
    for (pod, need, blocks) in [
        (None, Need::Creation, true),
        (Some(pod("Pending", None)), CLAIMS, true),
        (Some(deleted(pod("Pending", None))), CLAIMS, true),
        (Some(pod("Running", None)), Need::Nothing, true),
        (Some(pod("Running", Some(91))), Need::Nothing, true),
        (Some(pod("Running", Some(90))), Need::Nothing, false),
        (Some(deleted(pod("Running", Some(1)))), Need::Nothing, true),
        (Some(pod("Unknown", Some(1))), Need::Nothing, true),
        (Some(pod("Failed", None)), Need::Deletion, true),
        (Some(pod("Succeeded", Some(1))), Need::Deletion, true),
        (Some(deleted(pod("Failed", None))), Need::Nothing, true),
    ] {
        for policy in ["OrderedReady", "Parallel"] {
            let expected = Step { need, blocks };
            assert_eq!(step(policy, pod.as_ref()), expected, "{policy} {pod:?}");
        }
    }
}

#[test]
fn in_order_only_an_available_pod_is_repaired() {
    let stranger = |mut pod: Pod| {
        pod.meta.labels = LabelSet::default();
        pod
    };
    let identity = Repair {
        identity: true,
        ..Repair::default()
    };
    let available = stranger(pod("Running", Some(1)));
    for policy in ["OrderedReady", "Parallel"] {
        assert_eq!(step(policy, Some(&available)).need, Need::Repair(identity));
    }
    let pending = stranger(pod("Pending", None));
    assert_eq!(step("OrderedReady", Some(&pending)).need, CLAIMS);
    let both = Repair {
        claims: true,
        ..identity
    };
    assert_eq!(step("Parallel", Some(&pending)).need, Need::Repair(both));
}

#[test]
fn a_condemned_pod_is_due_if_nothing_is_wrong_before_it() {
    let due = |policy: &str, pod: &Pod, first| {
        let set = set(policy);
        let situation = Situation {
            set: &set,
            claims: &Claims::default(),
            now: Time::of_seconds(100),
        };
        let condemned = Replica {
            ordinal: 5,
            pod: Some(pod),
        };
        situation.is_due(&condemned, first)
    };
    let (available, young, unready) = (
        pod("Running", Some(90)),
        pod("Running", Some(91)),
        pod("Running", None),
    );
    assert!(due("OrderedReady", &available, None));
    assert!(due("OrderedReady", &available, Some(4)));
    for waiting in [&young, &unready] {
        assert!(!due("OrderedReady", waiting, Some(4)));
        assert!(due("OrderedReady", waiting, Some(5)));
        assert!(due("Parallel", waiting, Some(4)));
    }
    for policy in ["OrderedReady", "Parallel"] {
        assert!(!due(policy, &deleted(available.clone()), Some(5)));
    }
}

#[test]
fn rounds_grow_up_to_the_maximum_unless_pods_are_processed_in_order() {
    let sizes = |count: usize, is_ordered, max| -> Vec<usize> {
        let items = vec![(); count];
        rounds(&items, is_ordered, max).map(<[()]>::len).collect()
    };
    assert_eq!(sizes(0, false, 500), [0; 0]);
    assert_eq!(sizes(1, false, 500), [1]);
    assert_eq!(sizes(10, false, 500), [1, 2, 4, 3]);
    assert_eq!(sizes(10, false, 3), [1, 2, 3, 3, 1]);
    assert_eq!(sizes(3, true, 500), [1, 1, 1]);
}
