//! Native tests of the whole controller.

use std::time::Duration;

use certificatesigningrequest_cleaner_controller::Cleaner;
use flyball_sdk::base64;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal, set_at};

const CSR: &str = "certificates.k8s.io/v1/CertificateSigningRequest";
const DELETE: &str = "delete certificates.k8s.io/v1/CertificateSigningRequest a";
const VALID: &str = include_str!("../testdata/valid.crt");
const EXPIRED: &str = include_str!("../testdata/expired.crt");
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A request with these conditions, all of this age.
fn csr(conditions: &[&str], age: Duration) -> Value {
    let now: Time = "2026-01-01T00:00:00Z".parse().unwrap();
    let time = now - age;
    let conditions: Vec<_> = conditions
        .iter()
        .map(|one| json!({"type": one, "status": "True", "lastUpdateTime": time, "lastTransitionTime": time}))
        .collect();
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
           "metadata": {"name": "a", "uid": "uid-a", "creationTimestamp": time}, "status": {"conditions": conditions}})
}

fn signed(mut csr: Value, certificate: &str) -> Value {
    csr["status"]["certificate"] = base64::encode(certificate.as_bytes()).into();
    csr
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<Cleaner>("all")
}

fn is_deleted(csr: Value) -> bool {
    let cluster = Cluster::with([csr]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    let written = cluster.written();
    assert_eq!(cluster.logged().len(), written.len());
    match written.as_slice() {
        [] => false,
        [write] => {
            assert_eq!(write, DELETE);
            true
        }
        _ => panic!("{written:?}"),
    }
}

#[test]
fn a_pending_request_is_deleted_after_a_day() {
    assert!(is_deleted(csr(&[], DAY + Duration::from_secs(1))));
    assert!(!is_deleted(csr(&[], DAY)));
    let mut undated = csr(&[], 2 * DAY);
    undated["metadata"]["creationTimestamp"] = Value::Null;
    assert!(!is_deleted(undated));
}

#[test]
fn a_denied_or_failed_request_is_deleted_after_an_hour() {
    for condition in ["Denied", "Failed"] {
        assert!(is_deleted(csr(&[condition], HOUR + MINUTE)));
        assert!(!is_deleted(csr(&[condition], HOUR)));
    }
    assert!(is_deleted(csr(&["Approved", "Failed"], HOUR + MINUTE)));
    assert!(is_deleted(csr(&["Other", "Denied"], HOUR + MINUTE)));
}

#[test]
fn a_signed_request_is_deleted_after_an_hour() {
    assert!(is_deleted(signed(csr(&["Approved"], HOUR + MINUTE), VALID)));
    assert!(!is_deleted(signed(csr(&["Approved"], HOUR), VALID)));
    // The certificate's text doesn't matter.
    assert!(is_deleted(signed(csr(&["Approved"], HOUR + MINUTE), "?")));
}

#[test]
fn an_approved_request_that_nobody_signs_is_deleted_after_a_day() {
    assert!(is_deleted(csr(&["Approved"], DAY + MINUTE)));
    assert!(!is_deleted(csr(&["Approved"], DAY)));
}

#[test]
fn a_request_is_deleted_at_once_if_its_certificate_has_expired() {
    assert!(is_deleted(signed(
        csr(&["Approved"], Duration::ZERO),
        EXPIRED
    )));
    assert!(!is_deleted(signed(csr(&["Approved"], Duration::ZERO), "?")));
    assert!(!is_deleted(signed(csr(&["Other"], 2 * DAY), EXPIRED)));
}

#[test]
fn other_conditions_and_conditions_without_a_time_keep_a_request() {
    assert!(!is_deleted(csr(&["Other"], 2 * DAY)));
    for condition in ["Approved", "Denied", "Failed"] {
        let mut csr = csr(&[condition], 2 * DAY);
        set_at(&mut csr, "/status/conditions/0/lastUpdateTime", Value::Null);
        assert!(!is_deleted(csr));
    }
}

#[test]
fn the_status_of_a_condition_does_not_matter() {
    let mut csr = csr(&["Denied"], 2 * DAY);
    set_at(&mut csr, "/status/conditions/0/status", "False");
    assert!(is_deleted(csr));
}

#[test]
fn a_request_that_is_being_deleted_is_left_alone() {
    let mut csr = csr(&[], 2 * DAY);
    csr["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(!is_deleted(csr));
}

#[test]
fn only_the_request_that_was_seen_is_deleted() {
    let cluster = Cluster::with([csr(&[], 2 * DAY)]);
    reconcile(&cluster).unwrap();
    let options = &cluster.writes()[0].options;
    assert_eq!(*options, json!({"preconditions": {"uid": "uid-a"}}));
}

#[test]
fn one_failure_does_not_keep_the_others_and_is_retried() {
    let named = |n: usize| {
        let mut csr = csr(&[], 2 * DAY);
        csr["metadata"]["name"] = format!("c{n:03}").into();
        csr
    };
    let cluster = Cluster::with((0..250).map(named));
    for (nth, status, reason) in [
        (1, 404, "NotFound"),
        (2, 409, "Conflict"),
        (201, 500, "InternalError"),
    ] {
        cluster.fail_nth("delete", CSR, nth, refusal(status, reason));
    }
    let error = reconcile(&cluster).unwrap_err();
    assert!(!error.is_terminal());
    assert!(error.to_string().starts_with("deleting c"), "{error}");
    assert_eq!(cluster.writes().len(), 250);
    assert_eq!(cluster.objects(CSR).len(), 3);
    reconcile(&cluster).unwrap();
    assert!(cluster.objects(CSR).is_empty());
}

#[test]
fn requests_are_checked_each_hour() {
    let description = Cleaner::describe();
    description.check().unwrap();
    assert_eq!(description.tickers[0].period_ms, 3_600_000);
    assert_eq!(permissions(&description), [format!("{CSR}  delete")]);
    assert_eq!(reconcile(&Cluster::new()).unwrap(), Outcome::Done);
}
