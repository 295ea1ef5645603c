//! Which version of a plugin reconciles a key, while a candidate takes keys over from the version that runs.
//!
//! Both versions work on the same queues: a worker takes a key, and then asks the [`Split`] whose turn it is. A queue
//! never gives a key to two workers at once, so that no two versions have the same key at once: if a key changes hands
//! while it is processed, its next reconcile is the other version's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_cache::Object;
use flyball_plugin::{CallError, Outcome, Plugin};
use flyball_policy::Step;
use flyball_types::LabelSelector;
use flyball_workqueue::Priority;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use tokio_util::task::AbortOnDropHandle;

use crate::context::PluginContext;
use crate::durations::Durations;
use crate::idle;
use crate::plugin_tasks::TIDY;
use crate::queue::{Queue, Reason};

/// The fewest reconciles of which the slowest hundredth says something.
const FOR_QUANTILES: u64 = 100;
/// After how long a key is tried again that waits for the candidate to be loaded.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// Decides whose turn a key is. Shared by all versions of a plugin.
#[derive(Default)]
pub struct Split {
    /// Whether there is a rule: without one, a reconcile costs one load more.
    is_used: AtomicBool,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    rule: Option<Arc<Rule>>,
    candidate: Option<Arc<Candidate>>,
}

/// The keys that one version takes over from another, and what both have done since the rule is in force.
#[derive(Debug)]
pub struct Rule {
    pub keys: Keys,
    /// The digest of the version that gives keys away. The rule says nothing about others.
    pub running: Arc<str>,
    /// The digest of the version that takes them.
    pub candidate: Arc<str>,
    running_did: Tally,
    candidate_did: Tally,
}

/// A set of a plugin's keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Keys {
    All,
    /// The keys of all of these steps together.
    Of {
        plugin: Arc<str>,
        steps: Vec<Step>,
    },
}

/// A version that takes keys over.
pub struct Candidate {
    plugin: Plugin,
    context: Arc<PluginContext>,
    _tidy: AbortOnDropHandle<()>,
}

/// Whose turn a key is.
pub(crate) enum Turn {
    /// The version's own; no other version takes keys over.
    Own,
    Running(Arc<Rule>),
    Candidate(Arc<Rule>, Arc<Candidate>),
    /// The candidate's, which is not loaded yet.
    Later,
}

/// How a reconcile ended, as far as versions are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub how: How,
    /// The key and the error, if it failed or trapped.
    pub failed: Option<String>,
    pub writes: u64,
    pub took: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Well,
    Failed,
    /// It trapped, or was stopped at a limit.
    Trapped,
    /// Its end says nothing about the version: the host could not run it.
    NotRun,
}

/// What a version has done.
#[derive(Debug, Default)]
struct Tally {
    counts: Mutex<Counts>,
    last_failure: Mutex<Option<String>>,
    took: Durations,
}

/// Numbers of reconciles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    pub calls: u64,
    /// Those that returned an error.
    pub failures: u64,
    /// Those that trapped or were stopped at a limit.
    pub traps: u64,
    /// Writes in all of them.
    pub writes: u64,
}

/// What a version has done, with how long it took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    pub counts: Counts,
    /// The key and the error of the last reconcile that failed or trapped.
    pub last_failure: Option<String>,
    /// In 99 of 100 cases, a reconcile took no longer; none if there were too few to say.
    pub p99: Option<Duration>,
}

impl Split {
    /// Puts a rule in force, or none.
    pub fn set_rule(&self, rule: Option<Arc<Rule>>) {
        let mut state = self.state.write();
        self.is_used.store(rule.is_some(), Ordering::Release);
        state.rule = rule;
    }

    /// Returns the rule that is in force.
    pub fn rule(&self) -> Option<Arc<Rule>> {
        self.state.read().rule.clone()
    }

    /// Lets the candidate take its keys. Before, they wait.
    pub fn attach(&self, candidate: Arc<Candidate>) {
        self.state.write().candidate = Some(candidate);
    }

    /// Gives the candidate no more keys. Its calls end on it.
    pub fn detach(&self) {
        let candidate = self.state.write().candidate.take();
        if let Some(candidate) = candidate {
            // Keys that wait for it go back to their queues.
            candidate.context.limits.quarantine.close();
        }
    }

    /// Gives the candidate no more keys, and stops its writes that have not started.
    pub(crate) fn end(&self) {
        let candidate = self.state.write().candidate.take();
        if let Some(candidate) = candidate {
            candidate.context.limits.quarantine.close();
            candidate.context.limits.stop.end();
        }
    }

    /// Stops the candidate's calls that don't end.
    pub(crate) fn stop(&self) {
        let candidate = self.state.write().candidate.take();
        if let Some(candidate) = candidate {
            candidate.plugin.stop();
        }
    }

    /// Decides whose turn a key is that a worker of the version with the digest `own` has taken. `has_labels` is whether its
    /// object has the labels that a selector selects.
    pub(crate) fn turn(
        &self,
        own: &str,
        key: &str,
        has_labels: impl Fn(&LabelSelector) -> bool,
    ) -> Turn {
        if !self.is_used.load(Ordering::Acquire) {
            return Turn::Own;
        }
        let (rule, candidate) = {
            let state = self.state.read();
            (state.rule.clone(), state.candidate.clone())
        };
        let Some(rule) = rule.filter(|rule| *rule.running == *own) else {
            return Turn::Own;
        };
        let is_candidates = rule.keys.has(key, has_labels);
        match candidate {
            _ if !is_candidates => Turn::Running(rule),
            Some(candidate) => Turn::Candidate(rule, candidate),
            None => Turn::Later,
        }
    }
}

impl Rule {
    pub fn new(keys: Keys, running: &str, candidate: &str) -> Arc<Self> {
        Arc::new(Self {
            keys,
            running: running.into(),
            candidate: candidate.into(),
            running_did: Tally::default(),
            candidate_did: Tally::default(),
        })
    }

    /// Returns what the version that runs and the candidate have done since the rule is in force.
    pub fn measured(&self) -> (Measured, Measured) {
        (self.running_did.measured(), self.candidate_did.measured())
    }

    /// Counts a reconcile of the version that runs; none if it did not begin.
    pub fn count_running(&self, ended: Option<Ended>) {
        self.running_did.add(ended);
    }

    /// Counts a reconcile of the candidate.
    pub fn count_candidate(&self, ended: Option<Ended>) {
        self.candidate_did.add(ended);
    }
}

impl Keys {
    /// Whether a key is in the set. `has_labels` is whether its object has the labels that a selector selects.
    pub fn has(&self, key: &str, has_labels: impl Fn(&LabelSelector) -> bool) -> bool {
        let Self::Of { plugin, steps } = self else {
            return true;
        };
        steps.iter().any(|step| match step {
            Step::Keys(share) => share.has(number(plugin, key)),
            Step::Namespaces { namespaces } => key
                .split_once('/')
                .is_some_and(|(namespace, _)| namespaces.contains(namespace)),
            Step::Selector { selector } => has_labels(selector.selector()),
        })
    }

    fn has_object(&self, key: &str, object: &Object) -> bool {
        self.has(key, |selector| object.labels().match_selector(selector))
    }
}

/// The number by which a key is in a share. It is the same in each process and in each release, and another one for
/// each plugin: otherwise, the same objects would be the first ones everywhere.
fn number(plugin: &str, key: &str) -> u64 {
    let digest = flyball_plugin::digest(format!("{plugin}\n{key}").as_bytes());
    u64::from_str_radix(digest.get(..16).unwrap_or_default(), 16).unwrap_or_default()
}

impl Candidate {
    /// A candidate with a context of its own, on the queues of the version that runs. Must be called in a tokio runtime.
    pub fn new(plugin: Plugin, context: PluginContext) -> Arc<Self> {
        let context = Arc::new(context);
        let (tidied, own) = (context.clone(), plugin.clone());
        let tidy = tokio::spawn(async move {
            loop {
                tokio::time::sleep(TIDY).await;
                tidied.limits.report_dropped();
                own.trim_idle(idle::MOST);
            }
        });
        Arc::new(Self {
            plugin,
            context,
            _tidy: AbortOnDropHandle::new(tidy),
        })
    }

    pub(crate) fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    pub(crate) fn context(&self) -> &Arc<PluginContext> {
        &self.context
    }
}

impl Ended {
    pub(crate) fn of(
        result: &Result<Outcome, CallError>,
        failed: Option<String>,
        writes: u64,
        took: Duration,
    ) -> Self {
        let how = match result {
            Ok(Outcome::Done | Outcome::RequeueAfter(_)) => How::Well,
            Ok(Outcome::Failed(_) | Outcome::Terminal(_)) => How::Failed,
            Err(error) if error.is_of_guest() => How::Trapped,
            Err(_) => How::NotRun,
        };
        Self {
            how,
            failed,
            writes,
            took,
        }
    }
}

impl Tally {
    fn add(&self, ended: Option<Ended>) {
        let Some(ended) = ended.filter(|ended| ended.how != How::NotRun) else {
            return;
        };
        let Ended {
            how,
            failed,
            writes,
            took,
        } = ended;
        self.took.add(took);
        if failed.is_some() {
            *self.last_failure.lock() = failed;
        }
        let mut counts = self.counts.lock();
        counts.calls += 1;
        counts.failures += u64::from(how == How::Failed);
        counts.traps += u64::from(how == How::Trapped);
        counts.writes += writes;
    }

    fn measured(&self) -> Measured {
        let counts = *self.counts.lock();
        let has_enough = counts.calls >= FOR_QUANTILES;
        Measured {
            counts,
            last_failure: self.last_failure.lock().clone(),
            p99: has_enough.then(|| self.took.counts().quantile(0.99)),
        }
    }
}

impl Counts {
    /// Returns what was added since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(before.calls),
            failures: self.failures.saturating_sub(before.failures),
            traps: self.traps.saturating_sub(before.traps),
            writes: self.writes.saturating_sub(before.writes),
        }
    }

    /// Adds the counts of another process.
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            failures: self.failures + other.failures,
            traps: self.traps + other.traps,
            writes: self.writes + other.writes,
        }
    }
}

impl PluginContext {
    /// Whether an object whose key this may be has labels that the selector selects.
    pub(crate) fn has_labels(&self, queue: &str, key: &str, selector: &LabelSelector) -> bool {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let mut kinds = self.kinds_of_keys();
        kinds.any(|(named, kind)| {
            let has_labels = |object: &Object| object.labels().match_selector(selector);
            **named == *queue
                && self
                    .reads
                    .cached
                    .object(kind, namespace, name)
                    .is_some_and(|object| has_labels(&object))
        })
    }

    /// Enqueues the keys of objects that change hands when the candidate's keys change, in the lane of low priority, and
    /// as many keys of the version that runs, so that the two are compared on the same occasion. Returns how many
    /// change hands. Takes a while if the plugin has many objects.
    pub fn enqueue_moved(&self, before: Option<&Keys>, now: Option<&Keys>) -> usize {
        let of = |keys: Option<&Keys>, key: &str, object: &Object| {
            keys.is_some_and(|keys| keys.has_object(key, object))
        };
        let (mut moved, mut others) = (0, Vec::new());
        self.each_key(|queue, key, object| {
            match (of(before, &key, object), of(now, &key, object)) {
                (false, false) if now.is_some() => others.push((queue, key)),
                (was, is) if was != is => {
                    moved += 1;
                    enqueue_moved(queue, key);
                }
                _ => {}
            }
        });
        others.truncate(moved);
        for (queue, key) in others {
            enqueue_moved(queue, key);
        }
        moved
    }

    /// Visits the keys of all objects in the cache, each with its queue.
    fn each_key<'a>(&'a self, mut visit: impl FnMut(&'a Queue, Arc<str>, &Object)) {
        let kinds: Vec<_> = self.kinds_of_keys().collect();
        self.reads.cached.each(|kind, object| {
            for (queue, of_keys) in &kinds {
                if *of_keys == kind
                    && let Ok(queue) = self.queue(queue)
                {
                    visit(queue, object.key().into(), object);
                }
            }
        });
    }
}

fn enqueue_moved(queue: &Queue, key: Arc<str>) {
    queue.keys.add(key, Priority::Low, Reason::Moved.into());
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
