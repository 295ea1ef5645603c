//! Pods whose eviction the API server has allowed.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, view};

use super::world::{BUDGET, POD, START, UPDATE, World, deleted, pod};
use crate::Disruption;
use crate::disrupted::{Disrupted, healthy};
use crate::views::Pod;

const TWO_MINUTES: Duration = Duration::from_secs(120);

fn start() -> Time {
    START.parse().unwrap()
}

/// The recheck, as the delay of the key in its queue.
fn recheck(cluster: &Cluster) -> Option<Duration> {
    let mut enqueued = cluster.enqueued();
    assert!(enqueued.len() < 2);
    let recheck = enqueued.pop()?;
    assert_eq!(
        (recheck.queue.as_str(), recheck.key.as_str()),
        ("disruption_recheck", "team/budget")
    );
    Some(recheck.delay)
}

#[test]
fn an_entry_remains_until_its_pod_is_being_deleted_or_overdue() {
    let world = World::with(
        json!({"minAvailable": 1}),
        [deleted(pod("p1")), pod("p2"), pod("p3"), pod("p4")],
    );
    world.set_status(json!({"disruptedPods": {
        "p1": START,
        "p2": "2025-12-31T23:57:00Z",
        "p3": "2025-12-31T23:59:00Z",
        "notthere": START,
    }}));
    world.sync();
    assert_eq!(
        world.status()["disruptedPods"],
        json!({"p3": "2025-12-31T23:59:00Z"})
    );
    assert_eq!(world.numbers(), [1, 2, 1, 4]);
    assert_eq!(recheck(&world.cluster), Some(Duration::from_secs(60)));
}

#[test]
fn an_overdue_pod_is_healthy_again_with_a_warning_about_it() {
    let world = World::with(json!({"minAvailable": 0}), [pod("p")]);
    world.set_status(json!({"disruptedPods": {"p": START}}));
    world.sync();
    assert_eq!(world.numbers(), [0, 0, 0, 1]);
    assert_eq!(recheck(&world.cluster), Some(TWO_MINUTES));
    world
        .cluster
        .advance(TWO_MINUTES + Duration::from_millis(1));
    world.sync();
    assert_eq!(world.numbers(), [1, 1, 0, 1]);
    assert_eq!(world.status().get("disruptedPods"), None);
    assert_eq!(recheck(&world.cluster), None);
    let [(about, message)] = world.events_about().try_into().unwrap();
    assert_eq!((about.kind.as_str(), about.name.as_str()), (POD, "p"));
    assert!(!about.uid.is_empty());
    assert_eq!(
        message,
        "Pod was expected by PDB team/team to be deleted but it wasn't"
    );
}

#[test]
fn the_earliest_due_time_is_rechecked_also_if_the_status_stays() {
    let world = World::with(json!({"minAvailable": 0}), [pod("p"), pod("q")]);
    world.set_status(json!({"disruptedPods": {"p": START, "q": "2025-12-31T23:59:30Z"}}));
    world.sync();
    assert_eq!(recheck(&world.cluster), Some(Duration::from_secs(90)));
    world.cluster.advance(Duration::from_secs(30));
    world.sync();
    assert_eq!(recheck(&world.cluster), Some(Duration::from_secs(60)));
    assert_eq!(world.cluster.written(), [UPDATE]);
}

#[test]
fn at_the_very_due_time_a_pod_is_healthy_and_its_entry_remains() {
    let pods: Vec<Pod> = vec![view(pod("p"))];
    let entries = [("p".to_owned(), start())].into();
    let now = start() + TWO_MINUTES;
    let found = Disrupted::of(&pods, &entries, TWO_MINUTES, now);
    assert_eq!((&found.awaited, found.next_due), (&entries, Some(now)));
    assert_eq!(healthy(&pods, &entries, TWO_MINUTES, now), 1);
    let before = now - Duration::from_nanos(1);
    assert_eq!(healthy(&pods, &entries, TWO_MINUTES, before), 0);
    let after = now + Duration::from_nanos(1);
    assert_eq!(
        Disrupted::of(&pods, &entries, TWO_MINUTES, after)
            .expired
            .len(),
        1
    );
}

#[test]
fn an_eviction_in_the_meantime_is_a_conflict_and_the_retry_takes_it_into_account() {
    let world = World::with(
        json!({"minAvailable": 1}),
        ["moe", "larry", "curly"].map(pod),
    );
    world.sync();
    assert_eq!(world.numbers(), [2, 3, 1, 3]);
    world.cluster.remove(POD, "team", "moe");
    // The write is based on the version before the eviction.
    let conflict = ApiError::conflict("the object has been modified");
    world
        .cluster
        .fail("update", "policy/v1/PodDisruptionBudget/status", conflict);
    let error = world.try_sync().unwrap_err();
    assert!(error.api().unwrap().is_conflict() && !error.is_terminal());
    world.cluster.edit(BUDGET, "team", "budget", |budget| {
        budget["status"]["disruptionsAllowed"] = 0.into();
        budget["status"]["disruptedPods"] = json!({"larry": START, "curly": START});
    });
    world.sync();
    assert_eq!(world.numbers(), [0, 0, 1, 2]);
    assert_eq!(
        world.status()["disruptedPods"],
        json!({"larry": START, "curly": START})
    );
    world.cluster.remove(POD, "team", "larry");
    world.cluster.remove(POD, "team", "curly");
    world.sync();
    assert_eq!(world.status().get("disruptedPods"), None);
}

#[test]
fn a_recheck_enqueues_the_budget() {
    let world = World::with(json!({"minAvailable": 1}), []);
    let request = Request::new("disruption_recheck", "team/budget");
    let outcome = world.cluster.reconcile_request::<Disruption>(&request);
    assert_eq!(outcome.unwrap(), Outcome::Done);
    let [enqueued] = world.cluster.enqueued().try_into().unwrap();
    assert_eq!(
        (
            enqueued.queue.as_str(),
            enqueued.key.as_str(),
            enqueued.delay
        ),
        ("disruption", "team/budget", Duration::ZERO)
    );
    assert!(world.cluster.written().is_empty() && world.events().is_empty());
}

#[test]
fn the_timeout_is_a_setting() {
    let world = World::with(json!({"minAvailable": 0}), [pod("p")]);
    world.cluster.set_config("deletion-timeout", "10s");
    world.set_status(json!({"disruptedPods": {"p": START}}));
    world.sync();
    assert_eq!(recheck(&world.cluster), Some(Duration::from_secs(10)));
    world.cluster.set_config("deletion-timeout", "soon");
    assert!(world.try_sync().unwrap_err().is_terminal());
}
