//! The pods of an autoscaler, which the selector of its target's Scale selects. No other autoscaler may scale them.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: validateAndParseSelector.

use flyball_sdk::LabelSelector;
use flyball_sdk::prelude::*;

use crate::rivals;
use crate::settings::Settings;
use crate::views::{Autoscaler, Pod};

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
/// The selector is missing or malformed, other autoscalers select some of the pods, or the pods can't be listed.
pub fn pods(
    host: &Host,
    settings: &Settings,
    autoscaler: &Autoscaler,
    selector: &str,
) -> Result<Result<(LabelSelector, Vec<Pod>), Refused>, Error> {
    let parsed = match parse(selector) {
        Ok(parsed) => parsed,
        Err(refused) => return Ok(Err(refused)),
    };
    rivals::keep(host, autoscaler, &parsed);
    let namespace = &autoscaler.meta.namespace;
    let list = host.list::<Pod>().namespace(namespace).labels(&parsed);
    let pods = list.all()?;
    let mut names = rivals::of(host, autoscaler, &pods)?;
    if names.is_empty() {
        return Ok(Ok((parsed, pods)));
    }
    names.push(autoscaler.meta.name.clone());
    names.sort();
    if settings.optimized_store {
        names.truncate(2);
    }
    let keys: Vec<String> = names
        .iter()
        .map(|name| Key::new(namespace, name).to_string())
        .collect();
    let message = match settings.since_1_37 {
        true => format!(
            "pods by selector {selector} are controlled by more than one HPA (e.g. [{}])",
            keys.join(" ")
        ),
        false => format!(
            "pods by selector {selector} are controlled by multiple HPAs: [{}]",
            keys.join(" ")
        ),
    };
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
