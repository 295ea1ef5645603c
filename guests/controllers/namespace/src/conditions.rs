//! The conditions that report the progress of a namespace's deletion. The status `True` means a
//! problem.
//!
//! Upstream: pkg/controller/namespace/deletion/status_condition_utils.go: ProcessGroupVersionErr,
//! ProcessDiscoverResourcesErr, ProcessContentTotals, ProcessDeleteContentErr, makeDeleteContentCondition,
//! newSuccessfulCondition.

use flyball_sdk::prelude::*;

use crate::content::Content;
use crate::kinds::Kinds;

/// Returns all conditions, in the order in which they are added.
pub fn of(kinds: &Kinds, content: &Content) -> [Condition; 5] {
    [
        condition(
            "NamespaceDeletionDiscoveryFailure",
            kinds
                .undiscovered
                .clone()
                .map(|message| ("DiscoveryFailed", message)),
            (
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            kinds
                .unparsable
                .clone()
                .map(|message| ("GroupVersionParsingFailed", message)),
            (
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
        ),
        condition(
            "NamespaceDeletionContentFailure",
            failures(&content.failures).map(|message| ("ContentDeletionFailed", message)),
            (
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
        ),
        condition(
            "NamespaceContentRemaining",
            remaining(content).map(|message| ("SomeResourcesRemain", message)),
            ("ContentRemoved", "All content successfully removed"),
        ),
        condition(
            "NamespaceFinalizersRemaining",
            finalizers(content).map(|message| ("SomeFinalizersRemain", message)),
            (
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
        ),
    ]
}

/// Returns a condition for the problem, if there is one. Both arguments are reason and message.
fn condition(condition_type: &str, problem: Option<(&str, String)>, ok: (&str, &str)) -> Condition {
    match problem {
        Some((reason, message)) => Condition::new(condition_type, "True", reason, &message),
        None => Condition::new(condition_type, "False", ok.0, ok.1),
    }
}

fn failures(failures: &[String]) -> Option<String> {
    let list = sorted(failures.iter().cloned())?;
    Some(format!(
        "Failed to delete all resource types, {} remaining: {list}",
        failures.len()
    ))
}

/// Reports the remaining content. While pods delay the deletion of the rest, kube-controller-manager 1.36 does not
/// report them, and claims that all content was removed. This controller reports pods like other objects.
fn remaining(content: &Content) -> Option<String> {
    let counted = content
        .remaining
        .iter()
        .map(|(resource, count)| format!("{resource} has {count} resource instances"));
    Some(format!(
        "Some resources are remaining: {}",
        sorted(counted)?
    ))
}

fn finalizers(content: &Content) -> Option<String> {
    let counted = content
        .finalizers
        .iter()
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
    Some(format!(
        "Some content in the namespace has finalizers remaining: {}",
        sorted(counted)?
    ))
}

/// Joins the texts in sorted order; `None` if there are none.
fn sorted(texts: impl Iterator<Item = String>) -> Option<String> {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    (!texts.is_empty()).then(|| texts.join(", "))
}
