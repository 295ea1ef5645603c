//! New pods.

use flyball_sdk::ApiError;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::DaemonSetController;

fn names_of_nodes(world: &World) -> Vec<String> {
    let mut nodes: Vec<String> = world.pods().iter().map(target).collect();
    nodes.sort();
    nodes
}

#[test]
fn each_node_gets_a_pod() {
    for strategy in ["RollingUpdate", "OnDelete"] {
        let world = World::of(
            set_with([("/spec/updateStrategy/type", json!(strategy))]),
            3,
        );
        assert_eq!(world.sync(), (3, 0));
        assert_eq!(names_of_nodes(&world), ["n0", "n1", "n2"]);
        let name = |at: usize| {
            world.pods()[at]["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let mut events = world.cluster.events();
        events.sort();
        assert_eq!(
            events,
            [0, 1, 2].map(|at| format!("Normal SuccessfulCreate Created pod: {}", name(at)))
        );
        assert_eq!(world.sync(), (0, 0));
    }
}

#[test]
fn without_nodes_nothing_is_created() {
    let world = World::of(set(), 0);
    assert_eq!(world.sync(), (0, 0));
    assert_eq!(world.status()["observedGeneration"], 1);
}

#[test]
fn nodes_that_do_not_suit_get_none() {
    let world = World::of(
        set_with([(&of_pods("nodeSelector"), json!({"name": "n1"}))]),
        3,
    );
    assert_eq!(world.sync(), (1, 0));
    assert_eq!(names_of_nodes(&world), ["n1"]);
    let world = World::of(set_with([(&of_pods("nodeName"), json!("elsewhere"))]), 3);
    assert_eq!(world.sync(), (0, 0));
}

#[test]
fn a_reconcile_creates_at_most_a_burst() {
    let world = World::of(set(), 7);
    world.cluster.set_config("burst-replicas", "5");
    assert_eq!(
        [world.sync(), world.sync(), world.sync()],
        [(5, 0), (2, 0), (0, 0)]
    );

    let many = World::of(set(), 251);
    assert_eq!([many.sync(), many.sync()], [(250, 0), (1, 0)]);
}

#[test]
fn a_reconcile_deletes_at_most_a_burst() {
    let world = World::of(set(), 0);
    world.cluster.set_config("burst-replicas", "2");
    let world = world.with((0..3).map(|at| unscheduled(&format!("p{at}"), "gone")));
    assert_eq!(
        [world.sync(), world.sync(), world.sync()],
        [(0, 2), (0, 1), (0, 0)]
    );
}

#[test]
fn creations_start_slowly_and_stop_at_the_first_round_with_an_error() {
    let world = World::of(set(), 10);
    // The second round has two creations.
    world
        .cluster
        .fail_nth("create", POD, 3, refusal(403, "Forbidden"));
    let (outcome, writes) = world.try_sync();
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "the test refuses this: Forbidden (403 Forbidden)"
    );
    assert_eq!(moves(&writes), (2, 0));
    let events = world.cluster.events();
    assert_eq!(events.len(), 3);
    assert_eq!(
        events[2],
        "Warning FailedCreate Error creating: the test refuses this: Forbidden"
    );
    // The status is written nevertheless.
    assert_eq!(world.counters(), [10, 2, 0, 0, 0, 2, 10]);
    assert_eq!(world.status()["observedGeneration"], 1);
}

#[test]
fn deletions_are_carried_out_even_if_creations_fail() {
    let world = World::of(set(), 1).with([unscheduled("stranded", "gone")]);
    world
        .cluster
        .fail("create", POD, refusal(500, "InternalError"));
    let (outcome, writes) = world.try_sync();
    assert!(outcome.is_err());
    assert_eq!(moves(&writes), (0, 1));
}

#[test]
fn refusals_in_a_namespace_that_is_being_deleted_are_not_reported() {
    let world = World::of(set(), 2);
    let terminating = ApiError::of_server(403, "NamespaceTerminating", "it is being deleted");
    world.cluster.fail("create", POD, terminating);
    assert_eq!(world.sync(), (0, 0));
    assert!(world.cluster.events().is_empty());
    // The next creation would succeed, but it is not tried.
    assert_eq!(world.sync(), (0, 0));
}

#[test]
fn an_ended_namespace_or_set_needs_nothing() {
    let world = World::of(set(), 1);
    world.cluster.remove(SET, "default", "ds");
    assert_eq!(
        world.cluster.reconcile::<DaemonSetController>(KEY).unwrap(),
        Outcome::Done
    );
    assert!(world.cluster.written().is_empty());
}

#[test]
fn a_new_set_costs_a_revision_its_pods_and_one_status() {
    let world = World::of(set(), 1);
    let written = world.written();
    let verbs: Vec<_> = written
        .iter()
        .map(|line| line.rsplit_once(' ').unwrap().0)
        .collect();
    assert_eq!(
        verbs,
        [
            "create apps/v1/ControllerRevision",
            "create v1/Pod",
            "update apps/v1/DaemonSet/status"
        ]
    );
    assert!(world.written().is_empty());
}
