//! The conditions by which a namespace tells how its deletion goes. A status of `True` is bad news.

use flyball_sdk::prelude::*;

use crate::content::Content;
use crate::kinds::Kinds;

/// What the conditions should be, all of them, in the order in which they are added.
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
                .unreadable
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

/// A condition: the bad news, if there are any, else the good ones. Each is a reason and a message.
fn condition(condition_type: &str, bad: Option<(&str, String)>, good: (&str, &str)) -> Condition {
    match bad {
        Some((reason, message)) => Condition::new(condition_type, "True", reason, &message),
        None => Condition::new(condition_type, "False", good.0, good.1),
    }
}

fn failures(failures: &[String]) -> Option<String> {
    let list = sorted(failures.iter().cloned())?;
    Some(format!(
        "Failed to delete all resource types, {} remaining: {list}",
        failures.len()
    ))
}

/// What remains. kube-controller-manager 1.36 does not tell of pods while they keep the rest
/// waiting, and says instead that all content was removed; here they are told of as all else is.
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

/// These texts in one, the same whatever their order; none if there are none.
fn sorted(texts: impl Iterator<Item = String>) -> Option<String> {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    (!texts.is_empty()).then(|| texts.join(", "))
}
