//! The canaries as they are stored, so that they go on with the next process, and the ones in force, by which the
//! workers of this process decide whose turn a key is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flyball_policy::Rollout;
use flyball_runtime::split::{Counts, Keys, Rule, Split};
use flyball_types::printable;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::plugins::load::LoadedPlugin;

/// The most canaries that are remembered. A lease's annotations have 256 KiB at most, and a canary takes about 1 KiB.
const MAX_CANARIES: usize = 100;

/// All canaries, by the plugin's name. A plugin has one at most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Canaries(BTreeMap<String, Canary>);

/// A candidate that takes over the keys of a plugin, or has done so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Canary {
    /// The version that gives keys away.
    pub(crate) running: NamedVersion,
    pub(crate) candidate: NamedVersion,
    pub(crate) origin: CandidateOrigin,
    /// Whether the policy names the candidate. Otherwise, an operator has started it.
    pub(crate) by_policy: bool,
    pub(crate) rollout: Rollout,
    pub(crate) position: Position,
    /// When it reached its position, in RFC 3339.
    pub(crate) since: String,
    /// How long the step has lasted, without the time in which no candidate could run.
    #[serde(default)]
    pub(crate) elapsed_ms: u64,
    /// What both versions have done in the step.
    #[serde(default)]
    pub(crate) running_did: Counts,
    #[serde(default)]
    pub(crate) candidate_did: Counts,
}

/// A version of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedVersion {
    /// The SHA-256 of its file, in hex.
    pub digest: String,
    /// The version in its description.
    pub version: String,
}

impl NamedVersion {
    pub(crate) fn of(plugin: &LoadedPlugin) -> Self {
        Self {
            digest: plugin.digest.clone(),
            version: printable(&plugin.description.version),
        }
    }
}

/// Where a candidate comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CandidateOrigin {
    File(PathBuf),
    /// The address of a package, pinned to its digest.
    Package(String),
}

/// How far a canary has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// The candidate has the keys of the steps up to this one, from 0.
    Step(usize),
    /// The candidate has all keys, or has become the version that runs.
    Promoted,
    /// The candidate has no keys any more. The reason is a sentence.
    WentBack(String),
}

impl Canaries {
    pub(crate) fn of(&self, plugin: &str) -> Option<&Canary> {
        self.0.get(plugin)
    }

    pub(crate) fn of_mut(&mut self, plugin: &str) -> Option<&mut Canary> {
        self.0.get_mut(plugin)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Canary)> {
        self.0.iter()
    }

    /// Adds a canary, in place of an ended one. Fails with a sentence if there are too many.
    pub(crate) fn add(&mut self, plugin: &str, canary: Canary) -> Result<(), String> {
        if !self.0.contains_key(plugin) && self.0.len() >= MAX_CANARIES {
            let ended = self.0.iter().find(|(_, canary)| !canary.is_active());
            let ended = ended.map(|(name, _)| name.clone());
            let ended = ended.ok_or_else(|| {
                format!("{MAX_CANARIES} plugins have a canary already: wait until one has ended")
            })?;
            self.0.remove(&ended);
        }
        self.0.insert(plugin.to_owned(), canary);
        Ok(())
    }

    /// Reads the text of stored canaries. One that this host can't read, for example of a newer one, is none.
    fn read(text: Option<&str>) -> Self {
        let Some(text) = text else {
            return Self::default();
        };
        serde_json::from_str(text).unwrap_or_else(|error| {
            tracing::warn!(%error, "can't read the stored canaries: no plugin has one");
            Self::default()
        })
    }

    /// The text that is stored; none if there are none.
    pub(crate) fn text(&self) -> Option<String> {
        // Only maps with other keys than texts fail.
        (!self.0.is_empty()).then(|| serde_json::to_string(self).unwrap_or_default())
    }
}

impl Canary {
    /// Whether the candidate has keys.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.position, Position::WentBack(_))
    }

    /// The number of the step, from 0; none if it is at none.
    pub(crate) fn step(&self) -> Option<usize> {
        match self.position {
            // The operator may have removed steps.
            Position::Step(step) => Some(step.min(self.rollout.steps.0.len().saturating_sub(1))),
            Position::Promoted | Position::WentBack(_) => None,
        }
    }

    /// The keys of the candidate; none if it has none.
    pub(crate) fn keys(&self, plugin: &str) -> Option<Keys> {
        match (&self.position, self.step()) {
            (Position::WentBack(_), _) => None,
            (_, Some(step)) => Some(Keys::Of {
                plugin: plugin.into(),
                steps: self.rollout.steps.0[..=step].to_vec(),
            }),
            (_, None) => Some(Keys::All),
        }
    }

    /// Moves it to a position, where nothing has been done yet.
    pub(crate) fn move_to(&mut self, position: Position, now: String) {
        self.position = position;
        self.since = now;
        self.elapsed_ms = 0;
        (self.running_did, self.candidate_did) = (Counts::default(), Counts::default());
    }

    /// The position after this one.
    pub(crate) fn next(&self) -> Position {
        match self.step() {
            Some(step) if step + 1 < self.rollout.steps.0.len() => Position::Step(step + 1),
            _ => Position::Promoted,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms)
    }
}

/// The canaries that are stored, and so in force. Shared by the supervisor, the elector and the plugins.
#[derive(Default)]
pub(crate) struct InForce {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    canaries: Canaries,
    /// The splits of all plugins that have run.
    splits: BTreeMap<String, Arc<Split>>,
}

impl InForce {
    /// Puts stored canaries in force. From here on, workers follow them.
    pub(crate) fn apply(&self, text: Option<&str>) {
        let canaries = Canaries::read(text);
        {
            let mut state = self.state.lock();
            for (plugin, split) in &state.splits {
                follow(split, plugin, &canaries);
            }
            state.canaries = canaries;
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Returns the canaries in force.
    pub(crate) fn canaries(&self) -> Canaries {
        self.state.lock().canaries.clone()
    }

    /// Returns the split of a plugin, which all of its versions share.
    pub(crate) fn split(&self, plugin: &str) -> Arc<Split> {
        let mut state = self.state.lock();
        let State { canaries, splits } = &mut *state;
        let split = splits.entry(plugin.to_owned()).or_insert_with(|| {
            let split = Arc::<Split>::default();
            follow(&split, plugin, canaries);
            split
        });
        split.clone()
    }

    /// Reports each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// Puts the rule of a plugin's canary in force. A rule that has not changed goes on, with what it has counted.
fn follow(split: &Split, plugin: &str, canaries: &Canaries) {
    let canary = canaries.of(plugin);
    let wanted = canary.and_then(|canary| Some((canary, canary.keys(plugin)?)));
    let is_same = match (&wanted, split.rule()) {
        (None, None) => true,
        (Some((canary, keys)), Some(rule)) => {
            rule.keys == *keys
                && *rule.running == *canary.running.digest
                && *rule.candidate == *canary.candidate.digest
        }
        _ => false,
    };
    if !is_same {
        split.set_rule(wanted.map(|(canary, keys)| {
            Rule::new(keys, &canary.running.digest, &canary.candidate.digest)
        }));
    }
}

impl CandidateOrigin {
    /// The origin that a policy names by a file or by a package.
    pub(crate) fn named(file: Option<&PathBuf>, source: Option<&String>) -> Option<Self> {
        let package = || source.cloned().map(Self::Package);
        file.cloned().map(Self::File).or_else(package)
    }
}

impl std::fmt::Display for CandidateOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Package(source) => f.write_str(source),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn canary(position: Position) -> Canary {
        let version = |digest: &str| NamedVersion {
            digest: digest.into(),
            version: "1".into(),
        };
        Canary {
            running: version("old"),
            candidate: version("new"),
            origin: CandidateOrigin::File("/tmp/new.wasm".into()),
            by_policy: false,
            rollout: Rollout::default(),
            position,
            since: String::new(),
            elapsed_ms: 0,
            running_did: Counts::default(),
            candidate_did: Counts::default(),
        }
    }

    fn text(canary: Canary) -> String {
        let mut canaries = Canaries::default();
        canaries.add("greeter", canary).unwrap();
        canaries.text().unwrap()
    }

    #[test]
    fn a_canary_goes_through_its_steps_to_all_keys() {
        let mut at = canary(Position::Step(0));
        let mut seen = Vec::new();
        while at.position != Position::Promoted {
            let Some(Keys::Of { steps, .. }) = at.keys("greeter") else {
                panic!("a step has some keys");
            };
            seen.push(steps.len());
            at.elapsed_ms = 5;
            let next = at.next();
            at.move_to(next, "now".into());
            assert_eq!(at.elapsed_ms, 0);
        }
        assert_eq!((seen, at.keys("greeter")), (vec![1, 2, 3], Some(Keys::All)));
        at.move_to(Position::WentBack("it failed".into()), "now".into());
        assert_eq!((at.keys("greeter"), at.is_active()), (None, false));
        // The operator has removed steps meanwhile.
        let at = canary(Position::Step(7));
        assert_eq!((at.step(), at.next()), (Some(2), Position::Promoted));
    }

    #[test]
    fn a_process_that_reads_the_stored_text_goes_on_where_another_was() {
        let mut stored = canary(Position::Step(1));
        stored.elapsed_ms = 90_000;
        stored.candidate_did.calls = 7;
        let in_force = InForce::default();
        let early = in_force.split("greeter");
        in_force.apply(Some(&text(stored.clone())));
        assert_eq!(in_force.canaries().of("greeter"), Some(&stored));
        let late = in_force.split("greeter");
        assert!(Arc::ptr_eq(&early, &late));
        let rule = early.rule().unwrap();
        assert_eq!(Some(rule.keys.clone()), stored.keys("greeter"));
        assert!(in_force.split("other").rule().is_none());
    }

    #[test]
    fn a_rule_keeps_what_it_has_counted_until_its_keys_change() {
        let in_force = InForce::default();
        let split = in_force.split("greeter");
        let mut stored = canary(Position::Step(0));
        in_force.apply(Some(&text(stored.clone())));
        let first = split.rule().unwrap();
        stored.elapsed_ms = 1000;
        in_force.apply(Some(&text(stored.clone())));
        assert!(Arc::ptr_eq(&first, &split.rule().unwrap()));
        stored.move_to(Position::Step(1), String::new());
        in_force.apply(Some(&text(stored)));
        assert!(!Arc::ptr_eq(&first, &split.rule().unwrap()));
        for none in [None, Some("of a newer host")] {
            in_force.apply(none);
            assert!(split.rule().is_none());
        }
    }

    #[test]
    fn an_ended_canary_makes_room_for_another_and_an_active_one_does_not() {
        let mut canaries = Canaries::default();
        for number in 0..MAX_CANARIES {
            let added = canaries.add(&format!("p{number}"), canary(Position::Step(0)));
            added.unwrap();
        }
        assert!(canaries.add("more", canary(Position::Step(0))).is_err());
        let went_back = Position::WentBack("it failed".into());
        canaries.add("p7", canary(went_back)).unwrap();
        canaries.add("more", canary(Position::Step(0))).unwrap();
        assert!(canaries.of("p7").is_none() && canaries.of("more").is_some());
        assert!(canaries.text().unwrap().len() < 128 * 1024);
    }
}
