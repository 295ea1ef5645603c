//! The pods of an autoscaler: those that the selector of its target's Scale selects. No other autoscaler may scale them.

use flyball_sdk::LabelSelector;
use flyball_sdk::prelude::*;

use crate::memory;
use crate::views::{Autoscaler, Named, Pod};

/// Why an autoscaler has no pods to scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason of the event.
    pub event: &'static str,
    /// The error, and the message of the event.
    pub message: String,
    /// The reason of the condition.
    pub reason: &'static str,
    /// The message of the condition.
    pub condition: String,
}

/// Parses the selector of a Scale, and lists the pods. The selector is kept for the checks of other autoscalers.
///
/// # Errors
/// There is no selector, it is malformed, or other autoscalers select some of the pods; or the pods can't be listed.
pub fn pods(
    host: &Host,
    autoscaler: &Autoscaler,
    selector: &str,
) -> Result<Result<(LabelSelector, Vec<Pod>), Refused>, Error> {
    let parsed = match parse(selector) {
        Ok(parsed) => parsed,
        Err(refused) => return Ok(Err(refused)),
    };
    memory::keep_selector(host, autoscaler, selector);
    let namespace = &autoscaler.meta.namespace;
    let list = host.list::<Pod>().namespace(namespace).labels(&parsed);
    let pods = list.all()?;
    let mut rivals = others(host, autoscaler)?;
    rivals.retain(|(_, selector)| pods.iter().any(|pod| selector.matches(&pod.labels)));
    if rivals.is_empty() || pods.is_empty() {
        return Ok(Ok((parsed, pods)));
    }
    let mut names: Vec<String> = rivals.into_iter().map(|(name, _)| name).collect();
    names.push(autoscaler.meta.name.clone());
    names.sort();
    let keys: Vec<String> = names
        .iter()
        .map(|name| format!("{{{name} {namespace}}}"))
        .collect();
    let message = format!(
        "pods by selector {selector} are controlled by multiple HPAs: [{}]",
        keys.join(" ")
    );
    Ok(Err(Refused {
        event: "AmbiguousSelector",
        condition: message.clone(),
        message,
        reason: "AmbiguousSelector",
    }))
}

fn parse(selector: &str) -> Result<LabelSelector, Refused> {
    if selector.is_empty() {
        return Err(Refused {
            event: "SelectorRequired",
            message: "selector is required".into(),
            reason: "InvalidSelector",
            condition: "the HPA target's scale is missing a selector".into(),
        });
    }
    selector.parse().map_err(|error| {
        let message = format!(
            "couldn't convert selector into a corresponding internal selector object: {error}"
        );
        Refused {
            event: "InvalidSelector",
            condition: message.clone(),
            message,
            reason: "InvalidSelector",
        }
    })
}

/// The other autoscalers of the namespace with the selectors that they were last found to have.
fn others(host: &Host, autoscaler: &Autoscaler) -> Result<Vec<(String, LabelSelector)>, Error> {
    let namespace = &autoscaler.meta.namespace;
    let named = host.list::<Named>().namespace(namespace).all()?;
    let names = named.into_iter().map(|named| named.name);
    let others = names.filter(|name| *name != autoscaler.meta.name);
    let with_selector = |name: String| {
        let selector = memory::selector_of(host, &Key::new(namespace, &name))?;
        Some((name, selector.parse().ok()?))
    };
    Ok(others.filter_map(with_selector).collect())
}
