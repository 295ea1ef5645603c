//! Finds the autoscalers that scale the same pods. The memo holds the selectors of all autoscalers, each under a label
//! that the selected pods must have. So only few selectors are compared with the pods of an autoscaler, even if there
//! are many autoscalers.
//!
//! Upstream: pkg/controller/podautoscaler/hpa_selector_store.go: PutIfAbsent, PutIfPresent, Delete, HPAsMatchingPods.
//! Upstream: pkg/controller/util/selectors/bimultimap.go: ReverseSelect, PutSelector, DeleteSelector.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{LabelSelector, Operator, warning};

use crate::views::{Autoscaler, Named, Pod};

/// Selectors by the name of their autoscaler.
type Selectors = BTreeMap<String, String>;

/// Keeps the selector of an autoscaler's pods, for the checks of the others. Each sync does so again: an entry that the
/// host or another instance has removed comes back.
pub fn keep(host: &Host, autoscaler: &Autoscaler, selector: &LabelSelector) {
    let (key, label) = (autoscaler.meta.key(), label_of(selector));
    let entry = entry(&key.namespace, label);
    let text = selector.to_string();
    let result =
        keep_in(host, &entry, &key.name, text).and_then(|()| note_place(host, &key, &entry));
    if let Err(error) = result {
        warning!(
            host,
            "other autoscalers may select the same pods unnoticed: {error}"
        );
    }
}

/// Forgets the selector of an autoscaler that does not exist any more.
pub fn forget(host: &Host, key: &Key) {
    if let Some(entry) = place_of(host, key) {
        remove_from(host, &entry, &key.name);
    }
    host.memo().remove(&place_key(key));
}

/// Returns the names of the other autoscalers that scale some of the pods, as far as they have been reconciled.
pub fn of(host: &Host, autoscaler: &Autoscaler, pods: &[Pod]) -> Result<Vec<String>, Error> {
    let namespace = &autoscaler.meta.namespace;
    let labels: BTreeSet<_> = pods.iter().flat_map(|pod| pod.labels.pairs()).collect();
    let labels = labels.into_iter().map(Some).chain([None]);
    let mut rivals = BTreeSet::new();
    for label in labels {
        let entry = entry(namespace, label);
        let selectors = host.memo().get::<Selectors>(&entry);
        let selected = selectors
            .unwrap_or_default()
            .into_iter()
            .filter(|(name, selector)| {
                let selector = selector.parse::<LabelSelector>();
                *name != autoscaler.meta.name
                    && selector
                        .is_ok_and(|selector| pods.iter().any(|pod| selector.matches(&pod.labels)))
                    && is_in(host, &Key::new(namespace, name), &entry)
            });
        rivals.extend(selected.map(|(name, _)| name));
    }
    let mut existing = Vec::new();
    for name in rivals {
        if host.get::<Named>(namespace, &name)?.is_some() {
            existing.push(name);
        }
    }
    Ok(existing)
}

/// Returns a label that all selected objects have; `None` if the selector requires none.
fn label_of(selector: &LabelSelector) -> Option<(&str, &str)> {
    selector.requirements().iter().find_map(|requirement| {
        match (requirement.operator, &*requirement.values) {
            (Operator::In, [value]) => Some((&*requirement.key, &**value)),
            _ => None,
        }
    })
}

fn keep_in(host: &Host, entry: &str, name: &str, selector: String) -> Result<(), ApiError> {
    let selectors: Selectors = host.memo().get(entry).unwrap_or_default();
    if selectors.get(name) == Some(&selector) {
        return Ok(());
    }
    host.memo()
        .update(entry, "", Duration::ZERO, |selectors: &mut Selectors| {
            selectors.insert(name.to_owned(), selector.clone());
        })
        .map(drop)
}

/// Removes a selector from an entry, and the entry if it is then empty. If another instance adds a selector meanwhile,
/// the selector is lost until that autoscaler's next sync.
fn remove_from(host: &Host, entry: &str, name: &str) {
    let removed = host
        .memo()
        .update(entry, "", Duration::ZERO, |selectors: &mut Selectors| {
            selectors.remove(name);
        });
    if removed.is_ok_and(|left| left.is_empty()) {
        host.memo().remove(entry);
    }
}

/// Notes in which entry the selector of an autoscaler is, and removes it from the entry in which it was before.
fn note_place(host: &Host, key: &Key, entry: &str) -> Result<(), ApiError> {
    let before = place_of(host, key);
    if before.as_deref() == Some(entry) {
        return Ok(());
    }
    if let Some(before) = before {
        remove_from(host, &before, &key.name);
    }
    host.memo().put(&place_key(key), &entry, "", Duration::ZERO)
}

/// Whether the selector of an autoscaler is in this entry. Its removal from another one may have been lost, if another
/// instance changed that entry at the same time.
fn is_in(host: &Host, autoscaler: &Key, entry: &str) -> bool {
    place_of(host, autoscaler).as_deref() == Some(entry)
}

fn place_of(host: &Host, key: &Key) -> Option<String> {
    host.memo().get(&place_key(key))
}

/// The key of the entry with the selectors that require a label, or with the selectors that require none.
fn entry(namespace: &str, label: Option<(&str, &str)>) -> String {
    match label {
        Some((key, value)) => format!("selectors/{namespace}/{key}={value}"),
        None => format!("selectors/{namespace}"),
    }
}

fn place_key(autoscaler: &Key) -> String {
    format!("place/{autoscaler}")
}
