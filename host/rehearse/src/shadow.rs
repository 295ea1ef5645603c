//! A candidate in the shadow of a version: it is called with what the running version was called with, and gets what that
//! one was answered. It writes nothing. What it does otherwise is counted, in groups by how.
//!
//! A call reaches the candidate after it has ended, and one at a time. Calls that the candidate is too slow for are dropped:
//! the running version never waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flyball_plugin::Plugin;
use flyball_recording::{Call, Header, file};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::listeners::Listener;
use crate::replay::replay;

/// The most groups. Further ways to differ count as one.
const GROUPS: usize = 50;
/// The most keys that a group names.
const KEYS: usize = 20;
/// The longest example of a group, in bytes.
const EXAMPLE: usize = 4096;
/// The group of further ways.
const OTHERWISE: &str = "differs in further ways";

/// What a candidate has done with the calls of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Findings {
    /// Calls that it was given.
    pub calls: u64,
    /// Calls in which it did the same.
    pub same: u64,
    /// Calls that it was not given, because it was too slow, or because they were stopped at a limit of time.
    pub left_out: u64,
    /// The others, the most frequent way first.
    pub groups: Vec<Group>,
}

/// The calls that differ in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Group {
    /// The way, such as `writes otherwise: writer.run writes[].body.spec.replicas`.
    pub how: String,
    pub calls: u64,
    /// Some of their keys, or names of the calls.
    pub keys: Vec<String>,
    /// The first of them, for people.
    pub example: String,
}

/// Collects findings.
#[derive(Debug, Default)]
pub struct Shadow {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: u64,
    same: u64,
    left_out: u64,
    /// Counts the calls that the listener drops, also while the candidate is in a call.
    dropped: Arc<AtomicU64>,
    groups: BTreeMap<String, Group>,
}

impl Shadow {
    /// Gives the candidate the calls that a listener hears of, until the running plugin is removed. `header` is that of a
    /// recording of the running plugin with the data of Secrets, and `config` has the candidate's values of the
    /// configuration that the running version does not ask for. Dropping the future ends it.
    pub async fn follow(
        &self,
        candidate: &Plugin,
        header: &Header,
        config: &BTreeMap<String, String>,
        mut listener: Listener,
    ) {
        self.state.lock().dropped = listener.counter();
        while let Some(line) = listener.next().await {
            // The host wrote the line. Parsing takes long for a large one, as its repetition does.
            let parse = move || file::call(&line);
            let Ok(Ok(call)) = tokio::task::spawn_blocking(parse).await else {
                self.state.lock().left_out += 1;
                continue;
            };
            self.give(candidate, header, config, &call).await;
        }
    }

    async fn give(
        &self,
        candidate: &Plugin,
        header: &Header,
        config: &BTreeMap<String, String>,
        call: &Call,
    ) {
        if call.ended.is_by_time() {
            self.state.lock().left_out += 1;
            return;
        }
        match replay(candidate, header, call, config).await {
            Ok(verdict) => {
                let name = call
                    .call
                    .key()
                    .map_or_else(|| call.call.label(), str::to_owned);
                let parted = verdict
                    .parted
                    .map(|parted| (parted.sort(), parted.to_string()));
                self.state.lock().add(&name, parted);
            }
            Err(_) => self.state.lock().left_out += 1,
        }
    }

    /// Returns what was found until now.
    pub fn findings(&self) -> Findings {
        let state = self.state.lock();
        let mut groups: Vec<Group> = state.groups.values().cloned().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.calls));
        Findings {
            calls: state.calls,
            same: state.same,
            left_out: state.left_out + state.dropped.load(Relaxed),
            groups,
        }
    }
}

impl State {
    /// Counts a call. `parted` is how it differs, and where.
    fn add(&mut self, name: &str, parted: Option<(String, String)>) {
        self.calls += 1;
        let Some((how, text)) = parted else {
            self.same += 1;
            return;
        };
        let is_full = self.groups.len() >= GROUPS && !self.groups.contains_key(&how);
        let how = if is_full { OTHERWISE.to_owned() } else { how };
        let group = self.groups.entry(how.clone()).or_insert_with(|| Group {
            how,
            example: format!("{name}: {}", beginning(&text)),
            ..Group::default()
        });
        group.calls += 1;
        if group.keys.len() < KEYS && !group.keys.iter().any(|key| key == name) {
            group.keys.push(name.to_owned());
        }
    }
}

/// The beginning of a text with several lines.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(EXAMPLE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parted(how: &str) -> Option<(String, String)> {
        Some((how.to_owned(), format!("at step 1:\n  {how}")))
    }

    fn findings(calls: &[(&str, Option<(String, String)>)]) -> Findings {
        let shadow = Shadow::default();
        for (name, parted) in calls {
            shadow.state.lock().add(name, parted.clone());
        }
        shadow.findings()
    }

    #[test]
    fn calls_that_differ_alike_are_one_group_and_the_most_frequent_is_first() {
        let found = findings(&[
            ("a/x", None),
            ("a/y", parted("asks more")),
            ("a/z", parted("writes otherwise")),
            ("a/z", parted("writes otherwise")),
        ]);
        assert_eq!((found.calls, found.same), (4, 1));
        assert_eq!(found.groups[0].how, "writes otherwise");
        assert_eq!((found.groups[0].calls, found.groups[0].keys.len()), (2, 1));
        assert_eq!(found.groups[1].example, "a/y: at step 1:\n  asks more");
    }

    #[test]
    fn the_number_of_groups_and_of_keys_is_bounded() {
        let many: Vec<_> = (0..200).map(|number| format!("way {number}")).collect();
        let calls: Vec<_> = many.iter().map(|way| (way.as_str(), parted(way))).collect();
        let found = findings(&calls);
        assert_eq!(found.groups.len(), GROUPS + 1);
        assert_eq!(found.groups[0].how, OTHERWISE);
        assert_eq!(found.groups[0].calls as usize, 200 - GROUPS);
        assert_eq!(found.groups[0].keys.len(), KEYS);
    }
}
