use flyball_sdk::testing::view;

use super::*;

fn set(replicas: i32, min_ready: u32) -> StatefulSet {
    view(json!({
        "metadata": {"generation": 4},
        "spec": {"replicas": replicas, "minReadySeconds": min_ready, "updateStrategy": {"type": "RollingUpdate"}},
    }))
}

fn pod(revision: &str, phase: &str, ready_at: Option<i64>) -> Pod {
    let since = ready_at.map(Time::of_seconds);
    let status = if ready_at.is_some() { "True" } else { "False" };
    view(json!({
        "metadata": {"labels": {"controller-revision-hash": revision}},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]},
    }))
}

fn revisions() -> Status {
    Status {
        current_revision: "old".into(),
        update_revision: "new".into(),
        ..Status::default()
    }
}

fn counts(status: &Status) -> [i32; 5] {
    [
        status.replicas,
        status.ready_replicas,
        status.available_replicas,
        status.current_replicas,
        status.updated_replicas,
    ]
}

#[test]
fn pods_are_counted_by_state_and_revision() {
    let pods = [
        pod("old", "Running", Some(90)),
        pod("old", "Running", Some(91)),
        pod("new", "Running", None),
        pod("new", "Pending", Some(1)),
        pod("", "Failed", None),
    ];
    let status = counted(&set(5, 10), &pods, revisions(), Time::of_seconds(100));
    assert_eq!(counts(&status), [5, 2, 1, 2, 2]);
    assert_eq!(status.observed_generation, 4);
}

#[test]
fn an_update_is_complete_when_all_pods_are_updated_and_ready() {
    let completed_of = |set: &StatefulSet, pods: &[Pod], is_of_any_strategy| {
        let mut status = counted(set, pods, revisions(), Time::default());
        let is_complete = complete(set, &mut status, is_of_any_strategy);
        assert_eq!(is_complete, status.current_revision == "new");
        (status.current_revision.clone(), status.current_replicas)
    };
    let completed = |set: &StatefulSet, pods: &[Pod]| completed_of(set, pods, true);
    let ready = || pod("new", "Running", Some(0));
    let done = ("new".to_owned(), 2);
    assert_eq!(completed(&set(2, 0), &[ready(), ready()]), done);
    let left = |count| ("old".to_owned(), count);
    assert_eq!(completed(&set(3, 0), &[ready(), ready()]), left(0));
    assert_eq!(completed(&set(1, 0), &[ready(), ready()]), left(0));
    assert_eq!(
        completed(&set(2, 0), &[ready(), pod("old", "Running", Some(0))]),
        left(1)
    );
    assert_eq!(
        completed(&set(2, 0), &[ready(), pod("new", "Running", None)]),
        left(0)
    );
    let mut on_delete = set(2, 0);
    on_delete.update_strategy.strategy_type = "OnDelete".into();
    assert_eq!(completed(&on_delete, &[ready(), ready()]), done);
    let before = completed_of(&on_delete, &[ready(), ready()], false);
    assert_eq!(before, left(0));
}

#[test]
fn the_next_count_is_when_the_next_pod_becomes_available() {
    let next = |min_ready, pods: &[Pod], now| {
        let (set, time) = (set(3, min_ready), Time::of_seconds(100));
        let status = counted(&set, pods, revisions(), time);
        next_availability(&set, pods, &status, time, Time::of_seconds(now))
            .map(|wait| wait.as_secs())
    };
    let pods = [93, 97, 60].map(|at| pod("new", "Running", Some(at)));
    assert_eq!(next(10, &pods, 100), Some(3));
    assert_eq!(next(10, &pods, 102), Some(1));
    assert_eq!(next(10, &pods, 104), Some(0));
    assert_eq!(next(0, &pods, 100), None);
    assert_eq!(next(1, &pods, 100), None);
    let mut timeless = pod("new", "Running", Some(1));
    timeless.ready_since = None;
    assert_eq!(next(10, &[timeless], 100), Some(10));
}

#[test]
fn a_status_is_replaced_if_it_is_newer_or_other() {
    let old = Status {
        observed_generation: 3,
        ..revisions()
    };
    let changed = |change: fn(&mut Status)| {
        let mut status = old.clone();
        change(&mut status);
        status.replaces(&old)
    };
    assert!(!changed(|_| {}));
    assert!(changed(|status| status.observed_generation = 4));
    assert!(!changed(|status| status.observed_generation = 2));
    assert!(changed(|status| status.available_replicas = 1));
    assert!(changed(|status| status.update_revision = "x".into()));
    assert!(changed(|status| status
        .conditions
        .push(Condition::default())));
    assert!(!changed(|status| status.collision_count = Some(0)));
}
