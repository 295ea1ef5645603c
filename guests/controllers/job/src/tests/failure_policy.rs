//! The pod failure policy.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;

use super::world::*;
use crate::failure_policy::{Action, action};
use crate::views::FailurePolicy;

fn on_codes(action: &str, operator: &str, values: &[i32]) -> Value {
    json!({"action": action, "onExitCodes": {"operator": operator, "values": values}})
}

fn on_condition(action: &str, condition_type: &str, status: &str) -> Value {
    json!({"action": action, "onPodConditions": [{"type": condition_type, "status": status}]})
}

/// The action of rules for a pod.
fn decide(rules: &[Value], pod: &Object) -> Option<Action> {
    let policy: FailurePolicy = serde_json::from_value(json!({"rules": rules})).unwrap();
    action(Some(&policy), &pod.pod())
}

/// A job with a pod failure policy, which therefore replaces pods only when they have ended.
fn with_policy(job: Object, rules: &[Value]) -> Object {
    job.with("/spec/podFailurePolicy/rules", rules)
        .with("/spec/podReplacementPolicy", "Failed")
}

#[test]
fn exit_codes_match_if_they_are_among_the_values_or_not() {
    let failed = pod("a").failed(0).exited(42, 0);
    assert_eq!(
        decide(&[on_codes("Ignore", "In", &[1, 42])], &failed),
        Some(Action::Ignore)
    );
    assert_eq!(decide(&[on_codes("Ignore", "In", &[1, 2])], &failed), None);
    assert_eq!(
        decide(&[on_codes("Ignore", "NotIn", &[1, 2])], &failed),
        Some(Action::Ignore)
    );
    assert_eq!(decide(&[on_codes("Ignore", "NotIn", &[42])], &failed), None);
    assert_eq!(decide(&[on_codes("Ignore", "Near", &[42])], &failed), None);
    // A container that exited with 0 or still runs never matches.
    assert_eq!(
        decide(
            &[on_codes("Ignore", "NotIn", &[1])],
            &failed.clone().exited(0, 0)
        ),
        None
    );
    let running = failed.with("/status/containerStatuses/0/state", json!({"running": {}}));
    assert_eq!(decide(&[on_codes("Ignore", "NotIn", &[1])], &running), None);
}

#[test]
fn exit_codes_can_be_limited_to_a_container_and_the_message_names_the_first_match() {
    let ended =
        |name: &str, code: i32| json!({"name": name, "state": {"terminated": {"exitCode": code}}});
    let failed = pod("a")
        .phase("Failed")
        .with(
            "/status/containerStatuses",
            json!([ended("c", 0), ended("d", 3)]),
        )
        .with("/status/initContainerStatuses", json!([ended("i", 5)]));
    let message = |text: &str| Some(Action::FailJob(text.into()));
    let of_main =
        "Container d for pod default/a failed with exit code 3 matching FailJob rule at index 0";
    assert_eq!(
        decide(&[on_codes("FailJob", "In", &[3, 5])], &failed),
        message(of_main)
    );
    let of_init =
        "Container i for pod default/a failed with exit code 5 matching FailJob rule at index 1";
    assert_eq!(
        decide(
            &[
                on_codes("Count", "In", &[9]),
                on_codes("FailJob", "In", &[5])
            ],
            &failed
        ),
        message(of_init)
    );
    let mut only = on_codes("Ignore", "In", &[3]);
    only["onExitCodes"]["containerName"] = "c".into();
    assert_eq!(decide(&[only.clone()], &failed), None);
    only["onExitCodes"]["containerName"] = "d".into();
    assert_eq!(decide(&[only], &failed), Some(Action::Ignore));
}

#[test]
fn conditions_match_by_type_and_status() {
    let failed = pod("a").phase("Failed").condition("DisruptionTarget");
    assert_eq!(
        decide(
            &[on_condition("Ignore", "DisruptionTarget", "True")],
            &failed
        ),
        Some(Action::Ignore)
    );
    assert_eq!(
        decide(
            &[on_condition("Ignore", "DisruptionTarget", "False")],
            &failed
        ),
        None
    );
    assert_eq!(
        decide(&[on_condition("Ignore", "ConfigIssue", "True")], &failed),
        None
    );
    let text = "Pod default/a has condition DisruptionTarget matching FailJob rule at index 0";
    assert_eq!(
        decide(
            &[on_condition("FailJob", "DisruptionTarget", "True")],
            &failed
        ),
        Some(Action::FailJob(text.into()))
    );
}

#[test]
fn the_first_matching_rule_decides_and_unknown_actions_are_skipped() {
    let failed = pod("a").failed(0);
    let [count, index, unknown] =
        ["Count", "FailIndex", "Explode"].map(|action| on_codes(action, "In", &[1]));
    assert_eq!(
        decide(&[count.clone(), index.clone()], &failed),
        Some(Action::Count)
    );
    assert_eq!(
        decide(&[index.clone(), count], &failed),
        Some(Action::FailIndex)
    );
    assert_eq!(decide(&[unknown, index], &failed), Some(Action::FailIndex));
    assert_eq!(decide(&[], &failed), None);
}

#[test]
fn fail_job_ends_the_job_before_its_limit_with_the_rules_message() {
    let world = World::of([
        with_policy(job(2, 5), &[on_codes("FailJob", "In", &[1])]),
        pod("a").failed(600),
        pod("b"),
    ]);
    world.sync();
    assert_eq!(world.conditions(), ["FailureTarget PodFailurePolicy"]);
    world.reap();
    world.settle();
    assert_eq!(
        world.conditions(),
        ["FailureTarget PodFailurePolicy", "Failed PodFailurePolicy"]
    );
    let text =
        "Container c for pod default/a failed with exit code 1 matching FailJob rule at index 0";
    assert_eq!(world.status()["conditions"][1]["message"], text);
    assert_eq!(
        world.cluster.events()[1],
        format!("Warning PodFailurePolicy {text}")
    );
    assert_eq!(world.counts(), [0, 0, 0, 2]);
}

#[test]
fn ignored_failures_are_not_counted_but_lose_the_finalizer_and_are_replaced() {
    let ignoring = with_policy(
        job(1, 1),
        &[on_condition("Ignore", "DisruptionTarget", "True")],
    );
    let world = World::of([
        ignoring.with("/spec/backoffLimit", 0),
        pod("a").failed(600).condition("DisruptionTarget"),
    ]);
    world.settle();
    assert_eq!(
        (
            world.counts(),
            world.conditions().len(),
            world.has_finalizer("a")
        ),
        ([1, 0, 0, 0], 0, false)
    );
}

#[test]
fn counted_failures_count() {
    let counting = with_policy(
        job(1, 1),
        &[
            on_codes("Count", "In", &[1]),
            on_codes("Ignore", "NotIn", &[0]),
        ],
    );
    let world = World::of([counting.with("/spec/backoffLimit", 0), pod("a").failed(600)]);
    world.settle();
    assert_eq!(
        (world.counts()[3], world.conditions()[1].as_str()),
        (1, "Failed BackoffLimitExceeded")
    );
}

#[test]
fn under_a_policy_a_pod_fails_only_by_its_phase() {
    let rules = [on_codes("FailJob", "In", &[7])];
    let policed = with_policy(job(1, 1), &rules).with("/spec/podReplacementPolicy", "Failed");
    let world = World::of([policed, pod("a").deleting(5)]);
    world.settle();
    assert_eq!(
        (
            world.counts(),
            world.has_finalizer("a"),
            world.names().len()
        ),
        ([0, 1, 0, 0], true, 1)
    );
}

#[test]
fn fail_index_fails_the_index_whatever_its_limit() {
    let rules = [on_codes("FailIndex", "In", &[1])];
    let world = World::of([
        with_policy(limited(2, 3, 5), &rules),
        pod_of("a", 0).failed(600),
        pod_of("b", 1),
    ]);
    world.settle();
    assert_eq!(
        (world.status()["failedIndexes"].as_str(), world.counts()),
        (Some("0"), [2, 0, 0, 1])
    );
    assert!(!world.has_finalizer("a"));
    assert!(world.names().iter().any(|name| name.starts_with("work-2-")));
}

#[test]
fn ignored_failures_still_delay_the_next_pod() {
    let rules = [on_condition("Ignore", "DisruptionTarget", "True")];
    let world = World::of([
        with_policy(job(1, 1), &rules),
        pod("a").failed(0).condition("DisruptionTarget"),
    ]);
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(10))));
}

#[test]
fn the_failure_of_a_deleted_pod_remains_the_reason() {
    let message =
        "Container c for pod default/gone failed with exit code 5 matching FailJob rule at index 1";
    let conditions = json!([{"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy", "message": message}]);
    let failing = with_policy(job(1, 1), &[on_codes("FailJob", "In", &[1])])
        .with("/status/conditions", conditions);
    let world = World::of([failing, pod("a").failed(0)]);
    world.settle();
    assert_eq!(
        (
            world.conditions().len(),
            &world.status()["conditions"][1]["message"]
        ),
        (2, &json!(message))
    );
}

#[test]
fn rules_apply_only_to_failed_pods() {
    let rules = [on_codes("FailJob", "In", &[1])];
    let world = World::of([with_policy(job(1, 1), &rules), pod("a").exited(1, 5)]);
    world.settle();
    assert_eq!(
        (world.counts(), world.conditions().len()),
        ([1, 0, 0, 0], 0)
    );
}
