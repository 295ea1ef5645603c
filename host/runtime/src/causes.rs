//! The chain of causes of an object: what changed, which key was reconciled for it, what that wrote, and what that caused
//! in turn, in whichever plugin.
//!
//! A reconcile is queued for a change that came from the API server like any other. With traces, its cause is known: the
//! trace of the change names the reconcile whose write led to it, or none if somebody else made it. Without traces, or in
//! one that is not recorded, it is inferred from what is known of both: the reconcile was queued for a change of the object
//! that was written, and this while the writing reconcile ran or up to ten seconds after it. If several wrote the object,
//! the last one counts.
//!
//! An example: deployment-controller reconciles `demo/web` and writes `update ReplicaSet demo/web-1`. A moment later,
//! replicaset-controller reconciles `demo/web-1` because `ReplicaSet demo/web-1 modified`: the second step is `from` the
//! first.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flyball_traces::{Trace, WorkId};
use flyball_types::Kind;
use serde::{Deserialize, Serialize};

use crate::history::{History, HistoryEntry, Reconciled};
use crate::object_name::ObjectName;
use crate::queue::Reason;

/// How long after a write its change is queued at the latest.
const LAG: Duration = Duration::from_secs(10);
/// How many links are followed in each direction.
const DEPTH: usize = 6;
/// The most steps of a chain.
const MOST: usize = 200;

/// The history of one plugin, and what the keys of its queues are.
pub struct PluginHistory {
    pub plugin: String,
    pub history: Arc<History>,
    /// The queues whose keys are objects, with the kinds.
    pub kinds: Vec<(Arc<str>, Kind)>,
}

impl std::fmt::Debug for PluginHistory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("PluginHistory");
        shown.field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

/// What is known of the causes and effects of an object's reconciles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// The oldest first.
    pub steps: Vec<Step>,
    /// Whether further steps were left out.
    pub truncated: bool,
}

/// A reconcile in a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Identifies the step in its chain.
    pub id: usize,
    #[serde(flatten)]
    pub reconciled: Reconciled,
    /// When the guest was called, in milliseconds since 1970.
    pub start_ms: f64,
    /// The object whose change is the cause, as in `Pod/demo/web-1`.
    pub cause: Option<String>,
    /// The objects that were written.
    pub objects: Vec<Written>,
    /// Whether it is about the object that was asked for; others are causes or effects.
    pub about: bool,
    /// The step that caused it, if it is known.
    pub from: Option<usize>,
    /// How that one caused it.
    pub link: Option<Link>,
}

/// How a step caused another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// It wrote the object whose change was queued.
    Write,
    /// It failed, and its key was tried again.
    Retry,
    /// It asked for the key.
    Requeue,
}

/// An object that a step wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    pub verb: String,
    pub kind: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// `namespace/name`, or the name alone.
    pub key: String,
}

/// A reconcile: the number of its plugin among the histories, and its number since the plugin's start.
type Id = (usize, u64);

/// A reconcile that was found.
struct Found {
    reconciled: Reconciled,
    times: Times,
    why: Reason,
    /// Its own work, if its trace is recorded.
    work: Option<WorkId>,
    /// The work that led to the change that it was queued for, as its trace has it.
    traced: Option<Traced>,
    wrote: Vec<u64>,
    objects: Vec<Written>,
    about: bool,
    /// How many links it is away from those that were asked for.
    depth: usize,
    /// The reconcile that caused it.
    from: Option<(Id, Link)>,
}

/// When a reconcile was queued, began and ended.
#[derive(Clone, Copy, Debug)]
struct Times {
    queued: SystemTime,
    start: SystemTime,
    end: SystemTime,
}

/// The cause of a change that a trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traced {
    Work(WorkId),
    /// Somebody else made the change.
    Others,
}

/// What may have caused a reconcile: the work that its trace names, or hashes of the objects that a write touched, or of
/// the key of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    Work(WorkId),
    Object(u64),
    Key(u64),
}

/// Follows the causes and effects of the reconciles of an object through all histories.
pub fn chain(histories: &[PluginHistory], asked: &ObjectName<'_>) -> Chain {
    let mut found = BTreeMap::new();
    let mut truncated = false;
    visit(histories, |id, of, entry| {
        if entry.is_about(asked, |queue, is_kind| of.is_key_of(queue, is_kind)) {
            found.insert(id, Found::new(of, entry, true, 0));
        }
    });
    truncated |= keep_last(&mut found);
    for depth in 1..=DEPTH {
        // What is left out has causes and effects, too: a longer search finds nothing that is shown.
        if truncated {
            break;
        }
        let effects = effects(histories, &found, depth);
        let causes = causes(histories, &mut found, depth);
        if effects.is_empty() && causes.is_empty() {
            break;
        }
        for (id, more) in effects.into_iter().chain(causes) {
            found.entry(id).or_insert(more);
        }
        truncated |= keep_last(&mut found);
    }
    // The causes of the last ones, as far as they are in the chain.
    causes(histories, &mut found, DEPTH + 1);
    Chain {
        steps: steps(found),
        truncated,
    }
}

fn visit(histories: &[PluginHistory], mut visit: impl FnMut(Id, &PluginHistory, &HistoryEntry)) {
    for (plugin, of) in histories.iter().enumerate() {
        of.history
            .visit(|number, entry| visit((plugin, number), of, entry));
    }
}

/// Returns the reconciles that the last ones found may have caused by their writes.
fn effects(
    histories: &[PluginHistory],
    found: &BTreeMap<Id, Found>,
    depth: usize,
) -> Vec<(Id, Found)> {
    let mut writes: HashMap<u64, Vec<Times>> = HashMap::new();
    let mut works: HashSet<WorkId> = HashSet::new();
    for found in found.values().filter(|found| found.depth + 1 == depth) {
        works.extend(found.work);
        for object in &found.wrote {
            writes.entry(*object).or_default().push(found.times);
        }
    }
    let mut effects = Vec::new();
    if writes.is_empty() {
        return effects;
    }
    visit(histories, |id, of, entry| {
        let Some((kind, object)) = entry.why.object() else {
            return;
        };
        let is_effect = match Traced::of(entry) {
            Some(Traced::Work(work)) => works.contains(&work),
            Some(Traced::Others) => false,
            None => {
                let times = Times::of(entry);
                let writes = writes.get(&object_hash(kind, object));
                let mut writes = writes.into_iter().flatten();
                writes.any(|write| times.may_follow(*write))
            }
        };
        if is_effect && !found.contains_key(&id) {
            effects.push((id, Found::new(of, entry, false, depth)));
        }
    });
    effects
}

/// Finds the causes of all reconciles without a known one, and returns those that were not found before, except for
/// those that are too far away.
fn causes(
    histories: &[PluginHistory],
    found: &mut BTreeMap<Id, Found>,
    depth: usize,
) -> Vec<(Id, Found)> {
    let mut effects: HashMap<Origin, Vec<Id>> = HashMap::new();
    for (id, found) in found.iter().filter(|(_, found)| found.from.is_none()) {
        if let Some((origin, _)) = found.origin(id.0) {
            effects.entry(origin).or_default().push(*id);
        }
    }
    // The last reconcile that may be the cause of each.
    let mut last: BTreeMap<Id, (SystemTime, Id)> = BTreeMap::new();
    let mut copies: BTreeMap<Id, Found> = BTreeMap::new();
    visit(histories, |id, of, entry| {
        let wrote = entry.wrote.iter();
        let objects = wrote.map(|one| Origin::Object(object_hash(&one.kind, &one.key)));
        let key = Origin::Key(key_hash(id.0, &entry.key));
        let work = entry.trace.as_ref().and_then(Trace::as_work);
        let origins: BTreeSet<&Id> = objects
            .chain([key])
            .chain(work.map(Origin::Work))
            .filter_map(|origin| effects.get(&origin))
            .flatten()
            .collect();
        let times = Times::of(entry);
        for effect in origins {
            let Some(caused) = found.get(effect) else {
                continue;
            };
            let is_cause = *effect != id && caused.may_follow(times);
            let is_later = last
                .get(effect)
                .is_none_or(|(start, _)| times.start > *start);
            if is_cause && is_later {
                last.insert(*effect, (times.start, id));
                if !found.contains_key(&id) && depth <= DEPTH {
                    let copy = || Found::new(of, entry, false, depth);
                    copies.entry(id).or_insert_with(copy);
                }
            }
        }
    });
    let mut needed = BTreeSet::new();
    for (effect, (_, cause)) in last {
        if !found.contains_key(&cause) && !copies.contains_key(&cause) {
            continue;
        }
        if let Some(caused) = found.get_mut(&effect) {
            caused.from = caused.origin(effect.0).map(|(_, link)| (cause, link));
            needed.insert(cause);
        }
    }
    copies.retain(|id, _| needed.contains(id));
    copies.into_iter().collect()
}

/// Drops the oldest reconciles beyond the most that a chain has. Returns whether there were too many.
fn keep_last(found: &mut BTreeMap<Id, Found>) -> bool {
    let more = found.len().saturating_sub(MOST);
    if more > 0 {
        let mut ids: Vec<(SystemTime, Id)> = found
            .iter()
            .map(|(id, found)| (found.times.start, *id))
            .collect();
        ids.sort();
        for (_, id) in ids.into_iter().take(more) {
            found.remove(&id);
        }
    }
    more > 0
}

fn steps(found: BTreeMap<Id, Found>) -> Vec<Step> {
    let mut sorted: Vec<(Id, Found)> = found.into_iter().collect();
    sorted.sort_by_key(|(id, found)| (found.times.start, *id));
    let numbers = sorted.iter().enumerate();
    let numbers: HashMap<Id, usize> = numbers.map(|(at, (id, _))| (*id, at)).collect();
    let step = |(at, (_, found)): (usize, (Id, Found))| {
        let from = found
            .from
            .and_then(|(id, link)| Some((*numbers.get(&id)?, link)));
        let cause = found.why.object();
        Step {
            id: at,
            start_ms: milliseconds(found.times.start),
            cause: cause.map(|(kind, object)| format!("{}/{object}", kind.kind)),
            reconciled: found.reconciled,
            objects: found.objects,
            about: found.about,
            from: from.map(|(id, _)| id),
            link: from.map(|(_, link)| link),
        }
    };
    sorted.into_iter().enumerate().map(step).collect()
}

impl PluginHistory {
    fn is_key_of(&self, queue: &str, is_kind: &dyn Fn(&Kind) -> bool) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|(named, kind)| **named == *queue && is_kind(kind))
    }
}

impl Found {
    fn new(of: &PluginHistory, entry: &HistoryEntry, about: bool, depth: usize) -> Self {
        let wrote = entry.wrote.iter();
        Self {
            reconciled: entry.for_people(&of.plugin),
            times: Times::of(entry),
            why: entry.why.clone(),
            work: entry.trace.as_ref().and_then(Trace::as_work),
            traced: Traced::of(entry),
            wrote: wrote
                .clone()
                .map(|one| object_hash(&one.kind, &one.key))
                .collect(),
            objects: wrote
                .map(|one| Written {
                    verb: one.verb.to_owned(),
                    kind: one.kind.kind.clone(),
                    subresource: one.subresource.clone(),
                    key: one.key.clone(),
                })
                .collect(),
            about,
            depth,
            from: None,
        }
    }

    /// Returns what may have caused it. `plugin` is its plugin's number.
    fn origin(&self, plugin: usize) -> Option<(Origin, Link)> {
        match &self.why {
            Reason::Requeued { by } => Some((Origin::Key(key_hash(plugin, by)), Link::Requeue)),
            Reason::Retry => {
                let key = key_hash(plugin, &self.reconciled.key);
                Some((Origin::Key(key), Link::Retry))
            }
            why => {
                let (kind, object) = why.object()?;
                let origin = match self.traced {
                    Some(Traced::Work(work)) => Origin::Work(work),
                    Some(Traced::Others) => return None,
                    None => Origin::Object(object_hash(kind, object)),
                };
                Some((origin, Link::Write))
            }
        }
    }

    /// Whether a reconcile at these times may have caused it.
    fn may_follow(&self, cause: Times) -> bool {
        match self.why {
            // A retry waits for its backoff, a requeue as long as the guest asked for.
            Reason::Retry | Reason::Requeued { .. } => cause.end <= self.times.start,
            _ => self.traced.is_some() || self.times.may_follow(cause),
        }
    }
}

impl Traced {
    /// None if the reconcile was not queued for a change, or if the trace of the change is not recorded.
    fn of(entry: &HistoryEntry) -> Option<Self> {
        entry.why.object()?;
        let cause = entry.cause.as_ref()?;
        Some(cause.work().map_or(Self::Others, Self::Work))
    }
}

impl Times {
    fn of(entry: &HistoryEntry) -> Self {
        let before = |at: SystemTime, by| at.checked_sub(by).unwrap_or(UNIX_EPOCH);
        let start = before(entry.at, entry.took);
        Self {
            queued: before(start, entry.queued),
            start,
            end: entry.at,
        }
    }

    /// Whether a change that was written at these times may have been queued at this one's.
    fn may_follow(self, write: Self) -> bool {
        write.start <= self.queued && self.queued <= write.end + LAG
    }
}

/// Objects are compared without the version of their kind, since a plugin may write another one than is watched.
fn object_hash(kind: &Kind, key: &str) -> u64 {
    hash((&kind.group, &kind.kind, key))
}

fn key_hash(plugin: usize, key: &str) -> u64 {
    hash((plugin, key))
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn milliseconds(at: SystemTime) -> f64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests;
