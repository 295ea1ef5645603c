//! The last reconciles of a plugin, their causes and writes, and how long they took. `flyball why` and `flyball status`
//! show them.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use flyball_traces::Trace;
use flyball_types::{Kind, size_of_block};
use flyball_writer::Touched;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::durations::{Durations, RecentDurations};
use crate::object_name::ObjectName;
use crate::queue::Reason;
use crate::trend::{Samples, Totals, Trend, TrendBrief, Usage};

/// How many reconciles are kept.
const KEPT: usize = 512;
/// The bytes of the counts of a shared text.
const SHARED: usize = 2 * size_of::<usize>();

/// The history of one plugin, over all of its versions.
pub struct History {
    recent: Mutex<Recent>,
    last_error: Mutex<Option<Uncured>>,
    reconciles: AtomicU64,
    errors: AtomicU64,
    last_success: Mutex<Option<SystemTime>>,
    took: Durations,
    /// Since the last sample.
    took_recently: RecentDurations,
    pace: Mutex<Pace>,
    samples: Mutex<Samples>,
}

/// The last failure that no success of the same key or of another version followed.
struct Uncured {
    queue: Arc<str>,
    key: Arc<str>,
    failure: Failure,
}

/// The last reconciles.
#[derive(Default)]
struct Recent {
    entries: VecDeque<HistoryEntry>,
    /// The bytes behind the entries.
    bytes: usize,
    /// Reconciles since the start.
    added: u64,
}

/// One reconcile.
pub struct HistoryEntry {
    pub at: SystemTime,
    /// The digest of the version that ran.
    pub digest: Arc<str>,
    pub queue: Arc<str>,
    pub key: Arc<str>,
    pub why: Reason,
    pub coalesced: u32,
    pub attempt: u32,
    pub queued: Duration,
    pub took: Duration,
    /// The error, if it failed.
    pub failed: Option<String>,
    pub wrote: Vec<Touched>,
    /// The trace that it is a part of, if that is recorded.
    pub trace: Option<Trace>,
    /// The trace of `why`, if that is recorded.
    pub cause: Option<Trace>,
}

/// One reconcile, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reconciled {
    /// When it ended, in RFC 3339.
    pub at: String,
    /// The plugin.
    pub plugin: String,
    /// The SHA-256 of the file of the version that ran, in hex.
    #[serde(default)]
    pub digest: String,
    /// The queue.
    pub queue: String,
    /// The key.
    pub key: String,
    /// The first cause.
    pub why: String,
    /// How many more causes there were.
    pub coalesced: u32,
    /// How often it had failed before.
    pub attempt: u32,
    /// How long the key waited, in milliseconds.
    pub queued_ms: f64,
    /// How long it took, in milliseconds.
    pub took_ms: f64,
    /// The error, if it failed.
    pub failed: Option<String>,
    /// The writes of the reconcile, as in `create Pod default/web-1`.
    pub wrote: Vec<String>,
    /// The ID of the trace that it is a part of, in hex, if that is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// Statistics of a plugin's reconciles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Performance {
    /// Reconciles since the host started.
    pub reconciles: u64,
    /// Number of reconciles that failed.
    pub errors: u64,
    /// Reconciles in a second, over the last ten or so.
    pub per_second: f64,
    /// Half of them took no longer than this, in milliseconds, within a fifth.
    pub p50_ms: f64,
    /// In 99 of 100 cases, a reconcile took no longer than this.
    pub p99_ms: f64,
    /// The last failure of a key that has not been reconciled since. None as soon as another version has reconciled a
    /// key.
    #[serde(default)]
    pub last_error: Option<Failure>,
    /// The cause of the last reconcile.
    pub last_why: Option<String>,
}

/// A reconcile that failed, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// When it ended, in RFC 3339.
    pub at: String,
    /// The SHA-256 of the file of the version that ran, in hex.
    pub digest: String,
    /// The key and the error.
    pub message: String,
}

/// The rate of reconciles, as of the last look.
struct Pace {
    looked: Instant,
    reconciles: u64,
    per_second: f64,
}

impl Default for History {
    fn default() -> Self {
        Self {
            recent: Mutex::default(),
            last_error: Mutex::default(),
            reconciles: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            last_success: Mutex::default(),
            took: Durations::default(),
            took_recently: RecentDurations::default(),
            pace: Mutex::new(Pace {
                looked: Instant::now(),
                reconciles: 0,
                per_second: 0.0,
            }),
            samples: Mutex::default(),
        }
    }
}

impl History {
    /// Records a reconcile.
    pub fn add(&self, entry: HistoryEntry) {
        self.reconciles.fetch_add(1, Relaxed);
        self.took.add(entry.took);
        self.took_recently.add(entry.took);
        let (queue, key, digest) = (entry.queue.clone(), entry.key.clone(), entry.digest.clone());
        let has_failed = entry.failed.is_some();
        if has_failed {
            self.errors.fetch_add(1, Relaxed);
            *self.last_error.lock() = entry.failure();
        } else {
            *self.last_success.lock() = Some(entry.at);
        }
        self.recent.lock().add(entry);
        if !has_failed {
            (self.last_error.lock()).take_if(|error| *error.failure.digest != *digest);
            self.cure(|error| error.queue == queue && error.key == key);
        }
    }

    /// Notes that a queue's keys no longer fail, although they were not reconciled.
    pub fn recovered(&self, queue: &str, mut keys: impl Iterator<Item = String>) {
        self.cure(|error| *error.queue == *queue && keys.any(|key| *error.key == *key));
    }

    /// Replaces the last error, if it is cured, by the last one that is not.
    fn cure(&self, is_cured: impl FnOnce(&Uncured) -> bool) {
        let mut last = self.last_error.lock();
        if let Some(cured) = last.take_if(|error| is_cured(error)) {
            *last = self.recent.lock().last_failure_but(&cured);
        }
    }

    /// The bytes that the history takes.
    pub fn bytes(&self) -> usize {
        let recent = self.recent.lock();
        let entries = recent.entries.capacity() * size_of::<HistoryEntry>() + recent.bytes;
        entries + self.samples.lock().bytes()
    }

    /// Takes a sample for the trend. Called every ten seconds or so.
    pub(crate) fn sample(&self, now: SystemTime, usage: Usage) {
        let took = self.took_recently.take();
        let totals = Totals {
            reconciles: self.reconciles.load(Relaxed),
            errors: self.errors.load(Relaxed),
            cpu: usage.cpu,
        };
        let took = [took.quantile(0.5), took.quantile(0.99)];
        self.samples.lock().add(now, totals, took, usage);
    }

    /// Returns the last hour.
    pub fn trend(&self) -> Trend {
        self.samples.lock().trend(SystemTime::now())
    }

    /// Returns the last hour in short.
    pub fn trend_brief(&self) -> TrendBrief {
        self.samples.lock().brief(SystemTime::now())
    }

    /// Computes the rate since the last call. Called every ten seconds or so.
    pub(crate) fn update_rate(&self) {
        let (now, reconciles) = (Instant::now(), self.reconciles.load(Relaxed));
        let mut pace = self.pace.lock();
        let passed = (now - pace.looked).as_secs_f64();
        if passed > 0.0 {
            let per_second = (reconciles - pace.reconciles) as f64 / passed;
            *pace = Pace {
                looked: now,
                reconciles,
                per_second,
            };
        }
    }

    /// When the last reconcile that did not fail ended.
    pub fn last_success(&self) -> Option<SystemTime> {
        *self.last_success.lock()
    }

    pub fn performance(&self) -> Performance {
        let took = self.took.counts();
        let quantile = |share| took.quantile(share).as_secs_f64() * 1e3;
        Performance {
            reconciles: self.reconciles.load(Relaxed),
            errors: self.errors.load(Relaxed),
            per_second: self.pace.lock().per_second,
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            last_error: (self.last_error.lock().as_ref()).map(|last| last.failure.clone()),
            last_why: (self.recent.lock().entries.back()).map(|entry| entry.why.to_string()),
        }
    }

    /// Returns the last reconciles, the oldest first.
    pub fn recent(&self, plugin: &str) -> Vec<Reconciled> {
        let recent = self.recent.lock();
        let entries = recent.entries.iter();
        entries.map(|entry| entry.for_people(plugin)).collect()
    }

    /// Returns the reconciles of an object, caused by it, or that wrote it, the oldest first. `is_key_of` is whether a
    /// queue's keys are objects of a kind that the predicate selects.
    pub fn about(
        &self,
        plugin: &str,
        asked: &ObjectName<'_>,
        is_key_of: impl Fn(&str, &dyn Fn(&Kind) -> bool) -> bool,
    ) -> Vec<Reconciled> {
        let recent = self.recent.lock();
        let is_about = |entry: &&HistoryEntry| entry.is_about(asked, &is_key_of);
        let about = recent.entries.iter().filter(is_about);
        about.map(|entry| entry.for_people(plugin)).collect()
    }

    /// Returns up to `most` of the last reconciles that the predicate selects, the newest first.
    pub fn last(
        &self,
        plugin: &str,
        most: usize,
        is_selected: impl Fn(&HistoryEntry) -> bool,
    ) -> Vec<Reconciled> {
        let recent = self.recent.lock();
        let selected = recent
            .entries
            .iter()
            .rev()
            .filter(|entry| is_selected(entry));
        let selected = selected.take(most);
        selected.map(|entry| entry.for_people(plugin)).collect()
    }

    /// Calls `visit` for each reconcile that is kept, the oldest first, with its number since the start.
    pub(crate) fn visit(&self, mut visit: impl FnMut(u64, &HistoryEntry)) {
        let recent = self.recent.lock();
        let first = recent.added - recent.entries.len() as u64;
        for (number, entry) in (first..).zip(&recent.entries) {
            visit(number, entry);
        }
    }
}

impl Recent {
    fn add(&mut self, entry: HistoryEntry) {
        if self.entries.len() == KEPT {
            let oldest = self.entries.pop_front();
            self.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
        self.bytes += entry.bytes();
        self.added += 1;
        self.entries.push_back(entry);
    }

    /// The last failure of the version whose error was cured, without the failures of keys that were reconciled since.
    fn last_failure_but(&self, cured: &Uncured) -> Option<Uncured> {
        let mut seen = HashSet::from([(&*cured.queue, &*cured.key)]);
        let of_version = |entry: &&HistoryEntry| *entry.digest == *cured.failure.digest;
        let mut entries = self.entries.iter().rev().filter(of_version);
        entries
            .find(|entry| seen.insert((&*entry.queue, &*entry.key)) && entry.failed.is_some())
            .and_then(HistoryEntry::failure)
    }
}

impl HistoryEntry {
    /// Whether it is of an object, caused by it, or wrote it. `is_key_of` is as for [`History::about`].
    pub(crate) fn is_about(
        &self,
        asked: &ObjectName<'_>,
        is_key_of: impl Fn(&str, &dyn Fn(&Kind) -> bool) -> bool,
    ) -> bool {
        let cause = self.why.object();
        let mut wrote = self.wrote.iter();
        cause.is_some_and(|(kind, object)| asked.is(kind, "", object))
            || asked.is_key(&self.key, |is_kind| is_key_of(&self.queue, is_kind))
            || wrote.any(|wrote| asked.is(&wrote.kind, &wrote.subresource, &wrote.key))
    }

    /// The bytes behind it. The names of its queue and version are shared.
    fn bytes(&self) -> usize {
        let why = match &self.why {
            Reason::Delta { object, .. } => object.len(),
            Reason::Requeued { by } => by.len(),
            Reason::Routed { cause } => cause.as_ref().map_or(0, |cause| {
                let object = cause.object().map_or(0, |(_, object)| object.len());
                size_of_block(size_of::<Reason>() + SHARED) + size_of_block(object + SHARED)
            }),
            Reason::Retry | Reason::Tick | Reason::HeldBack | Reason::Resumed | Reason::Moved => 0,
        };
        let wrote = self.wrote.iter().map(|touched| {
            let Touched {
                verb: _,
                kind,
                subresource,
                key,
            } = touched;
            let kind = [&kind.group, &kind.version, &kind.kind];
            let texts = kind.into_iter().chain([subresource, key]);
            texts.map(|text| size_of_block(text.len())).sum::<usize>()
        });
        let failed = self
            .failed
            .as_ref()
            .map_or(0, |failed| size_of_block(failed.len()));
        let wrote = self.wrote.capacity() * size_of::<Touched>() + wrote.sum::<usize>();
        size_of_block(self.key.len() + SHARED) + size_of_block(why + SHARED) + failed + wrote
    }

    fn failure(&self) -> Option<Uncured> {
        let failed = self.failed.as_ref()?;
        Some(Uncured {
            queue: self.queue.clone(),
            key: self.key.clone(),
            failure: Failure {
                at: rfc3339(self.at),
                digest: self.digest.to_string(),
                message: format!("{}: {failed}", self.key),
            },
        })
    }

    pub(crate) fn for_people(&self, plugin: &str) -> Reconciled {
        let ms = |duration: Duration| (duration.as_secs_f64() * 1e5).round() / 1e2;
        Reconciled {
            at: rfc3339(self.at),
            plugin: plugin.to_owned(),
            digest: self.digest.to_string(),
            queue: self.queue.to_string(),
            key: self.key.to_string(),
            why: self.why.to_string(),
            coalesced: self.coalesced,
            attempt: self.attempt,
            queued_ms: ms(self.queued),
            took_ms: ms(self.took),
            failed: self.failed.clone(),
            wrote: self.wrote.iter().map(Touched::to_string).collect(),
            trace: self.trace.as_ref().map(Trace::id),
        }
    }
}

/// A time in RFC 3339, to the millisecond.
pub fn rfc3339(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at)
        .map(|at| format!("{at:.3}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use flyball_cache::Catalogue;
    use flyball_types::description::DeltaType;

    use super::*;

    fn entry(key: &str, took_us: u64) -> HistoryEntry {
        let kind = Arc::new(Kind::new("", "v1", "Pod"));
        HistoryEntry {
            at: SystemTime::UNIX_EPOCH,
            digest: "0123".into(),
            queue: "a".into(),
            key: key.into(),
            why: Reason::Delta {
                kind,
                object: "demo/web-1".into(),
                delta: DeltaType::Added,
            },
            coalesced: 0,
            attempt: 0,
            queued: Duration::ZERO,
            took: Duration::from_micros(took_us),
            failed: None,
            wrote: vec![Touched {
                verb: "create",
                kind: Kind::new("", "v1", "Secret"),
                subresource: String::new(),
                key: "demo/token".into(),
            }],
            trace: None,
            cause: None,
        }
    }

    /// Returns the history about an object, for a plugin whose keys are ReplicaSets.
    fn about(history: &History, object: &str) -> Vec<Reconciled> {
        let own = Kind::new("apps", "v1", "ReplicaSet");
        let served = Catalogue::default();
        history.about("a", &ObjectName::parse(object, &served), |_, is_kind| {
            is_kind(&own)
        })
    }

    #[test]
    fn a_reconcile_is_found_by_its_key_its_cause_and_the_objects_that_it_wrote() {
        let history = History::default();
        history.add(entry("demo/web", 10));
        for (asked, found) in [
            ("web", 1),
            ("demo/web", 1),
            ("web-1", 1),
            ("Pod/demo/web-1", 1),
            ("Secret/demo/token", 1),
            ("Secret/token", 1),
            ("Pod/demo/token", 0),
            ("ReplicaSet/demo/web", 1),
            ("Pod/demo/web", 0),
            ("other/web", 0),
            ("we", 0),
        ] {
            assert_eq!(about(&history, asked).len(), found, "{asked}");
        }
        let told = &about(&history, "web")[0];
        assert_eq!(
            (told.why.as_str(), &told.wrote[0][..]),
            ("Pod demo/web-1 added", "create Secret demo/token")
        );
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let history = History::default();
        for number in 0..KEPT + 10 {
            history.add(entry(&format!("demo/{number}"), 1));
        }
        assert!(about(&history, "demo/9").is_empty());
        assert_eq!(about(&history, "demo/10").len(), 1);
        assert_eq!(history.performance().reconciles, (KEPT + 10) as u64);
    }

    #[test]
    fn the_last_error_is_dropped_once_its_key_or_another_version_reconciles() {
        let history = History::default();
        let ends = |digest: &str, key: &str, failed: Option<&str>| {
            history.add(HistoryEntry {
                digest: digest.into(),
                failed: failed.map(str::to_owned),
                ..entry(key, 1)
            });
            let last = history.performance().last_error;
            last.map(|error| error.message)
        };
        let full = ends("0123", "demo/web", Some("it is full"));
        assert_eq!(full.as_deref(), Some("demo/web: it is full"));
        let error = history.performance().last_error.expect("an error");
        assert_eq!(
            (&*error.at, &*error.digest),
            ("1970-01-01T00:00:00.000Z", "0123")
        );
        assert_eq!(ends("0123", "demo/other", None), full, "of another key");
        assert!(ends("0123", "demo/db", Some("it is closed")).is_some());
        assert_eq!(ends("0123", "demo/db", None), full, "it fails still");
        assert_eq!(ends("0123", "demo/web", None), None);
        assert!(ends("4567", "demo/web", Some("it is closed")).is_some());
        assert_eq!(ends("89ab", "demo/other", None), None);
    }

    #[test]
    fn a_failure_of_route_is_dropped_once_its_object_is_mapped() {
        let history = History::default();
        history.add(HistoryEntry {
            queue: "route".into(),
            failed: Some("no".into()),
            ..entry("demo/web", 1)
        });
        history.recovered("route", ["demo/db".to_owned()].into_iter());
        assert!(history.performance().last_error.is_some());
        history.recovered("route", ["demo/db".into(), "demo/web".into()].into_iter());
        assert_eq!(history.performance().last_error, None);
    }

    #[test]
    fn a_key_that_route_returned_is_found_by_the_object_that_it_was_mapped_from() {
        let history = History::default();
        let cause = entry("demo/web", 1).why;
        for cause in [Some(Arc::new(cause)), None] {
            history.add(HistoryEntry {
                why: Reason::Routed { cause },
                wrote: Vec::new(),
                ..entry("demo/web", 1)
            });
        }
        let told = about(&history, "Pod/demo/web-1");
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].why, "Pod demo/web-1 added, mapped by `route`");
        let told = about(&history, "demo/web");
        assert_eq!(told[1].why, "changes that `route` mapped");
    }
}
