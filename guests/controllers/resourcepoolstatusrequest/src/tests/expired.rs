//! Requests that are too old.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;
use crate::PoolStatus;

const MINUTE: Duration = Duration::from_secs(60);

fn clean(cluster: &Cluster) -> Vec<String> {
    cluster.reconcile::<PoolStatus>("expired/requests").unwrap();
    cluster.written()
}

/// Whether a request that was created at the start of the clock is deleted after some minutes.
fn is_deleted(request: Value, minutes: u32) -> bool {
    let cluster = Cluster::with([request]);
    cluster.advance(MINUTE * minutes + Duration::from_secs(1));
    !clean(&cluster).is_empty()
}

fn answered(conditions: Value) -> Value {
    with(request(), "/status", json!({"conditions": conditions}))
}

#[test]
fn a_request_without_an_answer_is_kept_for_a_day() {
    assert!(!is_deleted(request(), 24 * 60 - 1));
    assert!(is_deleted(request(), 24 * 60));
}

#[test]
fn an_answered_request_is_kept_for_an_hour_from_its_answer_on() {
    for end in ["Complete", "Failed"] {
        let end =
            json!({"type": end, "status": "True", "lastTransitionTime": "2026-01-01T00:30:00Z"});
        let other = json!({"type": "Other", "status": "True", "lastTransitionTime": "2026-01-01T09:00:00Z"});
        let request = answered(json!([other, end]));
        assert!(!is_deleted(request.clone(), 89));
        assert!(is_deleted(request, 90));
    }
}

#[test]
fn an_answer_without_an_end_ages_from_the_creation_on() {
    for conditions in [Value::Null, json!([])] {
        assert!(!is_deleted(answered(conditions.clone()), 59));
        assert!(is_deleted(answered(conditions), 60));
    }
}

#[test]
fn the_ages_are_configured() {
    let cluster = Cluster::with([request()]);
    cluster.advance(2 * MINUTE);
    cluster.set_config("pending-request-ttl", "1m");
    assert_eq!(
        clean(&cluster),
        ["delete resource.k8s.io/v1alpha3/ResourcePoolStatusRequest ask"]
    );
    cluster.set_config("completed-request-ttl", "soon");
    let error = cluster.reconcile::<PoolStatus>("expired/requests");
    assert!(error.unwrap_err().is_terminal());
}

#[test]
fn one_that_was_deleted_in_the_meantime_does_not_keep_others() {
    let second = with(request(), "/metadata/name", "other");
    let cluster = Cluster::with([request(), second]);
    cluster.advance(MINUTE * 60 * 25);
    cluster.fail("delete", REQUEST, refusal(404, "NotFound"));
    assert_eq!(clean(&cluster).len(), 2);
    assert_eq!(cluster.objects(REQUEST).len(), 1);
}
