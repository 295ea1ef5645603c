//! The conditions of DeviceTaintRules.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal, view};

use super::world::*;
use crate::rules::{Numbers, condition as planned};
use crate::views::Rule;
use crate::{ALL_POOLS, DeviceTaintEviction, POOLS};

fn used(rule: Value, tolerations: Value) -> Cluster {
    cluster([
        rule,
        slice("s", 1, &[]),
        claim("c", "a", &["x"], tolerations),
        pod("x", &["c"]),
    ])
}

fn update(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<DeviceTaintEviction>("r")
}

#[test]
fn a_rule_shows_what_it_evicts_and_has_evicted() {
    let cluster = used(rule("NoExecute"), json!([]));
    assert_eq!(update(&cluster).unwrap(), Outcome::Done);
    let pending = "1 pod needs to be evicted in 1 namespace.";
    assert_eq!(
        condition(&cluster),
        ["True", "PodsPendingEviction", pending]
    );
    assert_eq!(enqueued(&cluster, POOLS), [ALL_POOLS]);
    assert_eq!(cluster.written().len(), 1);

    assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), eviction("x"));
    assert_eq!(cluster.events(), [MARKING]);
    count_evicted(&cluster);
    // It may have been updated while the pod was being evicted.
    assert_eq!(enqueued(&cluster, ""), ["r"]);
    cluster.advance(Duration::from_secs(4));
    assert_eq!(update(&cluster).unwrap(), after(6));
    cluster.advance(Duration::from_secs(6));
    assert_eq!(update(&cluster).unwrap(), Outcome::Done);
    let evicted = "1 pod evicted since starting the controller.";
    assert_eq!(condition(&cluster), ["False", "Completed", evicted]);
    // The rule isn't enqueued again. Its status is written only if it changes.
    assert!(enqueued(&cluster, POOLS).is_empty());
    cluster.written();
    cluster.advance(Duration::from_secs(60));
    assert_eq!(update(&cluster).unwrap(), Outcome::Done);
    assert_idle(&cluster);
}

#[test]
fn the_status_is_applied_by_force_to_the_rule_with_this_uid() {
    let cluster = used(rule("NoExecute"), json!([]));
    update(&cluster).unwrap();
    let write = cluster.writes().remove(0);
    assert_eq!(write.to_string(), format!("patch {RULE}/status r"));
    assert_eq!(
        write.options,
        json!({"fieldManager": "device-taint-eviction-controller", "force": true})
    );
    assert_eq!(write.body["metadata"], json!({"name": "r", "uid": "uid-r"}));
    assert_eq!(write.body["apiVersion"], "resource.k8s.io/v1");
    assert_eq!(
        write.body["status"]["conditions"][0]["observedGeneration"],
        1
    );
}

#[test]
fn a_pod_that_is_to_be_evicted_updates_its_rules_later() {
    let cluster = used(rule("NoExecute"), json!([tolerates("rule", Some(60))]));
    assert_eq!(reconcile(&cluster, "x").unwrap(), after(60));
    let enqueued = cluster.enqueued();
    assert_eq!(enqueued.len(), 1);
    assert_eq!(
        (enqueued[0].key.as_str(), enqueued[0].delay),
        ("r", Duration::from_secs(10))
    );
}

#[test]
fn a_rule_without_effect_shows_what_it_would_do_and_evicts_nobody() {
    let cluster = used(rule("None"), json!([]));
    update(&cluster).unwrap();
    assert_eq!(
        condition(&cluster),
        [
            "False",
            "NoEffect",
            "1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect \
             was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        ]
    );
    cluster.written();
    assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
    assert_idle(&cluster);
}

#[test]
fn pods_that_tolerate_the_rule_or_are_being_deleted_are_not_counted() {
    let not_started = ["False", "NotStarted", ""];
    let tolerating = used(rule("NoExecute"), json!([tolerates("rule", None)]));
    update(&tolerating).unwrap();
    assert_eq!(condition(&tolerating), not_started);
    let deleting = used(rule("NoExecute"), json!([]));
    deleting.edit(POD, "team", "x", |pod| {
        pod["metadata"]["deletionTimestamp"] = START.into();
    });
    update(&deleting).unwrap();
    assert_eq!(condition(&deleting), not_started);
}

#[test]
fn a_pod_that_is_being_deleted_already_counts_as_evicted() {
    let cluster = used(rule("NoExecute"), json!([]));
    cluster.edit(POD, "team", "x", |pod| {
        pod["metadata"]["deletionTimestamp"] = START.into();
    });
    assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
    count_evicted(&cluster);
    update(&cluster).unwrap();
    let evicted = "1 pod evicted since starting the controller.";
    assert_eq!(condition(&cluster), ["False", "Completed", evicted]);
}

#[test]
fn a_changed_spec_is_shown_at_once() {
    let cluster = used(rule("NoExecute"), json!([]));
    update(&cluster).unwrap();
    cluster.edit(RULE, "", "r", |rule| {
        rule["metadata"]["generation"] = 2.into();
        rule["spec"]["taint"]["effect"] = "NoSchedule".into();
    });
    cluster.enqueued();
    assert_eq!(update(&cluster).unwrap(), Outcome::Done);
    let other = "Eviction only happens for the NoExecute effect.";
    assert_eq!(condition(&cluster), ["False", "OtherEffect", other]);
    assert_eq!(enqueued(&cluster, POOLS), [ALL_POOLS]);
}

#[test]
fn a_status_that_cannot_be_written_delays_no_eviction() {
    let cluster = used(rule("NoExecute"), json!([]));
    cluster.fail(
        "patch",
        &format!("{RULE}/status"),
        refusal(500, "InternalError"),
    );
    update(&cluster).unwrap_err();
    assert_eq!(enqueued(&cluster, POOLS), [ALL_POOLS]);
}

#[test]
fn a_selector_selects_by_all_its_fields_and_none_selects_nothing() {
    let rule =
        |selector: Value| view::<Rule>(with(rule("NoExecute"), "/spec/deviceSelector", selector));
    for (selector, expected) in [
        (json!({}), true),
        (json!({"driver": "d", "pool": "p", "device": "a"}), true),
        (json!({"driver": "d"}), true),
        (json!({"driver": "e"}), false),
        (json!({"driver": "d", "pool": "q"}), false),
        (json!({"device": "b"}), false),
        (Value::Null, false),
    ] {
        let rule = rule(selector.clone());
        assert_eq!(rule.selects("d", "p", "a"), expected, "{selector}");
    }
}

#[test]
fn messages_have_the_numbers_and_their_plurals() {
    let message = |effect, pods, namespaces, evicted| {
        let numbers = Numbers {
            pods,
            namespaces,
            ..Numbers::default()
        };
        planned(&view(rule(effect)), &numbers, evicted).message
    };
    assert_eq!(
        message("NoExecute", 3, 2, 4),
        "3 pods need to be evicted in 2 different namespaces. 4 pods evicted since starting the controller."
    );
    assert_eq!(
        message("NoSchedule", 0, 0, 1),
        "Eviction only happens for the NoExecute effect. 1 pod evicted since starting the controller."
    );
    let simulated = message("None", 0, 0, 0);
    assert!(simulated.starts_with(
        "0 published devices selected. 0 allocated devices selected. 0 pods would be evicted in 0 different namespaces if"
    ));
}
