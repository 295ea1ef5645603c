//! Jobs with many completions and many pods.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::pods::INDEX;

/// A pod that has ended and is counted. Reading it fails, because its node is not a string.
fn unreadable(name: &str, phase: &str) -> Object {
    let node = json!({"not": "read"});
    pod(name)
        .without_finalizer()
        .phase(phase)
        .with("/spec/nodeName", node)
}

#[test]
fn a_job_of_100_000_completions_goes_on_in_the_middle() {
    let running = (50_000..59_000).map(|index| pod_of(&format!("work-{index}"), index));
    let job = indexed(10_000, 100_000)
        .with("/status/completedIndexes", "0-49999")
        .with("/status/succeeded", 50_000);
    let world = World::of(running.chain([job]));
    let written = world.sync();
    assert_eq!(written.len(), 501);
    let created = world.cluster.objects(POD).into_iter().filter_map(|pod| {
        let index: i64 = pod["metadata"]["annotations"][INDEX]
            .as_str()?
            .parse()
            .ok()?;
        (index >= 59_000).then_some(index)
    });
    let mut created: Vec<i64> = created.collect();
    created.sort_unstable();
    assert!(created.iter().copied().eq(59_000..59_500));
    assert_eq!(world.counts(), [9_500, 0, 50_000, 0]);
}

#[test]
fn more_pods_than_a_batch_may_have_writes_are_deleted_together() {
    let running = (0..2_500).map(|number| pod(&format!("work-{number}")));
    let suspended = job(2_500, 5_000).with("/spec/suspend", true);
    let world = World::of(running.chain([suspended]));
    let written = world.sync();
    assert_eq!(
        (
            count(&written, "patch v1/Pod"),
            count(&written, "delete v1/Pod")
        ),
        (2_500, 2_500)
    );
    assert_eq!(world.counts()[0], 0);
}

#[test]
fn counted_pods_are_not_read() {
    let world = World::of([
        job(2, 5)
            .with("/status/succeeded", 2)
            .with("/status/failed", 1),
        unreadable("counted", "Succeeded"),
        unreadable("failed", "Failed"),
        pod("active"),
        pod("stripped").without_finalizer(),
        pod("new").succeeded(),
    ]);
    assert_eq!(world.try_sync(), Ok(Outcome::Done));
    assert_eq!(world.counts(), [2, 0, 3, 1]);
}

#[test]
fn a_counted_pod_is_read_if_it_no_longer_matches() {
    let strayed = pod("strayed")
        .without_finalizer()
        .succeeded()
        .with("/metadata/labels", json!({"job": "other"}));
    let world = World::of([job(1, 5).with("/status/succeeded", 1), strayed]);
    assert!(
        world
            .sync()
            .contains(&"patch v1/Pod default/strayed".to_owned())
    );
    assert_eq!(
        world.pod("strayed")["metadata"]["ownerReferences"],
        json!([])
    );
}

#[test]
fn a_counted_failed_pod_is_read_if_the_job_has_a_pod_failure_policy() {
    let exits = json!({"operator": "In", "values": [1]});
    let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": exits}]});
    let world = World::of([
        job(1, 5).with("/spec/podFailurePolicy", policy),
        pod("counted").without_finalizer().failed(1),
    ]);
    world.sync();
    let target = "FailureTarget PodFailurePolicy".to_owned();
    assert!(
        world.conditions().contains(&target),
        "{:?}",
        world.conditions()
    );
}

#[test]
fn what_a_selector_does_not_match_is_released_whatever_it_requires() {
    let requirements = json!([
        {"key": "job", "operator": "In", "values": ["work", "works"]},
        {"key": "debug", "operator": "DoesNotExist"},
        {"key": "tier", "operator": "Exists"},
        {"key": "tier", "operator": "NotIn", "values": ["none"]},
    ]);
    let counted = |name: &str, labels: Value| {
        pod(name)
            .without_finalizer()
            .succeeded()
            .with("/metadata/labels", labels)
    };
    let world = World::of([
        job(1, 9)
            .with("/spec/selector", json!({"matchExpressions": requirements}))
            .with("/status/succeeded", 6),
        counted("kept", json!({"job": "works", "tier": "a"})),
        counted("other-job", json!({"job": "other", "tier": "a"})),
        counted("no-job", json!({"tier": "a"})),
        counted("debugged", json!({"job": "work", "tier": "a", "debug": ""})),
        counted("no-tier", json!({"job": "work"})),
        counted("tier-none", json!({"job": "work", "tier": "none"})),
    ]);
    let written = world.sync();
    let released = written
        .iter()
        .filter_map(|line| line.strip_prefix("patch v1/Pod default/"));
    let expected = ["debugged", "no-job", "no-tier", "other-job", "tier-none"];
    assert!(released.eq(expected), "{written:?}");
}
