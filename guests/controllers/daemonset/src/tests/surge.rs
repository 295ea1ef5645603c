//! Rolling updates with surge.

use flyball_sdk::prelude::*;

use super::world::*;

/// A world in which the node `n0` has an old and a new pod, with these states of readiness.
fn both(set: Value, old: &str, new: &str) -> World {
    let world = World::of(set, 1);
    world.sync();
    let made = world.pods()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.cluster.remove(POD, "default", &made);
    let hash = world.hash();
    let with = |mut pod: Value, status: &str| {
        pod["status"]["conditions"] = readiness(status);
        pod
    };
    world.with([
        with(of_revision(pod("old", "n0"), "older"), old),
        with(of_revision(pod("new", "n0"), &hash), new),
    ])
}

/// The names of the pods that a reconcile deletes.
fn deleted(world: &World) -> Vec<String> {
    let (outcome, writes) = world.try_sync();
    outcome.unwrap();
    let deletions = writes
        .into_iter()
        .filter(|one| one.verb == "delete" && one.kind == POD);
    deletions.map(|one| one.name).collect()
}

fn taint(world: &World, node: &str, effect: &str) {
    let taints = json!([{"key": "k", "value": "v", "effect": effect}]);
    world
        .cluster
        .edit(NODE, "", node, |node| node["spec"]["taints"] = taints);
}

#[test]
fn new_pods_are_created_beside_old_ones_within_the_limit() {
    for (limit, at_once) in [(json!(1), 1), (json!("50%"), 2), (json!("100%"), 4)] {
        let world = World::rolled_out(surging(limit), 4);
        world.set_image("app:2");
        assert_eq!(world.sync(), (at_once, 0));
        assert_eq!(world.sync(), (0, 0));
        world.run_pods();
        // The old pods of the new ones are deleted.
        assert_eq!(world.sync(), (0, at_once));
        world.finish();
        assert_eq!(
            world.images(),
            ["n0 app:2", "n1 app:2", "n2 app:2", "n3 app:2"]
        );
        assert_eq!(world.counters(), [4, 4, 0, 4, 4, 4, 0]);
    }
}

#[test]
fn the_old_pod_is_counted_until_it_is_deleted() {
    let world = World::rolled_out(surging(1), 2);
    world.advance(1);
    world.set_image("app:2");
    world.sync();
    assert_eq!(world.counters(), [2, 2, 0, 2, 2, 0, 0]);
}

#[test]
fn a_broken_template_leaves_all_old_pods() {
    let world = World::rolled_out(surging(2), 4);
    world.set_image("broken");
    world.finish();
    let count = |image: &str| {
        world
            .images()
            .iter()
            .filter(|line| line.ends_with(image))
            .count()
    };
    assert_eq!((count("app:1"), count("broken")), (4, 2));
}

#[test]
fn an_old_pod_that_is_ready_stays_until_the_new_one_is_available() {
    let mut patient = surging(1);
    patient["spec"]["minReadySeconds"] = json!(15);
    for (set, old, new, expected) in [
        (surging(1), "True", "False", &[][..]),
        (surging(1), "True", "True", &["old"]),
        (surging(1), "False", "False", &["old"]),
        (surging(1), "False", "True", &["old"]),
        (patient.clone(), "True", "True", &[]),
        (patient.clone(), "False", "False", &["old"]),
    ] {
        assert_eq!(deleted(&both(set, old, new)), expected, "{old} {new}");
    }
    let world = both(patient, "True", "True");
    world.advance(14);
    assert!(deleted(&world).is_empty());
    let (outcome, _) = world.try_sync();
    assert_eq!(
        outcome.unwrap(),
        Outcome::RequeueAfter(std::time::Duration::from_secs(1))
    );
    world.advance(1);
    assert_eq!(deleted(&world), ["old"]);
}

#[test]
fn surplus_pods_of_the_same_revision_are_deleted() {
    let world = both(surging(1), "True", "False");
    let hash = world.hash();
    let later = |mut pod: Value| {
        pod["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z".into();
        pod
    };
    let world = world.with([
        later(of_revision(pod("new-later", "n0"), &hash)),
        later(of_revision(pod("old-later", "n0"), "oldest")),
    ]);
    assert_eq!(deleted(&world), ["new-later", "old-later"]);
}

#[test]
fn with_several_pods_of_one_revision_the_first_is_kept() {
    let world = World::of(surging(1), 1).with([pod("a", "n0"), pod("b", "n0")]);
    assert_eq!(deleted(&world), ["b"]);
}

#[test]
fn a_node_whose_pods_are_all_being_deleted_gets_a_new_one_at_once() {
    let world = World::rolled_out(surging(1), 1);
    let name = world.pods()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.edit_pod(&name, |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into()
    });
    assert_eq!(world.sync(), (1, 0));
    assert_eq!(world.sync(), (0, 0));

    let world = World::rolled_out(set(), 1);
    let name = world.pods()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.edit_pod(&name, |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into()
    });
    assert_eq!(world.sync(), (0, 0));
}

#[test]
fn a_deleted_old_pod_is_replaced_although_the_limit_is_reached() {
    let world = World::rolled_out(surging(1), 3);
    world.set_image("broken");
    world.finish();
    let old = world
        .pods()
        .into_iter()
        .find(|pod| target(pod) == "n2")
        .unwrap();
    let name = old["metadata"]["name"].as_str().unwrap();
    world.edit_pod(name, |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into()
    });
    assert_eq!(world.sync(), (1, 0));
}

#[test]
fn nodes_with_unavailable_old_pods_get_new_ones_without_limit() {
    let world = World::rolled_out(surging(1), 4);
    for pod in world.pods() {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        world.edit_pod(&name, |pod| {
            pod["status"]["conditions"] = readiness("False")
        });
    }
    world.set_image("app:2");
    assert_eq!(world.sync(), (4, 0));
    // All old pods are unready, so they go as soon as the new ones exist.
    assert_eq!(world.sync(), (0, 4));
}

#[test]
fn an_unavailable_old_pod_on_a_tainted_node_is_deleted_without_a_successor() {
    let world = World::rolled_out(surging(1), 2);
    taint(&world, "n0", "NoSchedule");
    let old = world
        .pods()
        .into_iter()
        .find(|pod| target(pod) == "n0")
        .unwrap();
    let name = old["metadata"]["name"].as_str().unwrap().to_owned();
    world.edit_pod(&name, |pod| {
        pod["status"]["conditions"] = readiness("False")
    });
    world.set_image("app:2");
    let (_, writes) = world.try_sync();
    let deletions: Vec<_> = writes
        .iter()
        .filter(|one| one.verb == "delete")
        .map(|one| one.name.clone())
        .collect();
    assert_eq!(deletions, [name]);
    assert_eq!(moves(&writes), (1, 1));
}

#[test]
fn an_available_old_pod_on_a_tainted_node_is_deleted_while_enough_others_are_available() {
    let world = World::rolled_out(surging(1), 2);
    taint(&world, "n0", "NoSchedule");
    world.set_image("app:2");
    // Two pods are available and one is desired.
    let (_, writes) = world.try_sync();
    assert_eq!(moves(&writes), (1, 1));
    let world = World::rolled_out(surging(1), 2);
    taint(&world, "n0", "NoSchedule");
    let other = world
        .pods()
        .into_iter()
        .find(|pod| target(pod) == "n1")
        .unwrap();
    let name = other["metadata"]["name"].as_str().unwrap().to_owned();
    world.edit_pod(&name, |pod| {
        pod["status"]["conditions"] = readiness("False")
    });
    world.set_image("app:2");
    let (_, writes) = world.try_sync();
    assert_eq!(moves(&writes), (1, 0));
}

#[test]
fn a_node_that_vanished_with_an_old_pod_delays_the_update() {
    let world = World::rolled_out(surging(1), 2);
    world.cluster.remove(NODE, "", "n0");
    world.set_image("app:2");
    let (outcome, writes) = world.try_sync();
    assert!(
        outcome
            .unwrap_err()
            .to_string()
            .contains("couldn't get node for nodeName \"n0\"")
    );
    assert_eq!(moves(&writes), (0, 0));
    assert_eq!(world.status()["observedGeneration"], 2);
    let old = world
        .pods()
        .into_iter()
        .find(|pod| target(pod) == "n0")
        .unwrap();
    world
        .cluster
        .remove(POD, "default", old["metadata"]["name"].as_str().unwrap());
    assert_eq!(world.sync(), (1, 0));
}

#[test]
fn a_surge_keeps_its_limit_while_new_pods_wait_for_the_minimum_time() {
    let world = World::rolled_out(surging(3), 5);
    world.edit_set(|set| set["spec"]["minReadySeconds"] = json!(15));
    world.advance(60);
    world.set_image("app:2");
    assert_eq!(world.sync(), (3, 0));
    // Two of the new pods become ready, and an old pod alone on its node becomes unready.
    let pods = world.pods();
    let is_new = |pod: &&Value| pod["spec"]["containers"][0]["image"] == "app:2";
    let surged: Vec<String> = pods.iter().filter(is_new).map(target).collect();
    for pod in pods.iter().filter(is_new).take(2) {
        world.edit_pod(pod["metadata"]["name"].as_str().unwrap(), |pod| {
            run(pod);
            pod["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:01:00Z".into();
        });
    }
    let alone = pods.iter().find(|pod| !surged.contains(&target(pod)));
    world.edit_pod(
        alone.unwrap()["metadata"]["name"].as_str().unwrap(),
        |pod| {
            pod["status"]["conditions"] = readiness("False");
        },
    );
    world.advance(10);
    assert_eq!(world.sync(), (1, 0));
    // The old pods beside available ones and the unready one are deleted. Then the third of the new
    // pods becomes ready, and the surge goes on to the last node.
    world.advance(10);
    assert_eq!(world.sync(), (0, 3));
    world.run_pods();
    assert_eq!([world.sync(), world.sync()], [(0, 1), (1, 0)]);
}
