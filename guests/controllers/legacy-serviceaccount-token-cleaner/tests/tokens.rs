//! Native tests of the whole controller.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};
use legacy_serviceaccount_token_cleaner_controller::LegacyTokens;
use legacy_serviceaccount_token_cleaner_controller::token::{INVALID_SINCE, LAST_USED};

const NOW: &str = "2026-06-15T12:00:00Z";
const MARK: &str = "patch v1/Secret team/token";
const DELETE: &str = "delete v1/Secret team/token";

/// The ConfigMap in which the API server records since when it tracks uses.
fn tracking(since: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"since": since},
           "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"}})
}

/// An old token of the account `builder`.
fn token(labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "data": {"token": "eHl6"},
           "metadata": {"name": "token", "namespace": "team", "creationTimestamp": "2020-01-01T00:00:00Z", "labels": labels,
                        "annotations": {"kubernetes.io/service-account.name": "builder",
                                        "kubernetes.io/service-account.uid": "uid-builder"}}})
}

fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{"name": "other"}, {"name": "token"}],
           "metadata": {"name": "builder", "namespace": "team", "uid": "uid-builder"}})
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "team"}, "spec": spec})
}

/// A cluster in which uses have been tracked long enough.
fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with([tracking("2024-01-01".into())]);
    cluster.set_now(NOW.parse().unwrap());
    objects.into_iter().for_each(|object| cluster.put(object));
    cluster
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<LegacyTokens>("all")
}

/// The writes of one reconcile of these objects.
fn written(objects: impl IntoIterator<Item = Value>) -> Vec<String> {
    let cluster = cluster(objects);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    cluster.written()
}

#[test]
fn an_unused_token_is_marked_and_deleted_a_period_later() {
    let cluster = cluster([account(), token(json!({"theirs": "stays"}))]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [MARK]);
    let labels = cluster.object("v1/Secret", "team", "token").unwrap()["metadata"]["labels"].take();
    assert_eq!(
        labels,
        json!({"theirs": "stays", INVALID_SINCE: "2026-06-15"})
    );

    let day = Duration::from_secs(86_400);
    for _ in 0..=365 {
        cluster.advance(day);
        assert_eq!(cluster.written(), [""; 0]);
        reconcile(&cluster).unwrap();
    }
    assert_eq!(cluster.written(), [DELETE]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn recently_used_or_created_tokens_are_kept() {
    assert_eq!(
        written([account(), token(json!({LAST_USED: "2025-06-15"}))]),
        [""; 0]
    );
    assert_eq!(
        written([account(), token(json!({LAST_USED: "2025-06-14"}))]),
        [MARK]
    );
    let mut young = token(json!({}));
    young["metadata"]["creationTimestamp"] = "2025-06-15T12:00:00Z".into();
    assert_eq!(written([account(), young]), [""; 0]);
}

#[test]
fn a_marked_token_that_is_used_again_is_kept() {
    let labels = json!({INVALID_SINCE: "2025-01-01", LAST_USED: "2026-06-01"});
    assert_eq!(written([account(), token(labels)]), [""; 0]);
}

#[test]
fn a_last_use_that_is_not_a_date_is_logged_and_the_token_kept() {
    let cluster = cluster([account(), token(json!({LAST_USED: "monday"}))]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), [""; 0]);
    assert!(cluster.logged()[0].1.contains("team/token"));
}

#[test]
fn secrets_of_other_types_are_ignored() {
    let mut opaque = token(json!({}));
    opaque["type"] = "Opaque".into();
    assert_eq!(written([account(), opaque]), [""; 0]);
}

#[test]
fn a_token_that_its_account_does_not_list_was_created_by_a_user_and_is_kept() {
    let with = |pointer: &str, value: Value| {
        let mut account = account();
        *account.pointer_mut(pointer).unwrap() = value;
        account
    };
    let kept = [
        vec![token(json!({}))],
        vec![with("/secrets", Value::Null), token(json!({}))],
        vec![with("/secrets/1/name", "more".into()), token(json!({}))],
        vec![with("/metadata/uid", "uid-new".into()), token(json!({}))],
        vec![
            with("/metadata/namespace", "other".into()),
            token(json!({})),
        ],
    ];
    for objects in kept {
        assert_eq!(written(objects), [""; 0]);
    }
    let mut of_nobody = token(json!({}));
    of_nobody["metadata"]["annotations"] = json!({});
    assert_eq!(written([account(), of_nobody]), [""; 0]);
}

#[test]
fn without_the_accounts_uid_its_name_is_enough() {
    let mut by_name = token(json!({}));
    by_name["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "builder"});
    assert_eq!(written([account(), by_name]), [MARK]);
}

#[test]
fn a_token_that_a_pod_references_in_any_field_is_kept() {
    let env = json!([{"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}}]}]);
    let env_from =
        json!([{"envFrom": [{"configMapRef": {"name": "x"}}, {"secretRef": {"name": "token"}}]}]);
    let mut specs = vec![json!({"imagePullSecrets": [{"name": "x"}, {"name": "token"}]})];
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        specs.push(json!({containers: env}));
        specs.push(json!({containers: env_from}));
    }
    let sources = [
        json!({"azureFile": {"secretName": "token"}}),
        json!({"cephfs": {"secretRef": {"name": "token"}}}),
        json!({"cinder": {"secretRef": {"name": "token"}}}),
        json!({"csi": {"nodePublishSecretRef": {"name": "token"}}}),
        json!({"flexVolume": {"secretRef": {"name": "token"}}}),
        json!({"iscsi": {"secretRef": {"name": "token"}}}),
        json!({"projected": {"sources": [{"configMap": {"name": "x"}}, {"secret": {"name": "token"}}]}}),
        json!({"rbd": {"secretRef": {"name": "token"}}}),
        json!({"scaleIO": {"secretRef": {"name": "token"}}}),
        json!({"secret": {"secretName": "token"}}),
        json!({"storageos": {"secretRef": {"name": "token"}}}),
    ];
    specs.extend(sources.map(|source| json!({"volumes": [{"name": "a", "emptyDir": {}}, source]})));
    assert_eq!(
        specs.len(),
        <legacy_serviceaccount_token_cleaner_controller::pods::Pod as View>::FIELDS.len()
    );
    for spec in specs {
        assert_eq!(
            written([account(), token(json!({})), pod(spec.clone())]),
            [""; 0],
            "{spec}"
        );
    }
}

#[test]
fn other_fields_and_pods_of_other_namespaces_do_not_count() {
    let config_map = json!({"volumes": [{"name": "token", "configMap": {"name": "token"}}],
                            "containers": [{"name": "token"}]});
    assert_eq!(
        written([account(), token(json!({})), pod(config_map)]),
        [MARK]
    );
    let mut elsewhere = pod(json!({"volumes": [{"name": "a", "secret": {"secretName": "token"}}]}));
    elsewhere["metadata"]["namespace"] = "other".into();
    assert_eq!(written([account(), token(json!({})), elsewhere]), [MARK]);
}

#[test]
fn nothing_is_done_until_uses_were_tracked_for_a_whole_period() {
    for (since, expected) in [("2025-06-14", 1), ("2025-06-15", 0), ("2026-06-15", 0)] {
        let cluster = cluster([account(), token(json!({})), tracking(since.into())]);
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        assert_eq!(cluster.written().len(), expected, "{since}");
    }
}

#[test]
fn without_a_start_date_of_tracking_nothing_is_done_and_the_key_is_retried() {
    for since in [Value::Null, "soon".into()] {
        let cluster = cluster([account(), token(json!({})), tracking(since)]);
        assert!(!reconcile(&cluster).unwrap_err().is_terminal());
        assert_eq!(cluster.written(), [""; 0]);
    }
    let cluster = cluster([account(), token(json!({}))]);
    cluster.remove(
        "v1/ConfigMap",
        "kube-system",
        "kube-apiserver-legacy-service-account-token-tracking",
    );
    assert!(
        reconcile(&cluster)
            .unwrap_err()
            .to_string()
            .contains("does not exist")
    );
}

#[test]
fn the_operator_configures_the_period() {
    let cluster = cluster([
        account(),
        token(json!({LAST_USED: "2026-06-14", INVALID_SINCE: "2026-06-14"})),
    ]);
    cluster.set_config("clean-up-period", "12h");
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [DELETE]);
    for wrong in ["", "0s", "-1h", "a year"] {
        cluster.set_config("clean-up-period", wrong);
        assert!(reconcile(&cluster).unwrap_err().is_terminal(), "{wrong}");
    }
}

#[test]
fn a_token_updated_or_deleted_in_the_meantime_is_not_an_error() {
    let cluster = cluster([account(), token(json!({INVALID_SINCE: "2025-01-01"}))]);
    for (status, reason) in [(409, "Conflict"), (404, "NotFound")] {
        cluster.fail("delete", "v1/Secret", refusal(status, reason));
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    }
    assert_eq!(cluster.writes().len(), 2);
}

#[test]
fn errors_are_reported_and_do_not_stop_other_tokens() {
    let second = || {
        let mut second = token(json!({}));
        second["metadata"]["name"] = "other".into();
        second
    };
    let cluster = cluster([account(), token(json!({})), second()]);
    cluster.fail("patch", "v1/Secret", refusal(403, "Forbidden"));
    let error = reconcile(&cluster).unwrap_err();
    assert!(
        !error.is_terminal() && error.to_string().contains("secret team/other"),
        "{error}"
    );
    assert_eq!(cluster.written()[1], MARK);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), ["patch v1/Secret team/other"]);
}

#[test]
fn it_runs_once_a_day_and_on_no_change() {
    let description = LegacyTokens::describe();
    assert!(description.watches.iter().all(|watch| watch.map.is_empty()));
    assert_eq!(
        description
            .tickers
            .iter()
            .map(|ticker| ticker.period_ms)
            .collect::<Vec<_>>(),
        [86_400_000]
    );
    // A write that is refused is not repeated before.
    assert_eq!(description.queues[0].max_retries, Some(0));
}
