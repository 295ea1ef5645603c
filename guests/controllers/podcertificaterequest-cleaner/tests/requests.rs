//! Native tests of the whole controller.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal};
use podcertificaterequest_cleaner_controller::Cleaner;

const KIND: &str = "certificates.k8s.io/v1/PodCertificateRequest";
const DELETE: &str = "delete certificates.k8s.io/v1/PodCertificateRequest default/a";

/// A request that was created at this time. The cluster's clock is at 2026-01-01T00:00:00Z.
fn request(created: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
           "metadata": {"name": "a", "namespace": "default", "uid": "uid-a", "creationTimestamp": created}})
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<Cleaner>("all")
}

#[test]
fn a_request_is_deleted_when_it_is_15_minutes_old() {
    let cluster = Cluster::with([request("2025-12-31T23:45:01Z")]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert!(cluster.written().is_empty());
    cluster.advance(Duration::from_secs(1));
    reconcile(&cluster).unwrap();
    let writes = cluster.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].to_string(), DELETE);
    assert_eq!(
        writes[0].options,
        json!({"preconditions": {"uid": "uid-a"}})
    );
}

#[test]
fn a_request_that_is_being_deleted_is_left_alone() {
    let mut deleting = request("2020-01-01T00:00:00Z");
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let cluster = Cluster::with([deleting]);
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_request_that_was_deleted_or_replaced_meanwhile_is_done_and_other_failures_are_retried() {
    for (status, reason, is_done) in [
        (404, "NotFound", true),
        (409, "Conflict", true),
        (500, "InternalError", false),
    ] {
        let cluster = Cluster::with([request("2020-01-01T00:00:00Z")]);
        cluster.fail("delete", KIND, refusal(status, reason));
        let result = reconcile(&cluster);
        assert_eq!(result.is_ok(), is_done, "{reason}");
        assert!(result.is_ok() || !result.unwrap_err().is_terminal());
    }
}

#[test]
fn the_operator_sets_the_age_at_which_requests_are_deleted() {
    let cluster = Cluster::with([request("2025-12-31T23:59:50Z")]);
    cluster.set_config("threshold", "10500ms");
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
    cluster.advance(Duration::from_millis(500));
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [DELETE]);

    cluster.set_config("threshold", "soon");
    assert!(reconcile(&cluster).unwrap_err().is_terminal());
}

#[test]
fn requests_are_checked_every_five_minutes_unless_the_operator_sets_another_period() {
    let description = Cleaner::describe();
    description.check().unwrap();
    assert_eq!(description.tickers[0].period_ms, 300_000);
    assert_eq!(description.tickers[0].config, "period");
    for (key, default) in [("period", "5m"), ("threshold", "15m")] {
        assert_eq!(description.config[key].default.as_deref(), Some(default));
    }
    assert_eq!(permissions(&description), [format!("{KIND}  delete")]);
    assert_eq!(reconcile(&Cluster::new()).unwrap(), Outcome::Done);
}
