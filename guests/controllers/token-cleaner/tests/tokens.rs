//! Native tests of the whole controller.

use std::time::Duration;

use flyball_sdk::base64;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal};
use token_cleaner_controller::TokenCleaner;

const SECRET: &str = "v1/Secret";
const DELETE: &str = "delete v1/Secret kube-system/a";
/// The cluster's clock is at this time.
const NOW: &str = "2026-01-01T00:00:00Z";

fn token(expiration: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
           "metadata": {"name": "a", "namespace": "kube-system", "uid": "uid-a"},
           "data": {"expiration": base64::encode(expiration.as_bytes())}})
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<TokenCleaner>("kube-system/a")
}

#[test]
fn an_expired_token_is_deleted() {
    for expiration in [NOW, "2020-01-01T00:00:00Z", "2026-01-01T01:00:00+02:00"] {
        let cluster = Cluster::with([token(expiration)]);
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        let writes = cluster.writes();
        assert_eq!(writes.len(), 1, "{expiration}");
        assert_eq!(writes[0].to_string(), DELETE);
        assert_eq!(
            writes[0].options,
            json!({"preconditions": {"uid": "uid-a"}})
        );
    }
}

#[test]
fn a_token_whose_expiry_cant_be_parsed_is_deleted() {
    let cluster = Cluster::with([token("tomorrow")]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [DELETE]);
}

#[test]
fn a_token_that_has_not_expired_waits() {
    let cluster = Cluster::with([token("2026-01-01T00:00:10.5Z")]);
    let rest = Duration::from_millis(10_500);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::RequeueAfter(rest));
    assert!(cluster.written().is_empty());
    cluster.advance(rest);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), [DELETE]);
}

#[test]
fn a_token_without_an_expiry_is_kept() {
    let mut without = token("");
    let mut empty = token("");
    empty["data"] = Value::Null;
    without["data"] = json!({"token-id": "YWJj"});
    for kept in [token(""), without, empty] {
        let cluster = Cluster::with([kept]);
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        assert!(cluster.written().is_empty());
    }
    assert_eq!(reconcile(&Cluster::new()).unwrap(), Outcome::Done);
}

#[test]
fn a_token_that_is_being_deleted_is_left_alone() {
    let mut deleting = token("2020-01-01T00:00:00Z");
    deleting["metadata"]["deletionTimestamp"] = NOW.into();
    deleting["metadata"]["finalizers"] = json!(["example.com/held"]);
    let cluster = Cluster::with([deleting]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_token_that_was_deleted_or_replaced_meanwhile_is_done_and_other_failures_are_retried() {
    for (status, reason) in [(404, "NotFound"), (409, "Conflict")] {
        let cluster = Cluster::with([token("tomorrow")]);
        cluster.fail("delete", SECRET, refusal(status, reason));
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    }
    let cluster = Cluster::with([token("tomorrow")]);
    cluster.fail("delete", SECRET, refusal(500, "InternalError"));
    assert!(!reconcile(&cluster).unwrap_err().is_terminal());
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert!(cluster.object(SECRET, "kube-system", "a").is_none());
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = TokenCleaner::describe();
    description.check().unwrap();
    assert_eq!(description.queues[0].name, "token_cleaner");
    let watch = &description.watches[0];
    assert_eq!(
        (&*watch.namespace, &*watch.field_selector),
        ("kube-system", "type=bootstrap.kubernetes.io/token")
    );
    assert_eq!(permissions(&description), ["v1/Secret  delete"]);
}
