//! Native tests of the controller.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal, set_at};
use pod_disruption_guard::{Budget, Guard, IGNORE};

const DEPLOYMENT: &str = "apps/v1/Deployment";
const CREATED: &str = "create policy/v1/PodDisruptionBudget team/web-guard";
const PATCHED: &str = "patch policy/v1/PodDisruptionBudget team/web-guard";
const DELETED: &str = "delete policy/v1/PodDisruptionBudget team/web-guard";

fn deployment(name: &str, replicas: impl Into<Option<i32>>) -> Value {
    let labels = json!({"app": name, "tier": "front"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
        "spec": {
            "replicas": replicas.into(),
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}},
        },
    })
}

/// A budget of another client.
fn budget(name: &str, selector: Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"minAvailable": 1, "selector": selector},
    })
}

fn reconcile(cluster: &Cluster) -> Vec<String> {
    assert_eq!(
        cluster.reconcile::<Guard>("team").unwrap(),
        Outcome::Done,
        "the reconcile of the namespace"
    );
    cluster.written()
}

/// A cluster with a Deployment that has its budget.
fn guarded() -> Cluster {
    let cluster = Cluster::with([deployment("web", 3)]);
    assert_eq!(reconcile(&cluster), [CREATED]);
    cluster.events();
    cluster
}

fn own(cluster: &Cluster) -> Option<Value> {
    cluster.object(Budget::KIND, "team", "web-guard")
}

#[test]
fn a_deployment_gets_a_budget_that_it_controls() {
    let cluster = Cluster::with([deployment("web", 2)]);
    assert_eq!(reconcile(&cluster), [CREATED]);
    assert_eq!(
        cluster.events(),
        ["Normal BudgetCreated created the budget web-guard"]
    );
    let budget = own(&cluster).unwrap();
    assert_eq!(
        budget["spec"],
        json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}})
    );
    assert_eq!(
        budget["metadata"]["ownerReferences"],
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": true}])
    );
}

#[test]
fn nothing_is_written_twice() {
    let cluster = guarded();
    assert!(reconcile(&cluster).is_empty());
    assert!(cluster.events().is_empty());
}

#[test]
fn a_deployment_of_fewer_than_two_replicas_gets_none() {
    for replicas in [Some(1), Some(0), None] {
        let cluster = Cluster::with([deployment("web", replicas)]);
        assert!(reconcile(&cluster).is_empty(), "{replicas:?}");
    }
}

#[test]
fn a_budget_is_deleted_when_its_deployment_needs_it_no_longer() {
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 3] = [
        (
            |found| set_at(found, "/spec/replicas", 1),
            "its Deployment has fewer than 2 replicas",
        ),
        (
            |found| found["metadata"]["annotations"] = json!({IGNORE: "true"}),
            "its Deployment has the annotation pod-disruption-guard.flyball.dev/ignore",
        ),
        (
            |found| set_at(found, "/metadata/deletionTimestamp", "2026-01-01T00:00:00Z"),
            "its Deployment is being deleted",
        ),
    ];
    for (change, why) in changes {
        let cluster = guarded();
        cluster.edit(DEPLOYMENT, "team", "web", change);
        assert_eq!(reconcile(&cluster), [DELETED]);
        let event = format!("Normal BudgetDeleted deleted the budget web-guard: {why}");
        assert_eq!(cluster.events(), [event]);
        assert!(reconcile(&cluster).is_empty());
    }
}

#[test]
fn a_budget_is_deleted_when_its_deployment_is_gone_or_another_one() {
    let cluster = guarded();
    cluster.remove(DEPLOYMENT, "team", "web");
    assert_eq!(reconcile(&cluster), [DELETED]);
    assert!(cluster.events().is_empty());

    let cluster = guarded();
    cluster.remove(DEPLOYMENT, "team", "web");
    let mut again = deployment("web", 3);
    set_at(&mut again, "/metadata/uid", "another");
    cluster.put(again);
    assert_eq!(reconcile(&cluster), [DELETED]);
    assert_eq!(reconcile(&cluster), [CREATED]);
}

#[test]
fn a_budget_of_somebody_else_takes_precedence() {
    for selector in [
        json!({"matchLabels": {"app": "web"}}),
        json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}]}),
        json!({}),
    ] {
        let cluster = guarded();
        cluster.put(budget("theirs", selector.clone()));
        assert_eq!(reconcile(&cluster), [DELETED], "{selector}");
        assert_eq!(
            cluster.events(),
            [
                "Normal BudgetDeleted deleted the budget web-guard: the budget theirs selects its pods"
            ]
        );
        assert!(reconcile(&cluster).is_empty());
        cluster.remove(Budget::KIND, "team", "theirs");
        assert_eq!(reconcile(&cluster), [CREATED]);
    }
}

#[test]
fn a_budget_of_somebody_else_that_selects_other_pods_is_no_reason() {
    for selector in [json!({"matchLabels": {"app": "db"}}), Value::Null] {
        let cluster = guarded();
        cluster.put(budget("theirs", selector));
        assert!(reconcile(&cluster).is_empty());
    }
}

#[test]
fn budgets_of_other_deployments_do_not_count() {
    // The selectors overlap. If the plugin's own budgets counted as another client's, each Deployment would lose its
    // budget because of the other's, and get it again.
    let mut wide = deployment("wide", 2);
    set_at(&mut wide, "/spec/selector", json!({}));
    let cluster = Cluster::with([deployment("web", 2), wide]);
    assert_eq!(reconcile(&cluster).len(), 2);
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn a_changed_budget_is_corrected() {
    let cluster = guarded();
    cluster.edit(Budget::KIND, "team", "web-guard", |budget| {
        budget["spec"] =
            json!({"minAvailable": 0, "selector": {"matchLabels": {"app": "web", "a": "b"}}});
    });
    assert_eq!(reconcile(&cluster), [PATCHED]);
    assert_eq!(
        own(&cluster).unwrap()["spec"],
        json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}})
    );
    assert_eq!(
        cluster.events(),
        ["Normal BudgetCorrected corrected the budget web-guard"]
    );
}

#[test]
fn a_budget_without_our_label_is_its_owners() {
    let cluster = guarded();
    cluster.edit(Budget::KIND, "team", "web-guard", |budget| {
        set_at(budget, "/metadata/labels", json!({}));
    });
    assert!(reconcile(&cluster).is_empty());
    cluster.remove(DEPLOYMENT, "team", "web");
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn a_name_that_is_taken_is_told_once() {
    let cluster = Cluster::with([
        deployment("web", 2),
        budget("web-guard", json!({"matchLabels": {"app": "db"}})),
    ]);
    assert!(reconcile(&cluster).is_empty());
    assert!(reconcile(&cluster).is_empty());
    assert_eq!(
        cluster.events(),
        [
            "Warning NameTaken the budget web-guard exists, is not controlled by this Deployment, and does not select its pods"
        ]
    );
}

#[test]
fn a_long_name_gives_way_to_the_uid() {
    let name = "n".repeat(248);
    let cluster = Cluster::with([deployment(&name, 2)]);
    let uid = format!("uid-{name}");
    assert_eq!(
        reconcile(&cluster),
        [format!(
            "create policy/v1/PodDisruptionBudget team/{uid}-guard"
        )]
    );
}

#[test]
fn the_number_of_pods_can_be_set() {
    for (setting, expected) in [("2", json!(2)), ("25%", json!("25%")), ("0", json!(0))] {
        let cluster = guarded();
        cluster.set_config("max-unavailable", setting);
        let expected_writes = [PATCHED];
        assert_eq!(reconcile(&cluster), expected_writes, "{setting}");
        assert_eq!(own(&cluster).unwrap()["spec"]["maxUnavailable"], expected);
    }
    for setting in ["", "%", "-1", "half", "1.5", "99999"] {
        let cluster = guarded();
        cluster.set_config("max-unavailable", setting);
        let error = cluster.reconcile::<Guard>("team").unwrap_err();
        assert!(error.is_terminal(), "{setting}: {error}");
    }
}

#[test]
fn a_failure_keeps_no_other_deployment_from_its_budget() {
    let cluster = Cluster::with([deployment("db", 2), deployment("web", 2)]);
    cluster.fail("create", Budget::KIND, refusal(403, "Forbidden"));
    let error = cluster.reconcile::<Guard>("team").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("can't write the budget db-guard: "),
        "{error}"
    );
    assert!(own(&cluster).is_some());
}

#[test]
fn what_was_done_meanwhile_is_no_failure() {
    let cluster = Cluster::with([deployment("web", 2)]);
    cluster.fail("create", Budget::KIND, refusal(403, "NamespaceTerminating"));
    assert_eq!(reconcile(&cluster).len(), 1);
    for (status, reason) in [(404, "NotFound"), (409, "Conflict")] {
        let cluster = guarded();
        cluster.remove(DEPLOYMENT, "team", "web");
        cluster.fail("delete", Budget::KIND, refusal(status, reason));
        assert_eq!(reconcile(&cluster).len(), 1);
    }
}

#[test]
fn a_budget_that_changed_since_it_was_read_is_not_corrected() {
    let cluster = guarded();
    cluster.edit(Budget::KIND, "team", "web-guard", |budget| {
        set_at(budget, "/spec/maxUnavailable", 5);
    });
    cluster.fail("patch", Budget::KIND, refusal(409, "Conflict"));
    assert!(cluster.reconcile::<Guard>("team").is_err());
    cluster.written();
    assert_eq!(reconcile(&cluster), [PATCHED]);
}

#[test]
fn a_copy_of_a_budget_is_deleted() {
    let cluster = guarded();
    let mut copy = own(&cluster).unwrap();
    set_at(&mut copy, "/metadata/name", "web-guard-2");
    set_at(&mut copy, "/metadata/uid", "copy");
    cluster.put(copy);
    assert_eq!(
        reconcile(&cluster),
        ["delete policy/v1/PodDisruptionBudget team/web-guard-2"]
    );
    assert!(own(&cluster).is_some());
}

#[test]
fn many_deployments_are_guarded_at_once() {
    let deployments = (0..1000).map(|number| deployment(&format!("web-{number}"), 2));
    let cluster = Cluster::with(deployments);
    assert_eq!(reconcile(&cluster).len(), 1000);
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn a_namespace_without_deployments_needs_nothing() {
    assert!(reconcile(&Cluster::new()).is_empty());
}
