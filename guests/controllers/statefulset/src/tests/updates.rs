//! Updates to another template.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::views::Pod;

const LABEL: &str = "controller-revision-hash";

/// A settled set of three pods whose template was then changed.
fn updating() -> World {
    let world = World::with(set(3));
    world.settle();
    world.edit("/spec/template", template("web:2"));
    world
}

#[test]
fn pods_are_replaced_one_by_one_from_the_highest_ordinal() {
    let world = updating();
    assert_eq!(world.step(), ["delete web-2"]);
    assert_eq!(world.counts(), [3, 3, 3, 2, 0]);
    assert_eq!(world.step(), ["create web-2"]);
    assert_eq!(world.counts(), [2, 2, 2, 2, 0]);
    assert_eq!(world.step(), [""; 0]);
    world.ready("web-2");
    assert_eq!(world.step(), ["delete web-1"]);
    world.step();
    world.ready("web-1");
    assert_eq!(world.step(), ["delete web-0"]);
    world.settle();
    assert_eq!(world.images(), ["web:2"; 3]);
    assert_eq!(world.counts(), [3; 5]);
}

#[test]
fn the_update_is_complete_when_all_pods_are_updated_and_ready() {
    let world = updating();
    let before = world.status()["currentRevision"].clone();
    world.step();
    let update = world.status()["updateRevision"].clone();
    assert_ne!(update, before);
    for pod in ["web-2", "web-1", "web-0"] {
        assert_eq!(world.status()["currentRevision"], before);
        world.step();
        world.ready(pod);
        world.step();
    }
    assert_eq!(world.status()["currentRevision"], update);
    assert_eq!(world.status()["updateRevision"], update);
    assert_eq!(world.counts(), [3; 5]);
}

#[test]
fn an_unavailable_pod_above_blocks_the_update() {
    let world = updating();
    world.step();
    world.step();
    world.unready("web-2");
    assert_eq!(world.step(), [""; 0]);
}

#[test]
fn a_pod_that_is_outdated_and_terminating_is_waited_for() {
    let world = updating();
    world.0.edit(Pod::KIND, "default", "web-2", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    });
    assert_eq!(world.step(), ["delete web-2"]);
    assert_eq!(world.step(), [""; 0]);
}

#[test]
fn a_broken_update_blocks_until_its_pod_is_deleted_by_hand() {
    let world = World::with(set(3));
    world.settle();
    world.edit("/spec/template", template("broken:2"));
    world.step();
    world.step();
    world.unready("web-2");
    world.edit("/spec/template", template("web:3"));
    assert_eq!(world.step(), [""; 0]);
    world.remove("web-2");
    assert_eq!(world.step(), ["create web-2"]);
    assert_eq!(world.image("web-2"), "web:3");
}

#[test]
fn pods_below_the_partition_keep_the_current_revision() {
    let world = World::with(set(3).with("/spec/updateStrategy/rollingUpdate/partition", 2));
    world.settle();
    world.edit("/spec/template", template("web:2"));
    world.settle();
    assert_eq!(world.images(), ["web:1", "web:1", "web:2"]);
    assert_eq!(world.counts(), [3, 3, 3, 2, 1]);
    assert_ne!(
        world.status()["currentRevision"],
        world.status()["updateRevision"]
    );

    // They get it again if they are created again; the others get the update.
    world.remove("web-0");
    world.remove("web-2");
    world.settle();
    assert_eq!(world.images(), ["web:1", "web:1", "web:2"]);

    world.edit("/spec/updateStrategy/rollingUpdate/partition", 0);
    world.settle();
    assert_eq!(world.images(), ["web:2"; 3]);
    assert_eq!(
        world.status()["currentRevision"],
        world.status()["updateRevision"]
    );
}

#[test]
fn a_partition_above_the_replicas_updates_nothing() {
    let world = World::with(set(2).with("/spec/updateStrategy/rollingUpdate/partition", 9));
    world.settle();
    world.edit("/spec/template", template("web:2"));
    world.settle();
    assert_eq!(world.images(), ["web:1", "web:1"]);
}

#[test]
fn a_partition_counts_from_the_first_ordinal() {
    let world = World::with(
        set(3)
            .with("/spec/ordinals/start", 4)
            .with("/spec/updateStrategy/rollingUpdate/partition", 2),
    );
    world.settle();
    world.edit("/spec/template", template("web:2"));
    world.settle();
    assert_eq!(world.images(), ["web:1", "web:1", "web:2"]);
    world.remove("web-5");
    world.settle();
    assert_eq!(world.images(), ["web:1", "web:1", "web:2"]);
}

#[test]
fn without_a_partition_pods_that_the_update_has_not_reached_keep_the_current_revision() {
    let world = World::with(set(3).with("/spec/updateStrategy", json!({"type": "RollingUpdate"})));
    world.settle();
    world.edit("/spec/template", template("web:2"));
    world.step();
    world.step();
    world.ready("web-2");
    // Two pods are of the current revision, so the update has not reached web-0.
    world.remove("web-0");
    world.step();
    assert_eq!(world.images(), ["web:1", "web:1", "web:2"]);
    world.settle();
    assert_eq!(world.images(), ["web:2"; 3]);
}

#[test]
fn in_parallel_a_pod_that_was_just_created_outdated_is_replaced_in_the_next_step() {
    let set = parallel(set(2)).with("/spec/updateStrategy", json!({"type": "RollingUpdate"}));
    let world = World::with(set);
    world.settle();
    world.edit("/spec/template", template("web:2"));
    world.step();
    world.step();
    world.ready("web-1");
    world.remove("web-0");
    assert_eq!(world.step(), ["create web-0"]);
    assert_eq!(world.image("web-0"), "web:1");
    assert_eq!(world.step(), ["delete web-0"]);
    world.settle();
    assert_eq!(world.images(), ["web:2", "web:2"]);
}

#[test]
fn on_delete_replaces_nothing_and_new_pods_get_the_update() {
    let world = World::with(set(3).with("/spec/updateStrategy", json!({"type": "OnDelete"})));
    world.settle();
    world.edit("/spec/template", template("web:2"));
    assert_eq!(world.step(), [""; 0]);
    world.remove("web-1");
    world.settle();
    assert_eq!(world.images(), ["web:1", "web:2", "web:1"]);
    // In Kubernetes 1.36, it is never complete.
    world.0.set_config("emulated-version", "1.36");
    world.remove("web-0");
    world.remove("web-2");
    world.settle();
    assert_eq!(world.images(), ["web:2"; 3]);
    assert_ne!(
        world.status()["currentRevision"],
        world.status()["updateRevision"]
    );
    assert_eq!(world.counts(), [3, 3, 3, 0, 3]);

    world.0.set_config("emulated-version", "1.37");
    world.settle();
    assert_eq!(
        world.status()["currentRevision"],
        world.status()["updateRevision"]
    );
    assert_eq!(world.counts(), [3; 5]);
}

#[test]
fn a_change_of_scale_takes_precedence_over_an_update() {
    let world = updating();
    world.edit("/spec/replicas", 4);
    assert_eq!(world.step(), ["create web-3"]);
    world.ready("web-3");
    assert_eq!(world.step(), ["delete web-2"]);

    let world = updating();
    world.edit("/spec/replicas", 2);
    assert_eq!(world.step(), ["delete web-2"]);
    assert_eq!(world.step(), ["delete web-1"]);
}

#[test]
fn a_failed_deletion_is_reported_and_the_status_written() {
    let world = updating();
    world
        .0
        .fail("delete", Pod::KIND, refusal(500, "InternalError"));
    world.fail();
    world.written();
    assert_eq!(world.counts(), [3, 3, 3, 3, 0]);
    assert_eq!(world.status()["observedGeneration"], 2);
    assert_eq!(world.step(), ["delete web-2"]);
}

#[test]
fn pods_must_be_available_for_the_next_step() {
    use std::time::Duration;

    let world = World::with(set(2).with("/spec/minReadySeconds", 30));
    world.step();
    world.ready("web-0");
    let soon = world.reconcile().unwrap();
    assert_eq!(soon, Outcome::RequeueAfter(Duration::from_secs(30)));
    assert_eq!(world.pods(), ["web-0"]);
    assert_eq!(world.counts(), [1, 1, 0, 1, 1]);
    world.0.advance(Duration::from_secs(30));
    world.written();
    assert_eq!(world.step(), ["create web-1"]);
    world.ready("web-1");
    world.reconcile().unwrap();

    // An update and scaling down wait as well.
    world.edit("/spec/template", template("web:2"));
    assert_eq!(world.step(), [""; 0]);
    world.0.advance(Duration::from_secs(30));
    assert_eq!(world.step(), ["delete web-1"]);
    world.step();
    world.ready("web-1");
    world.edit("/spec/replicas", 1);
    assert_eq!(
        world.step(),
        ["delete web-1"],
        "it is the first unavailable pod"
    );
}

#[test]
fn condemned_pods_must_be_available_or_the_first_that_are_not() {
    use std::time::Duration;

    let world = World::with(set(3).with("/spec/minReadySeconds", 30));
    for pod in ["web-0", "web-1", "web-2"] {
        world.step();
        world.ready(pod);
        world.0.advance(Duration::from_secs(30));
    }
    world.step();
    world.ready("web-2");
    world.ready("web-1");
    world.edit("/spec/replicas", 1);
    assert_eq!(world.step(), [""; 0]);
    world.0.advance(Duration::from_secs(30));
    assert_eq!(world.step(), ["delete web-2"]);
}

#[test]
fn on_delete_does_not_count_availability_in_an_update() {
    let world = World::with(
        set(2)
            .with("/spec/updateStrategy", json!({"type": "OnDelete"}))
            .with("/spec/minReadySeconds", 30),
    );
    world.step();
    world.ready("web-0");
    assert_eq!(world.step(), [""; 0]);
    world.0.advance(std::time::Duration::from_secs(30));
    assert_eq!(world.step(), ["create web-1"]);
}

#[test]
fn with_the_gate_several_pods_may_be_unavailable() {
    let world =
        World::with(parallel(set(5)).with("/spec/updateStrategy/rollingUpdate/maxUnavailable", 2));
    world.settle();
    world.edit("/spec/template", template("web:2"));

    world
        .0
        .set_config("feature-gates.MaxUnavailableStatefulSet", "true");
    assert_eq!(world.step(), ["delete web-4", "delete web-3"]);
    assert_eq!(world.counts(), [5, 5, 5, 3, 0]);
    assert_eq!(world.step(), ["create web-3", "create web-4"]);
    world.ready("web-4");
    assert_eq!(world.step(), ["delete web-2"]);
    world.settle();
    assert_eq!(world.images(), ["web:2"; 5]);
}

#[test]
fn the_field_is_ignored_without_the_gate() {
    let world =
        World::with(parallel(set(5)).with("/spec/updateStrategy/rollingUpdate/maxUnavailable", 2));
    world
        .0
        .set_config("feature-gates.MaxUnavailableStatefulSet", "false");
    world.settle();
    world.edit("/spec/template", template("web:2"));
    assert_eq!(world.step(), ["delete web-4"]);
    assert_eq!(world.0.metrics(), []);
}

#[test]
fn with_the_gate_an_unavailable_pod_below_the_partition_counts_too() {
    let world = World::with(
        parallel(set(4))
            .with("/spec/updateStrategy/rollingUpdate/maxUnavailable", "50%")
            .with("/spec/updateStrategy/rollingUpdate/partition", 1),
    );
    world
        .0
        .set_config("feature-gates.MaxUnavailableStatefulSet", "true");
    world.settle();
    world.edit("/spec/template", template("web:2"));
    world.unready("web-0");
    world.0.metrics();
    assert_eq!(world.step(), ["delete web-3"]);
    let metrics: Vec<(String, f64)> = world
        .0
        .metrics()
        .into_iter()
        .map(|(_, name, labels, value)| {
            assert_eq!(labels, ["default", "web", "Parallel"]);
            (
                name.replace("statefulset_controller_statefulset_", ""),
                value,
            )
        })
        .collect();
    assert_eq!(
        metrics,
        [
            ("unavailable_replicas".to_owned(), 1.0),
            ("max_unavailable".to_owned(), 2.0)
        ]
    );
    world.step();
    assert_eq!(world.step(), [""; 0]);
}

#[test]
fn pods_carry_the_name_of_their_revision() {
    let world = updating();
    world.settle();
    let revision = world.status()["updateRevision"].clone();
    assert_eq!(world.pod("web-0")["metadata"]["labels"][LABEL], revision);
}
