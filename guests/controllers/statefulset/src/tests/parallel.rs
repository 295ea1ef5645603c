//! Parallel: pods don't wait for each other.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::views::Pod;

#[test]
fn all_pods_are_created_at_once() {
    let world = World::with(parallel(set(3)));
    assert_eq!(
        world.step(),
        ["create web-0", "create web-1", "create web-2"]
    );
}

#[test]
fn all_condemned_pods_are_deleted_at_once_even_if_unready() {
    let world = World::with(parallel(set(4)));
    world.settle();
    world.edit("/spec/replicas", 1);
    world.unready("web-0");
    world.unready("web-2");
    world.terminate("web-3");
    assert_eq!(world.step(), ["delete web-2", "delete web-1"]);
}

#[test]
fn pods_are_created_and_deleted_beside_terminating_and_failed_ones() {
    let world = World::with(parallel(set(4)));
    world.settle();
    world.terminate("web-0");
    world.phase("web-1", "Failed");
    world.remove("web-2");
    assert_eq!(world.step(), ["create web-2", "delete web-1"]);
}

#[test]
fn after_a_failure_no_larger_round_is_started() {
    let world = World::with(parallel(set(10)));
    // Rounds of 1, 2 and 4.
    world
        .0
        .fail_nth("create", Pod::KIND, 2, refusal(403, "Forbidden"));
    assert_eq!(world.fail(), "the test refuses this: Forbidden");
    assert_eq!(world.pods(), ["web-0", "web-2"]);
}

#[test]
fn the_size_of_rounds_is_limited_by_the_setting() {
    let world = World::with(parallel(set(4)));
    world.0.set_config("max-batch-size", "1");
    world
        .0
        .fail_nth("create", Pod::KIND, 2, refusal(403, "Forbidden"));
    world.fail();
    assert_eq!(world.pods(), ["web-0"]);

    world.0.set_config("max-batch-size", "none");
    assert_eq!(
        world.fail(),
        "invalid value of setting max-batch-size: `none`"
    );
}

#[test]
fn failed_creations_and_deletions_are_all_reported() {
    let world = World::with(parallel(set(3)));
    world
        .0
        .fail_nth("create", Pod::KIND, 2, refusal(403, "Forbidden"));
    world
        .0
        .fail_nth("create", Pod::KIND, 3, refusal(500, "InternalError"));
    assert_eq!(
        world.fail(),
        "the test refuses this: Forbidden; the test refuses this: InternalError"
    );
    let events = world.0.events();
    assert_eq!(
        events
            .iter()
            .filter(|event| event.contains("FailedCreate"))
            .count(),
        2
    );
}

#[test]
fn an_update_still_replaces_one_pod_after_the_other() {
    let world = World::with(parallel(set(3)));
    world.settle();
    world.edit("/spec/template", template("web:2"));
    assert_eq!(world.step(), ["delete web-2"]);
    assert_eq!(world.step(), ["create web-2"]);
    assert_eq!(world.step(), [""; 0]);
    world.ready("web-2");
    assert_eq!(world.step(), ["delete web-1"]);
}

#[test]
fn a_broken_update_can_be_undone() {
    // With OrderedReady, the broken pod blocks everything; see `updates`.
    let world = World::with(parallel(set(2)));
    world.settle();
    world.edit("/spec/template", template("broken:2"));
    world.step();
    world.step();
    world.unready("web-1");
    assert_eq!(world.step(), [""; 0]);
    world.edit("/spec/template", template("web:1"));
    assert_eq!(world.step(), ["delete web-1"]);
    world.settle();
    assert_eq!(world.images(), ["web:1", "web:1"]);
}

#[test]
fn pods_that_are_broken_already_are_all_replaced_at_once() {
    let broken = || {
        let world = World::with(parallel(set(4)));
        world.settle();
        world.unready("web-0");
        world.unready("web-2");
        world.edit("/spec/template", template("web:2"));
        world
    };
    let world = broken();
    assert_eq!(world.step(), ["delete web-2", "delete web-0"]);
    assert_eq!(world.counts()[3], 2);
    assert_eq!(world.step(), ["create web-0", "create web-2"]);
    assert_eq!(world.step(), [""; 0]);
    world.ready("web-0");
    world.ready("web-2");
    assert_eq!(world.step(), ["delete web-3"]);

    // In Kubernetes 1.36, they used up what may be unavailable.
    let world = broken();
    world.0.set_config("emulated-version", "1.36");
    assert_eq!(world.step(), [""; 0]);
    world
        .0
        .set_config("feature-gates.MaxUnavailableStatefulSet", "false");
    assert_eq!(world.step(), ["delete web-3"]);
}

#[test]
fn a_set_of_no_pods_is_done() {
    let world = World::with(parallel(set(0)));
    assert_eq!(world.reconcile().unwrap(), Outcome::Done);
    assert_eq!(world.counts(), [0; 5]);
    assert_eq!(world.pods(), [""; 0]);
}
