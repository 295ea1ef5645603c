//! Native tests of the whole controller.

use std::time::Duration;

use certificatesigningrequest_approving_controller::{Approver, REUSE};
use flyball_sdk::base64;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal, set_at};

const CSR: &str = "certificates.k8s.io/v1/CertificateSigningRequest";
const REVIEW: &str = "authorization.k8s.io/v1/SubjectAccessReview";
const ASK: &str = "create authorization.k8s.io/v1/SubjectAccessReview ";
const APPROVE: &str = "update certificates.k8s.io/v1/CertificateSigningRequest/approval a";

const NODE: &str = include_str!("../../../lib/pkcs10/testdata/node.pem");
const USER: &str = include_str!("../testdata/user.pem");

/// A request of a user for a kubelet's client certificate.
fn csr(pem: &str, username: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "a"},
        "spec": {
            "request": base64::encode(pem.as_bytes()),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
            "username": username, "uid": "42", "groups": ["system:nodes", "system:authenticated"],
            "extra": {"example.com/scopes": ["x", "y"]}}})
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<Approver>("a")
}

fn with(mut csr: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut csr, pointer, value);
    csr
}

#[test]
fn a_permitted_request_is_approved() {
    let cluster = Cluster::with([with(
        csr(NODE, "jane"),
        "/status/conditions",
        json!([{"type": "Noted", "status": "True", "reason": "r", "message": "m", "lastUpdateTime": "2026-01-01T00:00:00Z"}]),
    )]);
    cluster.answer(REVIEW, json!({"status": {"allowed": true}}));
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    let writes = cluster.writes();
    assert_eq!(
        writes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [ASK, APPROVE]
    );
    assert_eq!(
        writes[0].body["spec"],
        json!({"user": "jane", "uid": "42", "groups": ["system:nodes", "system:authenticated"],
            "extra": {"example.com/scopes": ["x", "y"]},
            "resourceAttributes": {"group": "certificates.k8s.io", "version": "*", "verb": "create",
                "resource": "certificatesigningrequests", "subresource": "nodeclient"}})
    );
    assert_eq!(
        writes[1].body,
        json!({"status": {"conditions": [
            {"type": "Noted", "status": "True", "reason": "r", "message": "m", "lastUpdateTime": "2026-01-01T00:00:00Z"},
            {"type": "Approved", "status": "True", "reason": "AutoApproved",
             "message": "Auto approving kubelet client certificate after SubjectAccessReview."}]}})
    );
    assert!(cluster.live_reads().is_empty() && cluster.events().is_empty());
}

#[test]
fn a_permission_is_reused_for_a_second_by_the_same_user() {
    let (allowed, denied) = (
        json!({"status": {"allowed": true}}),
        json!({"status": {"allowed": false}}),
    );
    let named = |name: &str, csr: Value| with(csr, "/metadata/name", name);
    let cluster = Cluster::with([
        named("a", csr(NODE, "jane")),
        named("b", csr(NODE, "jane")),
        named("c", csr(NODE, "john")),
        named("d", with(csr(NODE, "jane"), "/spec/groups", json!([]))),
        named("e", csr(NODE, "jane")),
    ]);
    let reconcile = |name: &str| cluster.reconcile::<Approver>(name);
    cluster.answer(REVIEW, allowed);
    reconcile("a").unwrap();
    cluster.advance(REUSE - Duration::from_millis(1));
    reconcile("b").unwrap();
    let approved = |name: &str| APPROVE.replace(" a", &format!(" {name}"));
    assert_eq!(cluster.written(), [ASK, &approved("a"), &approved("b")]);
    // Other users have to be permitted themselves, and so has the same one with other groups.
    for name in ["c", "d"] {
        cluster.answer(REVIEW, denied.clone());
        reconcile(name).unwrap_err();
        assert_eq!(cluster.written(), [ASK]);
    }
    cluster.advance(Duration::from_millis(1));
    cluster.answer(REVIEW, denied);
    reconcile("e").unwrap_err();
    assert_eq!(cluster.written(), [ASK]);
}

#[test]
fn a_missing_permission_is_not_remembered() {
    let cluster = Cluster::with([csr(NODE, "jane")]);
    cluster.answer(REVIEW, json!({"status": {"allowed": false}}));
    reconcile(&cluster).unwrap_err();
    cluster.answer(REVIEW, json!({"status": {"allowed": true}}));
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [ASK, ASK, APPROVE]);
}

#[test]
fn a_nodes_own_request_is_reviewed_as_such_first() {
    for (answers, reviews) in [(&[true][..], 1), (&[false, true], 2)] {
        let cluster = Cluster::with([csr(NODE, "system:node:a")]);
        for allowed in answers {
            cluster.answer(REVIEW, json!({"status": {"allowed": allowed}}));
        }
        reconcile(&cluster).unwrap();
        let writes = cluster.writes();
        assert_eq!(writes.len(), reviews + 1);
        let reviewed =
            |review: usize| &writes[review].body["spec"]["resourceAttributes"]["subresource"];
        assert_eq!(reviewed(0), "selfnodeclient");
        let message = &writes[reviews].body["status"]["conditions"][0]["message"];
        if reviews == 1 {
            assert_eq!(
                message,
                "Auto approving self kubelet client certificate after SubjectAccessReview."
            );
        } else {
            assert_eq!(reviewed(1), "nodeclient");
            assert_eq!(
                message,
                "Auto approving kubelet client certificate after SubjectAccessReview."
            );
        }
    }
}

#[test]
fn a_request_without_permission_is_retried() {
    let cluster = Cluster::with([csr(NODE, "system:node:a")]);
    cluster.answer(REVIEW, json!({"status": {"allowed": false}}));
    cluster.answer(REVIEW, json!({"status": {"denied": true}}));
    let error = reconcile(&cluster).unwrap_err();
    assert!(!error.is_terminal());
    assert_eq!(
        error.to_string(),
        "a is a request for selfnodeclient and nodeclient, but its user \"system:node:a\" has no permission for that"
    );
    assert_eq!(cluster.written(), [ASK, ASK]);
}

#[test]
fn decided_and_unrecognized_requests_are_left_alone() {
    let condition = |text: &str| json!([{"type": text, "status": "True"}]);
    for left in [
        csr(USER, "jane"),
        csr(
            include_str!("../../../lib/pkcs10/testdata/dns.pem"),
            "system:node:a",
        ),
        with(
            csr(NODE, "jane"),
            "/spec/signerName",
            "kubernetes.io/kubelet-serving",
        ),
        with(csr(NODE, "jane"), "/spec/usages", json!(["client auth"])),
        with(
            csr(NODE, "jane"),
            "/status/conditions",
            condition("Approved"),
        ),
        with(csr(NODE, "jane"), "/status/conditions", condition("Denied")),
        with(csr(NODE, "jane"), "/status/certificate", "LS0t"),
        // It would be an error if it were parsed.
        with(
            csr("garbage", "jane"),
            "/status/conditions",
            condition("Denied"),
        ),
    ] {
        let cluster = Cluster::with([left]);
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        assert!(cluster.written().is_empty());
    }
    assert_eq!(reconcile(&Cluster::new()).unwrap(), Outcome::Done);
}

#[test]
fn a_failed_request_may_still_be_approved() {
    let failed = json!([{"type": "Failed", "status": "True"}]);
    let cluster = Cluster::with([with(csr(NODE, "jane"), "/status/conditions", failed)]);
    cluster.answer(REVIEW, json!({"status": {"allowed": true}}));
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [ASK, APPROVE]);
}

#[test]
fn failures_are_retried() {
    let garbage = Cluster::with([csr("garbage", "jane")]);
    let error = reconcile(&garbage).unwrap_err();
    assert!(error.to_string().starts_with("can't parse a: "), "{error}");
    assert!(!error.is_terminal());

    let refused = Cluster::with([csr(NODE, "jane")]);
    refused.fail("create", REVIEW, refusal(403, "Forbidden"));
    assert!(!reconcile(&refused).unwrap_err().is_terminal());
    assert_eq!(refused.writes().len(), 1);

    let conflict = Cluster::with([csr(NODE, "jane")]);
    conflict.answer(REVIEW, json!({"status": {"allowed": true}}));
    conflict.fail(
        "update",
        &format!("{CSR}/approval"),
        refusal(409, "Conflict"),
    );
    assert!(!reconcile(&conflict).unwrap_err().is_terminal());
    conflict.written();
    assert_eq!(reconcile(&conflict).unwrap(), Outcome::Done);
    assert_eq!(conflict.written(), [APPROVE]);
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = Approver::describe();
    description.check().unwrap();
    let queue = &description.queues[0];
    assert_eq!(queue.name, "certificate");
    assert_eq!(
        (
            queue.base_delay_ms,
            queue.max_delay_ms,
            queue.qps,
            queue.burst,
            queue.max_retries
        ),
        (200, 1_000_000, 10.0, 100, None)
    );
    assert_eq!(description.concurrency, 5);
    assert_eq!(
        permissions(&description),
        [
            format!("{REVIEW}  create"),
            format!("{CSR} approval update")
        ]
    );
}
