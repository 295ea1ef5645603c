//! Controllers whose replicas are cached.

use flyball_sdk::prelude::*;

use super::world::{World, controlled, pod, scale, scaled};

const DEPLOYMENT: &str = "apps/v1/Deployment";
const SET: &str = "apps/v1/ReplicaSet";
const STATEFUL: &str = "apps/v1/StatefulSet";
const CONTROLLER: &str = "v1/ReplicationController";

/// The expected pods of a budget in percent, or the failure.
fn expected(objects: impl IntoIterator<Item = Value>) -> Result<i64, String> {
    let world = World::with(json!({"minAvailable": "50%"}), objects);
    world.cluster.serve(SET, "replicasets", true, &["get"]);
    world.cluster.serve_subresource(SET, "scale", &["get"]);
    for set in ["web", "set"] {
        let path = format!("/apis/apps/v1/namespaces/team/replicasets/{set}/scale");
        world.cluster.put_raw(&path, scale(set, 100));
    }
    world.sync();
    match world.condition().split_once(" SyncFailed: ") {
        Some((_, message)) => Err(message.to_owned()),
        None => Ok(world.numbers()[3]),
    }
}

#[test]
fn each_kind_of_controller_has_its_replicas() {
    for (kind, replicas) in [(CONTROLLER, 12), (SET, 10), (STATEFUL, 14)] {
        let found = expected([
            scaled(kind, "web", replicas),
            controlled(pod("pod"), kind, "web"),
        ]);
        assert_eq!(found, Ok(replicas.into()), "{kind}");
    }
}

#[test]
fn a_controller_without_a_number_has_one_replica() {
    let mut set = scaled(SET, "web", 0);
    set["spec"] = json!({});
    assert_eq!(expected([set, controlled(pod("pod"), SET, "web")]), Ok(1));
}

#[test]
fn the_sets_of_a_deployment_count_as_the_deployment_once() {
    let of = |name: &str| controlled(scaled(SET, name, 4), DEPLOYMENT, "web");
    let found = expected([
        scaled(DEPLOYMENT, "web", 5),
        of("old"),
        of("new"),
        controlled(pod("a"), SET, "old"),
        controlled(pod("b"), SET, "new"),
        controlled(pod("c"), SET, "new"),
    ]);
    assert_eq!(found, Ok(5));
}

#[test]
fn several_controllers_are_summed() {
    let found = expected([
        scaled(CONTROLLER, "one", 11),
        scaled(SET, "two", 7),
        scaled(STATEFUL, "three", 3),
        controlled(pod("a"), CONTROLLER, "one"),
        controlled(pod("b"), CONTROLLER, "one"),
        controlled(pod("c"), SET, "two"),
        controlled(pod("d"), STATEFUL, "three"),
    ]);
    assert_eq!(found, Ok(21));
}

#[test]
fn a_set_of_another_kind_of_controller_has_its_own_replicas() {
    let found = expected([
        controlled(
            scaled(SET, "web", 4),
            "argoproj.io/v1alpha1/Rollout",
            "roll",
        ),
        controlled(pod("pod"), SET, "web"),
    ]);
    assert_eq!(found, Ok(4));
}

#[test]
fn old_references_name_the_group_extensions() {
    let (set, deployment) = (
        "extensions/v1beta1/ReplicaSet",
        "extensions/v1beta1/Deployment",
    );
    let found = expected([scaled(SET, "web", 4), controlled(pod("pod"), set, "web")]);
    assert_eq!(found, Ok(4));
    let found = expected([
        scaled(DEPLOYMENT, "web", 6),
        controlled(scaled(SET, "set", 4), deployment, "web"),
        controlled(pod("pod"), set, "set"),
    ]);
    assert_eq!(found, Ok(6));
}

#[test]
fn the_scale_of_a_set_is_read_live_if_its_deployment_is_not_known() {
    let of = |owner: &str| {
        [
            controlled(scaled(SET, "set", 4), owner, "web"),
            controlled(pod("pod"), SET, "set"),
        ]
    };
    assert_eq!(expected(of(DEPLOYMENT)), Ok(100));
    assert_eq!(expected(of("other.example.com/v1/Deployment")), Ok(100));
    let mut recreated = scaled(DEPLOYMENT, "web", 5);
    recreated["metadata"]["uid"] = "another".into();
    assert_eq!(
        expected(of(DEPLOYMENT).into_iter().chain([recreated])),
        Ok(100)
    );
}

#[test]
fn a_set_that_is_not_cached_yet_is_read_live() {
    assert_eq!(expected([controlled(pod("pod"), SET, "web")]), Ok(100));
    let mut recreated = scaled(SET, "web", 5);
    recreated["metadata"]["uid"] = "another".into();
    let found = expected([recreated, controlled(pod("pod"), SET, "web")]);
    assert_eq!(found, Ok(100));
}

#[test]
fn a_set_that_does_not_exist_is_a_failure() {
    let found = expected([controlled(pod("pod"), SET, "gone")]);
    assert_eq!(found.unwrap_err(), "found no controllers for pod \"pod\"");
}

#[test]
fn a_kind_of_the_same_name_in_another_group_is_another_kind() {
    for kind in [
        "example.com/v1/ReplicaSet",
        "apps/v1/ReplicationController",
        "v1/StatefulSet",
        "extensions/v1beta1/StatefulSet",
    ] {
        let found = expected([
            scaled(SET, "web", 1),
            scaled(CONTROLLER, "web", 1),
            scaled(STATEFUL, "web", 1),
            controlled(pod("pod"), kind, "web"),
        ]);
        let (version, kind) = kind.rsplit_once('/').unwrap();
        let message = format!("no matches for kind \"{kind}\" in version \"{version}\"");
        assert_eq!(found, Err(message));
    }
}

#[test]
fn an_owner_that_is_not_the_controller_does_not_count() {
    let mut owned = controlled(pod("pod"), SET, "web");
    owned["metadata"]["ownerReferences"][0]["controller"] = false.into();
    assert_eq!(expected([scaled(SET, "web", 4), owned]), Ok(0));
}
