//! The texts that controllers write: the reasons and messages of events, conditions and statuses, from the bodies in the
//! API server's audit log. So they include those of a state that passed before the scenario's end.
//!
//! The texts of stock's controllers are stored in `texts.json` of each controller's folder. A test of `tests/controllers`
//! compares them with the texts in the source of the guests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use flyball_cluster_tests::Cluster;
use flyball_controllers::{Guest, built_in};
use serde_json::Value;

use crate::folders::{Written, controllers};
use crate::generated_names::is_safe_for_names;
use crate::scenario::Scenario;
use crate::writes::ACCOUNTS;

/// The texts of each controller, by its folder. Controllers that share a service account share their texts.
pub type Texts = BTreeMap<&'static str, BTreeSet<String>>;

/// The fields that have texts. `note` is the message of an event in `events.k8s.io`.
const FIELDS: [&str; 3] = ["message", "note", "reason"];
/// The prefix of the message of an event that stands for several similar ones.
const COMBINED: &str = "(combined from similar events): ";
/// The length of a UID.
const UID_LENGTH: usize = 36;
/// The least length of the random or hashed end of a name.
const SHORTEST_SUFFIX: usize = 5;

/// Reads the texts of the controllers from the audit log.
///
/// # Errors
/// The log can't be read.
pub(crate) fn written(cluster: &Cluster) -> Result<Texts> {
    let mut texts = Texts::new();
    cluster.plane.each_audit_event(|event| {
        let user = event["user"]["username"].as_str().unwrap_or_default();
        let mut found = BTreeSet::new();
        collect(&event["requestObject"], &mut found);
        if let Some(account) = user.strip_prefix(ACCOUNTS) {
            for (_, guest) in built_in().filter(|(_, guest)| has_account(guest, account)) {
                texts.entry(guest.folder).or_default().extend(found.clone());
            }
        }
    })?;
    Ok(texts)
}

/// Adds texts to others.
pub fn add(all: &mut Texts, more: Texts) {
    for (folder, texts) in more {
        all.entry(folder).or_default().extend(texts);
    }
}

fn has_account(guest: &Guest, account: &str) -> bool {
    let line = format!("service-account = \"kube-system/{account}\"");
    guest.policy.lines().any(|one| one == line)
}

/// Collects the texts of an object or a patch.
fn collect(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if FIELDS.contains(&name.as_str()) && !text.is_empty() => {
                        found.insert(mask(text.strip_prefix(COMBINED).unwrap_or(text)));
                    }
                    value => collect(value, found),
                }
            }
        }
        _ => {}
    }
}

/// Replaces what is random or depends on timing in a text: UIDs by `UID`, numbers by `N`, the generated ends of names by
/// `*`, and durations of less than a second by `N.Nms`.
fn mask(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((uid, after)) = rest.split_at_checked(UID_LENGTH)
            && is_uid(uid)
        {
            masked += "UID";
            rest = after;
            continue;
        }
        if !masked.ends_with(|before: char| before.is_ascii_alphanumeric())
            && let Some(after) = after_short_duration(rest)
        {
            masked += "N.Nms";
            rest = after;
            continue;
        }
        let is_word = first.is_ascii_alphanumeric();
        let end = rest
            .find(|character: char| character.is_ascii_alphanumeric() != is_word)
            .unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        let is_generated = masked.ends_with('-') && part.len() >= SHORTEST_SUFFIX;
        match (is_word, is_generated && is_safe_for_names(part)) {
            (false, _) => masked += part,
            (true, true) => masked.push('*'),
            (true, false) => mask_numbers(part, &mut masked),
        }
        rest = after;
    }
    masked
}

/// Returns the rest of a text that begins with a duration of less than a second, as Go prints it: `1.5ms`, `12ms` and
/// `80.25µs` are one text to us.
fn after_short_duration(text: &str) -> Option<&str> {
    let number = text.find(|character: char| !character.is_ascii_digit() && character != '.')?;
    let (number, rest) = text.split_at(number);
    let after = ["ms", "µs", "ns"]
        .iter()
        .find_map(|unit| rest.strip_prefix(unit))?;
    let is_whole = !after.starts_with(|next: char| next.is_alphanumeric());
    (number.parse::<f64>().is_ok() && is_whole).then_some(after)
}

fn is_uid(text: &str) -> bool {
    let is_right = |(index, byte): (usize, u8)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == UID_LENGTH && text.bytes().enumerate().all(is_right)
}

fn mask_numbers(word: &str, masked: &mut String) {
    for character in word.chars() {
        match character {
            '0'..='9' if masked.ends_with('N') => {}
            '0'..='9' => masked.push('N'),
            other => masked.push(other),
        }
    }
}

/// Writes stock's texts of the controllers. Those of controllers whose scenarios were not all played are added to the
/// present ones.
///
/// # Errors
/// A file can't be read or written.
pub fn write(texts: &Texts, played: &[Scenario]) -> Result<()> {
    let is_all = Scenario::all()?.len() == played.len();
    for (folder, texts) in texts {
        let mut all = match is_all {
            true => BTreeSet::new(),
            false => read(folder)?,
        };
        all.extend(texts.iter().cloned());
        if all.is_empty() {
            continue;
        }
        let text = serde_json::to_string_pretty(&all)? + "\n";
        // What an earlier release wrote is among the current texts, except where it differs.
        file(folder)?.write(&text, |current| {
            serde_json::from_slice(current)
                .is_ok_and(|current: BTreeSet<String>| all.is_subset(&current))
        })?;
    }
    Ok(())
}

/// Reads stock's texts of a controller; none if there is no file.
fn read(folder: &str) -> Result<BTreeSet<String>> {
    let written = file(folder)?;
    let path = written.to_read();
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error).context(format!("can't read {}", path.display())),
    };
    serde_json::from_slice(&text).with_context(|| format!("{} is not valid", path.display()))
}

fn file(folder: &str) -> Result<Written> {
    Written::beside(&controllers().join(folder), "texts")
}

/// Returns our texts that no controller of stock wrote in any scenario, with the controller, except those that the known
/// differences contain. A single scenario isn't compared, because which states are seen on the way depends on timing.
///
/// # Errors
/// A file can't be read.
pub(crate) fn unknown(ours: &Texts, known: &[String]) -> Result<Vec<String>> {
    let mut stock = BTreeSet::new();
    for (_, guest) in built_in() {
        stock.extend(read(guest.folder)?);
    }
    let known: Vec<String> = known.iter().map(|difference| mask(difference)).collect();
    let is_known = |text: &str| known.iter().any(|difference| difference.contains(text));
    let mut unknown = Vec::new();
    for (folder, texts) in ours {
        for text in texts.difference(&stock).filter(|text| !is_known(text)) {
            unknown.push(format!("{folder}: stock never wrote the text {text:?}"));
        }
    }
    Ok(unknown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_found_in_events_statuses_and_patches() {
        let texts = |object: Value| {
            let mut found = BTreeSet::new();
            collect(&object, &mut found);
            Vec::from_iter(found)
        };
        let event = json!({"kind": "Event", "reason": "SuccessfulCreate", "message": "Created pod: web-x2b4z"});
        assert_eq!(texts(event), ["Created pod: web-*", "SuccessfulCreate"]);
        let status =
            json!({"status": {"conditions": [{"type": "Ready", "reason": "Up", "message": ""}]}});
        assert_eq!(texts(status), ["Up"]);
        let patch =
            json!([{"op": "add", "path": "/status/conditions/-", "value": {"reason": "Down"}}]);
        assert_eq!(texts(patch), ["Down"]);
    }

    #[test]
    fn numbers_and_generated_ends_of_names_are_masked() {
        for (text, masked) in [
            (
                "Scaled up replica set web-6b9f7d5c8 from 0 to 12",
                "Scaled up replica set web-* from N to N",
            ),
            (
                "(combined from similar events): x",
                "(combined from similar events): x",
            ),
            ("Deleted pod: web-0", "Deleted pod: web-N"),
            ("uid: 0f0e3a9c-dced-4d7b-8ef1-e2c4a5b6d7f8]", "uid: UID]"),
            ("took 1m30s", "took NmNs"),
            ("after 12ms: x", "after N.Nms: x"),
            ("after 80.25µs", "after N.Nms"),
            ("v1ms, 1.2.3.4/5, 3msg", "vNms, N.N.N.N/N, Nmsg"),
            ("user-name", "user-name"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }
}
