//! Rolling updates without surge.

use flyball_sdk::prelude::*;

use super::world::*;

/// Makes the pods on these nodes unready.
fn break_pods(world: &World, nodes: &[&str]) {
    for pod in world.pods() {
        if nodes.contains(&target(&pod).as_str()) {
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            world.edit_pod(&name, |pod| {
                pod["status"]["conditions"] = readiness("False")
            });
        }
    }
}

fn image_of(node: &str, world: &World) -> Option<String> {
    let prefix = format!("{node} ");
    world
        .images()
        .iter()
        .find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
}

#[test]
fn old_pods_are_replaced_within_the_limit() {
    for (limit, at_once) in [
        (json!(1), 1),
        (json!(3), 3),
        (json!("50%"), 2),
        (json!(9), 4),
    ] {
        let world = World::rolled_out(unavailable(limit), 4);
        world.set_image("app:2");
        assert_eq!(world.sync(), (0, at_once));
        assert_eq!(world.sync(), (0, 0));
        world.run_pods();
        assert_eq!(world.sync(), (at_once, 0));
        assert_eq!(world.sync(), (0, 0));
        world.finish();
        assert_eq!(
            world.images(),
            ["n0 app:2", "n1 app:2", "n2 app:2", "n3 app:2"]
        );
        assert_eq!(world.counters(), [4, 4, 0, 4, 4, 4, 0]);
    }
}

#[test]
fn the_update_waits_for_the_availability_of_new_pods() {
    let mut set = unavailable(1);
    set["spec"]["minReadySeconds"] = json!(10);
    let world = World::of(set, 2);
    world.sync();
    world.run_pods();
    world.advance(10);
    world.finish();
    world.set_image("app:2");
    assert_eq!(world.sync(), (0, 1));
    world.run_pods();
    assert_eq!(world.sync(), (1, 0));
    for pod in world.pods() {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        if pod["status"]["conditions"].is_null() {
            world.edit_pod(&name, |pod| {
                run(pod);
                pod["status"]["conditions"][0]["lastTransitionTime"] =
                    "2026-01-01T00:00:10Z".into();
            });
        }
    }
    assert_eq!(world.sync(), (0, 0));
    world.advance(9);
    assert_eq!(world.sync(), (0, 0));
    world.advance(1);
    assert_eq!(world.sync(), (0, 1));
}

#[test]
fn a_broken_template_stops_the_update() {
    let world = World::rolled_out(unavailable(2), 4);
    world.set_image("broken");
    world.finish();
    let images = world.images();
    assert_eq!(
        images
            .iter()
            .filter(|line| line.ends_with("broken"))
            .count(),
        2,
        "{images:?}"
    );
    assert_eq!(world.counters(), [4, 4, 0, 2, 2, 2, 2]);
}

#[test]
fn unavailable_old_pods_are_replaced_first_and_without_limit() {
    let world = World::rolled_out(unavailable(3), 5);
    break_pods(&world, &["n2", "n4"]);
    world.set_image("app:2");
    // Two are unavailable anyway, so one more may become so.
    assert_eq!(world.sync(), (0, 3));
    assert_eq!(
        [image_of("n2", &world), image_of("n4", &world)],
        [None, None]
    );

    let world = World::rolled_out(unavailable(1), 5);
    break_pods(&world, &["n0", "n1", "n2", "n3", "n4"]);
    world.set_image("app:2");
    assert_eq!(world.sync(), (0, 5));
}

#[test]
fn healthy_old_pods_are_saved_while_new_ones_are_not_available() {
    let world = World::rolled_out(unavailable(2), 4);
    let healthy = |world: &World| {
        let images = world.images();
        images.iter().filter(|line| line.ends_with("app:1")).count()
    };
    for (image, limit) in [
        ("broken", 2),
        ("broken:2", 1),
        ("broken:3", 0),
        ("broken:4", 2),
    ] {
        world.edit_set(|set| {
            set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(limit);
        });
        world.set_image(image);
        // Only the two pods that are not available are replaced.
        assert_eq!(world.sync(), (0, 2));
        world.finish();
        assert_eq!(healthy(&world), 2);
    }
    world.edit_set(|set| {
        set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(3);
    });
    world.set_image("broken:5");
    assert_eq!(world.sync(), (0, 3));
}

#[test]
fn with_ondelete_only_deleted_pods_are_replaced() {
    let world = World::rolled_out(
        set_with([("/spec/updateStrategy/type", json!("OnDelete"))]),
        2,
    );
    world.set_image("app:2");
    assert_eq!(world.sync(), (0, 0));
    assert_eq!(world.counters(), [2, 2, 0, 2, 2, 0, 0]);
    let name = world.pods()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.cluster.remove(POD, "default", &name);
    assert_eq!(world.sync(), (1, 0));
    assert_eq!(
        world
            .images()
            .iter()
            .filter(|line| line.ends_with("app:2"))
            .count(),
        1
    );
}

#[test]
fn a_pod_of_the_current_generation_is_not_replaced_whatever_its_hash_is() {
    let mut running = pod("p", "n0");
    running["metadata"]["labels"]["pod-template-generation"] = "1".into();
    running["metadata"]["labels"]["controller-revision-hash"] = "another".into();
    let world = World::of(set(), 1).with([running]);
    assert_eq!(world.sync(), (0, 0));
}

#[test]
fn without_a_change_of_the_template_nothing_is_replaced() {
    let world = World::rolled_out(set(), 3);
    world.edit_set(|set| {
        set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(3)
    });
    assert_eq!(world.sync(), (0, 0));
}

#[test]
fn an_update_waits_until_each_node_has_its_pod() {
    let world = World::rolled_out(unavailable(3), 3);
    world.cluster.put(node("n3"));
    world.set_image("app:2");
    assert_eq!(world.sync(), (1, 0));
    assert_eq!(world.sync(), (0, 2));
}

#[test]
fn a_status_costs_no_write_for_a_pod_that_is_being_replaced() {
    let world = World::rolled_out(unavailable(1), 2);
    world.set_image("app:2");
    world.sync();
    assert_eq!(world.counters(), [2, 2, 0, 2, 2, 0, 0]);
}

#[test]
fn pods_on_nodes_that_do_not_exist_are_deleted_like_others() {
    let world = World::rolled_out(unavailable(2), 2);
    world.cluster.remove(NODE, "", "n1");
    world.set_image("app:2");
    assert_eq!(world.sync(), (0, 2));
}

#[test]
fn unavailable_old_pods_are_replaced_although_too_many_new_ones_are_unavailable() {
    let world = World::rolled_out(unavailable(1), 6);
    world.set_image("app:2");
    world.finish();
    let nodes: Vec<String> = (0..6).map(|at| format!("n{at}")).collect();
    for pod in world.pods() {
        // n0 and n1 have old pods. The pod of n1 isn't available, nor is any new pod.
        let node = target(&pod);
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        world.edit_pod(&name, |pod| {
            if nodes[..2].contains(&node) {
                *pod = of_revision(pod.clone(), "older");
            }
            if nodes[1..].contains(&node) {
                pod["status"]["conditions"] = readiness("False");
            }
        });
    }
    let (_, writes) = world.try_sync();
    assert_eq!(moves(&writes), (0, 1));
    assert_eq!(image_of("n1", &world), None);
    assert_eq!(world.sync(), (0, 0));
    world.run_pods();
    assert_eq!([world.sync(), world.sync()], [(1, 0), (0, 0)]);
}
