//! Native tests of the whole controller.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};
use serviceaccount_controller::ServiceAccounts;

fn namespace(phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "status": {"phase": phase}})
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "team"}})
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<ServiceAccounts>("team")
}

#[test]
fn an_active_namespace_gets_its_default_account() {
    let cluster = Cluster::with([namespace("Active"), account("builder")]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), ["create v1/ServiceAccount team/default"]);
}

#[test]
fn an_existing_account_is_left_alone() {
    let cluster = Cluster::with([namespace("Active"), account("default")]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_deleted_account_is_recreated() {
    let cluster = Cluster::with([namespace("Active"), account("default")]);
    cluster.remove("v1/ServiceAccount", "team", "default");
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), ["create v1/ServiceAccount team/default"]);
}

#[test]
fn an_inactive_or_missing_namespace_gets_no_account() {
    for objects in [vec![namespace("Terminating")], vec![namespace("")], vec![]] {
        let cluster = Cluster::with(objects);
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        assert!(cluster.written().is_empty());
    }
}

#[test]
fn a_namespace_terminated_in_the_meantime_is_not_an_error() {
    let mut going = namespace("Active");
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let cluster = Cluster::with([going]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    let written = cluster.written();
    assert!(
        written[0].contains("because it is being terminated"),
        "{written:?}"
    );
}

#[test]
fn an_account_created_in_the_meantime_is_not_an_error() {
    let cluster = Cluster::with([namespace("Active")]);
    cluster.fail("create", "v1/ServiceAccount", refusal(409, "AlreadyExists"));
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
}

#[test]
fn every_other_error_is_retried() {
    let cluster = Cluster::with([namespace("Active")]);
    cluster.fail("create", "v1/ServiceAccount", refusal(403, "Forbidden"));
    let error = reconcile(&cluster).unwrap_err();
    assert!(
        !error.is_terminal() && error.to_string().contains("403 Forbidden"),
        "{error}"
    );
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written().len(), 2);
}
