//! When requests are answered, and what is counted.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;
use crate::PoolStatus;

const UPDATE: &str = "update resource.k8s.io/v1alpha3/ResourcePoolStatusRequest/status ask";

/// The metrics since the last call, without values.
fn counted(cluster: &Cluster) -> Vec<String> {
    let metrics = cluster.metrics().into_iter();
    let short = |name: String| name.replace("resourcepoolstatusrequest_controller_", "");
    metrics
        .map(|(_, name, labels, _)| format!("{} {}", short(name), labels.join(" ")))
        .collect()
}

#[test]
fn a_request_is_answered_once() {
    let cluster = Cluster::with([request(), slice("a", "rack", 1)]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
    assert_eq!(
        counted(&cluster),
        [
            "requests_processed_total gpu.example.com",
            "request_processing_duration_seconds gpu.example.com"
        ]
    );
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty() && counted(&cluster).is_empty());
    assert!(cluster.events().is_empty() && cluster.live_reads().is_empty());
}

#[test]
fn an_answer_is_delayed_while_slices_are_missing() {
    let incomplete = with(slice("a", "rack", 1), "/spec/pool/resourceSliceCount", 2);
    let cluster = Cluster::with([request(), incomplete]);
    let error = reconcile(&cluster).unwrap_err();
    assert!(!error.is_terminal());
    assert_eq!(error.to_string(), "the pool rack has 1 of 2 slices");
    assert!(cluster.written().is_empty() && counted(&cluster).is_empty());
    let second = with(slice("b", "rack", 1), "/spec/pool/resourceSliceCount", 2);
    cluster.put(second);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
}

#[test]
fn an_incomplete_pool_beyond_the_limit_does_not_delay_the_answer() {
    let incomplete = with(slice("b", "b", 1), "/spec/pool/resourceSliceCount", 2);
    let limited = with(request(), "/spec/limit", 1);
    let status = answer([limited, slice("a", "a", 1), incomplete]);
    assert_eq!(status["poolCount"], 2);
}

#[test]
fn a_refused_answer_is_counted_and_retried() {
    let cluster = Cluster::with([request(), slice("a", "rack", 1)]);
    let kind = format!("{REQUEST}/status");
    cluster.fail("update", &kind, refusal(500, "InternalError"));
    assert!(!reconcile(&cluster).unwrap_err().is_terminal());
    assert_eq!(
        counted(&cluster),
        [
            "request_processing_errors_total gpu.example.com",
            "requests_processed_total gpu.example.com",
            "request_processing_duration_seconds gpu.example.com"
        ]
    );
    reconcile(&cluster).unwrap();
}

#[test]
fn a_deleted_request_needs_nothing() {
    assert_eq!(reconcile(&Cluster::new()).unwrap(), Outcome::Done);
    let description = PoolStatus::describe();
    let mapping = &description.watches[0].map[0];
    assert_eq!(mapping.unless[0].path, "status.conditions[*].type");
}
