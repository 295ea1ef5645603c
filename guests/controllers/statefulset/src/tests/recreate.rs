//! The update strategy Recreate.

use flyball_sdk::prelude::*;

use super::world::*;

/// A set of three pods with the strategy, whose template was changed after it had settled.
fn updating() -> World {
    let world = World::with(set(3).with("/spec/updateStrategy", json!({"type": "Recreate"})));
    let gate = "feature-gates.StatefulSetRecreateStrategy";
    world.0.set_config(gate, "true");
    world.settle();
    assert!(world.status().get("conditions").is_none());
    world.edit("/spec/template", template("web:2"));
    world
}

/// The status, the reason and the message of the condition `Progressing`, and when its status changed.
fn progressing(world: &World) -> [String; 4] {
    let condition = world.status()["conditions"][0].clone();
    assert_eq!(condition["type"], "Progressing");
    ["status", "reason", "message", "lastTransitionTime"]
        .map(|field| condition[field].as_str().unwrap_or_default().to_owned())
}

#[test]
fn all_pods_are_deleted_before_the_first_is_created() {
    let world = updating();
    world.edit("/spec/replicas", 2);
    let deletions = ["delete web-0", "delete web-1", "delete web-2"];
    assert_eq!(world.step(), deletions);
    let [status, reason, message, since] = progressing(&world);
    assert_eq!(
        [status.as_str(), &reason, &message],
        ["True", "RecreateInProgress", "Deleting old revision pods"]
    );
    world.0.advance(std::time::Duration::from_secs(60));
    assert_eq!(world.step(), ["create web-0"]);
    let [status, reason, message, later] = progressing(&world);
    assert_eq!(
        [status.as_str(), &reason, &message],
        [
            "True",
            "RecreateInProgress",
            "Waiting for new-revision pods to be created"
        ]
    );
    assert_eq!(later, since);
    world.settle();
    assert_eq!(world.images(), ["web:2"; 2]);
    let [status, reason, message, later] = progressing(&world);
    assert_eq!(
        [status.as_str(), &reason, &message],
        [
            "False",
            "RecreateCompleted",
            "All pods recreated successfully"
        ]
    );
    assert_ne!(later, since);
    assert_eq!(
        world.status()["currentRevision"],
        world.status()["updateRevision"]
    );
    assert_eq!(world.counts(), [2; 5]);
}

#[test]
fn pods_that_are_being_deleted_are_waited_for() {
    let world = updating();
    world.terminate("web-1");
    assert_eq!(world.step(), ["delete web-0", "delete web-2"]);
    assert_eq!(world.step(), [""; 0]);
    world.remove("web-1");
    assert_eq!(world.step(), ["create web-0"]);
}

#[test]
fn a_set_without_the_gate_is_reported_and_left_alone() {
    let world = updating();
    world
        .0
        .set_config("feature-gates.StatefulSetRecreateStrategy", "false");
    let message = "statefulset default/web uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled";
    assert_eq!(world.fail(), message);
    assert_eq!(world.written(), [""; 0]);
    let events = world.0.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].contains("UnknownStrategy") && events[0].contains(message));
}
