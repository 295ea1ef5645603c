//! The success policy (KEP-3998): lets an Indexed Job succeed before all of its indexes have.
//!
//! Upstream: pkg/controller/job/success_policy.go: matchSuccessPolicy, matchSucceededIndexesRule.

use crate::intervals::Intervals;
use crate::views::{SuccessPolicy, SuccessRule};

/// Returns the message of the first rule that is met, or `None`.
pub fn met(policy: Option<&SuccessPolicy>, indexes: i64, succeeded: &Intervals) -> Option<String> {
    let met = policy?
        .rules
        .iter()
        .position(|rule| is_met(rule, indexes, succeeded))?;
    Some(format!("Matched rules at index {met}"))
}

fn is_met(rule: &SuccessRule, indexes: i64, succeeded: &Intervals) -> bool {
    if succeeded.is_empty() {
        return false;
    }
    let is_enough = |count: i64| {
        rule.succeeded_count
            .is_some_and(|wanted| count >= wanted.into())
    };
    let Some(wanted) = &rule.succeeded_indexes else {
        return is_enough(succeeded.total());
    };
    let wanted = Intervals::parse(wanted, indexes);
    let shared = wanted.shared(succeeded);
    !wanted.is_empty() && (shared == wanted.total() || is_enough(shared))
}
