//! The pod failure policy (KEP-3329).
//!
//! Upstream: pkg/controller/job/pod_failure_policy.go: matchPodFailurePolicy, matchOnExitCodes, matchOnPodConditions,
//! getMatchingContainerFromList, isOnExitCodesOperatorMatching.

use crate::views::{Container, ExitCodes, FailurePolicy, FailureRule, Pod};

/// The action of the first rule that a failed pod matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The whole job fails, with this message.
    FailJob(String),
    /// The pod's index fails.
    FailIndex,
    /// The failure is not counted.
    Ignore,
    /// The failure is counted, as without a rule.
    Count,
}

impl Action {
    /// The name in the API.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::FailJob(_) => "FailJob",
            Self::FailIndex => "FailIndex",
            Self::Ignore => "Ignore",
            Self::Count => "Count",
        }
    }
}

/// Returns the action of the first matching rule, or `None` if no rule matches.
pub fn action(policy: Option<&FailurePolicy>, pod: &Pod) -> Option<Action> {
    let rules = policy?.rules.iter().enumerate();
    { rules }.find_map(|(number, rule)| {
        let why = why(rule, pod)?;
        match rule.action.as_str() {
            "FailJob" => Some(Action::FailJob(format!(
                "{why} matching FailJob rule at index {number}"
            ))),
            "FailIndex" => Some(Action::FailIndex),
            "Ignore" => Some(Action::Ignore),
            "Count" => Some(Action::Count),
            _ => None,
        }
    })
}

/// Whether the failure of a pod is counted.
pub fn is_counted(policy: Option<&FailurePolicy>, pod: &Pod) -> bool {
    action(policy, pod) != Some(Action::Ignore)
}

/// Returns why a pod matches a rule, or `None` if it does not match.
fn why(rule: &FailureRule, pod: &Pod) -> Option<String> {
    let name = pod.meta.key();
    if let Some(wanted) = &rule.on_exit_codes {
        // Containers are checked before init containers.
        let mut ended = pod.containers.iter().chain(&pod.init_containers);
        let (container, code) = ended.find_map(|container| matching_exit(container, wanted))?;
        return Some(format!(
            "Container {container} for pod {name} failed with exit code {code}"
        ));
    }
    let is_wanted = |kind: &str, status: &str| {
        rule.on_pod_conditions
            .iter()
            .any(|pattern| pattern.condition_type == kind && pattern.status == status)
    };
    let condition = pod
        .conditions
        .iter()
        .find(|condition| is_wanted(&condition.condition_type, &condition.status))?;
    Some(format!(
        "Pod {name} has condition {}",
        condition.condition_type
    ))
}

/// Returns the name and exit code of a container that matches. Exit code 0 never matches.
fn matching_exit<'c>(container: &'c Container, wanted: &ExitCodes) -> Option<(&'c str, i32)> {
    let code = container.state.terminated.as_ref()?.exit_code;
    let is_named = wanted
        .container_name
        .as_ref()
        .is_none_or(|name| *name == container.name);
    let is_among = wanted.values.contains(&code);
    let matches = match wanted.operator.as_str() {
        "In" => is_among,
        "NotIn" => !is_among,
        _ => false,
    };
    (is_named && code != 0 && matches).then_some((container.name.as_str(), code))
}
