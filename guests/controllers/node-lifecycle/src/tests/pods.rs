//! Pods of nodes that are not ready.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

fn cluster(ready: &str) -> Cluster {
    Cluster::with([
        node("a", ready),
        pod("web", "a", "True"),
        pod("unknown", "a", "Unknown"),
        pod("slow", "a", "False"),
        pod("elsewhere", "b", "True"),
        with(
            pod("new", "a", "True"),
            "/status",
            json!({"phase": "Pending"}),
        ),
    ])
}

#[test]
fn pods_that_are_not_marked_yet_are_marked() {
    for ready in ["False", "Unknown"] {
        let cluster = cluster(ready);
        assert_eq!(pods_of(&cluster, "a").unwrap(), Outcome::Done);
        let writes = cluster.writes();
        let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "patch v1/Pod/status team/unknown",
                "patch v1/Pod/status team/web"
            ]
        );
        assert_eq!(writes[1].body["metadata"]["uid"], "uid-web");
        assert!(writes[1].body["metadata"]["resourceVersion"].is_string());
        let web = cluster.object(POD, "team", "web").unwrap();
        assert_eq!(
            web["status"]["conditions"][1],
            json!({"type": "Ready", "status": "False", "reason": "Kept", "message": "kept",
                   "lastTransitionTime": START})
        );
        let event = "Warning NodeNotReady Node is not ready";
        assert_eq!(cluster.events(), [event, event]);
        assert_eq!(pods_of(&cluster, "a").unwrap(), Outcome::Done);
        assert!(cluster.written().is_empty());
    }
}

#[test]
fn pods_of_nodes_that_are_ready_or_gone_or_have_never_reported_are_left_alone() {
    let ready = cluster("True");
    assert_eq!(pods_of(&ready, "a").unwrap(), Outcome::Done);
    assert_eq!(pods_of(&ready, "b").unwrap(), Outcome::Done);
    let silent = cluster("True");
    silent.edit(NODE, "", "a", |node| node["status"] = json!({}));
    assert_eq!(pods_of(&silent, "a").unwrap(), Outcome::Done);
    assert!(ready.written().is_empty() && silent.written().is_empty());
}

#[test]
fn a_pod_that_can_not_be_marked_is_retried_and_the_others_are_marked() {
    let cluster = cluster("False");
    cluster.fail("patch", "v1/Pod/status", refusal(409, "Conflict"));
    let error = pods_of(&cluster, "a").unwrap_err();
    assert!(error.to_string().contains("team/unknown"), "{error}");
    // The event does not depend on whether the status can be written.
    let about = |cluster: &Cluster| -> Vec<String> {
        let events = cluster.recorded_events().into_iter();
        events.map(|event| event.about.name).collect()
    };
    assert_eq!(about(&cluster), ["unknown", "web"]);
    cluster.writes();
    assert_eq!(pods_of(&cluster, "a").unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), ["patch v1/Pod/status team/unknown"]);
    assert_eq!(about(&cluster), ["unknown"]);
}

#[test]
fn a_pod_that_is_gone_meanwhile_is_no_failure() {
    let cluster = cluster("False");
    cluster.fail("patch", "v1/Pod/status", refusal(404, "NotFound"));
    assert_eq!(pods_of(&cluster, "a").unwrap(), Outcome::Done);
    assert_eq!(cluster.events().len(), 1);
}
