//! The success policy.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;

use super::world::*;
use crate::intervals::Intervals;
use crate::success_policy::met;
use crate::views::SuccessPolicy;

/// The rule that is met for a job of ten indexes if these have succeeded.
fn rule(rules: Value, succeeded: &str) -> Option<String> {
    let policy: SuccessPolicy = serde_json::from_value(json!({"rules": rules})).unwrap();
    met(Some(&policy), 10, &Intervals::parse(succeeded, 10))
}

#[test]
fn a_rule_is_met_when_all_or_enough_of_its_indexes_have_succeeded() {
    let all = || json!([{"succeededIndexes": "1,3-5"}]);
    assert_eq!(
        (rule(all(), "1,3-4"), rule(all(), "0-6").is_some()),
        (None, true)
    );
    let some = || json!([{"succeededIndexes": "1,3-5", "succeededCount": 2}]);
    assert_eq!(
        (rule(some(), "0,1,2"), rule(some(), "1,5").is_some()),
        (None, true)
    );
    let any = || json!([{"succeededCount": 3}]);
    assert_eq!(
        (rule(any(), "0,9"), rule(any(), "0,4,9").is_some()),
        (None, true)
    );
}

#[test]
fn the_message_names_the_first_rule_that_is_met() {
    let rules = json!([{"succeededIndexes": "9"}, {"succeededCount": 2}, {"succeededCount": 1}]);
    assert_eq!(
        rule(rules.clone(), "1").as_deref(),
        Some("Matched rules at index 2")
    );
    assert_eq!(
        rule(rules, "1,2").as_deref(),
        Some("Matched rules at index 1")
    );
}

#[test]
fn a_malformed_rule_or_one_without_indexes_is_never_met() {
    for indexes in ["", "x", "10-12"] {
        assert_eq!(
            rule(
                json!([{"succeededIndexes": indexes, "succeededCount": 0}]),
                "0-9"
            ),
            None,
            "{indexes}"
        );
    }
    assert_eq!(rule(json!([{}]), "0-9"), None);
    assert_eq!(rule(json!([{"succeededCount": 0}]), ""), None);
    assert_eq!(met(None, 10, &Intervals::parse("0-9", 10)), None);
}

#[test]
fn a_met_policy_completes_the_job_and_its_other_pods_do_not_count_as_failures() {
    let policy = json!({"rules": [{"succeededIndexes": "0"}]});
    let leader = indexed(3, 3).with("/spec/successPolicy", policy);
    let world = World::of([
        leader,
        pod_of("a", 0).succeeded(),
        pod_of("b", 1),
        pod_of("c", 2),
    ]);
    world.sync();
    assert_eq!(
        (world.conditions(), world.counts()),
        (
            vec!["SuccessCriteriaMet SuccessPolicy".into()],
            [0, 2, 1, 0]
        )
    );
    world.reap();
    world.settle();
    assert_eq!(
        world.conditions(),
        ["SuccessCriteriaMet SuccessPolicy", "Complete SuccessPolicy"]
    );
    let status = world.status();
    assert_eq!(
        (&status["failed"], &status["completedIndexes"]),
        (&json!(0), &json!("0"))
    );
    assert_eq!(
        status["conditions"][1]["message"],
        "Matched rules at index 0"
    );
    assert_eq!(
        world.cluster.events().last().unwrap(),
        "Normal Completed Job completed"
    );
}

#[test]
fn an_index_that_succeeds_while_a_completed_job_waits_still_counts() {
    let conditions = json!([{"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy", "message": "m"}]);
    let met = indexed(2, 2).with(
        "/status",
        json!({"conditions": conditions, "completedIndexes": "0", "succeeded": 1}),
    );
    let world = World::of([met, pod_of("b", 1).succeeded()]);
    world.settle();
    assert_eq!(
        (
            world.status()["completedIndexes"].as_str(),
            world.conditions().len()
        ),
        (Some("0,1"), 2)
    );
}
