//! The last reconciles of a plugin, their causes and writes, and how long they took. `flyball why` and `flyball status`
//! show them.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use flyball_types::{Kind, size_of_block};
use flyball_writer::Touched;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::object_name::ObjectName;
use crate::queue::Reason;

/// How many reconciles are kept.
const KEPT: usize = 512;
/// The bytes of the counts of a shared text.
const SHARED: usize = 2 * size_of::<usize>();
/// Buckets of durations in each power of two of microseconds.
const FINENESS: u32 = 4;
const BUCKETS: usize = 40 * FINENESS as usize;

/// The history of one plugin, over all of its versions.
pub struct History {
    recent: Mutex<Recent>,
    last_error: Mutex<Option<Uncured>>,
    reconciles: AtomicU64,
    errors: AtomicU64,
    last_success: Mutex<Option<SystemTime>>,
    took: [AtomicU64; BUCKETS],
    pace: Mutex<Pace>,
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
}

/// One reconcile, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reconciled {
    /// When it ended, in RFC 3339.
    pub at: String,
    /// The plugin.
    pub plugin: String,
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
            took: [const { AtomicU64::new(0) }; BUCKETS],
            pace: Mutex::new(Pace {
                looked: Instant::now(),
                reconciles: 0,
                per_second: 0.0,
            }),
        }
    }
}

impl History {
    /// Records a reconcile.
    pub fn add(&self, entry: HistoryEntry) {
        self.reconciles.fetch_add(1, Relaxed);
        self.took[bucket(entry.took)].fetch_add(1, Relaxed);
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
        recent.entries.capacity() * size_of::<HistoryEntry>() + recent.bytes
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
        let took: Vec<u64> = self.took.iter().map(|count| count.load(Relaxed)).collect();
        let all: u64 = took.iter().sum();
        let quantile = |share: f64| {
            let mut left = (all as f64 * share).ceil() as u64;
            let found = took.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            found
                .filter(|_| all > 0)
                .map_or(0.0, |bucket| upper(bucket).as_secs_f64() * 1e3)
        };
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

    /// Returns the reconciles of an object, caused by it, or that wrote it, the oldest first. `is_key_of` is whether a
    /// queue's keys are objects of a kind that the predicate selects.
    pub fn about(
        &self,
        plugin: &str,
        asked: &ObjectName<'_>,
        is_key_of: impl Fn(&str, &dyn Fn(&Kind) -> bool) -> bool,
    ) -> Vec<Reconciled> {
        let recent = self.recent.lock();
        let is_about = |entry: &&HistoryEntry| {
            let cause = entry.why.object();
            cause.is_some_and(|(kind, object)| asked.is(kind, "", object))
                || asked.is_key(&entry.key, |is_kind| is_key_of(&entry.queue, is_kind))
                || (entry.wrote.iter())
                    .any(|wrote| asked.is(&wrote.kind, &wrote.subresource, &wrote.key))
        };
        let about = recent.entries.iter().filter(is_about);
        about.map(|entry| entry.for_people(plugin)).collect()
    }
}

impl Recent {
    fn add(&mut self, entry: HistoryEntry) {
        if self.entries.len() == KEPT {
            let oldest = self.entries.pop_front();
            self.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
        self.bytes += entry.bytes();
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
    /// The bytes behind it. The names of its queue and version are shared.
    fn bytes(&self) -> usize {
        let why = match &self.why {
            Reason::Delta { object, .. } => object.len(),
            Reason::Requeued { by } => by.len(),
            Reason::Routed { cause } => cause.as_ref().map_or(0, |cause| {
                let object = cause.object().map_or(0, |(_, object)| object.len());
                size_of_block(size_of::<Reason>() + SHARED) + size_of_block(object + SHARED)
            }),
            Reason::Retry | Reason::Tick | Reason::HeldBack | Reason::Resumed => 0,
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

    fn for_people(&self, plugin: &str) -> Reconciled {
        let ms = |duration: Duration| (duration.as_secs_f64() * 1e5).round() / 1e2;
        Reconciled {
            at: rfc3339(self.at),
            plugin: plugin.to_owned(),
            queue: self.queue.to_string(),
            key: self.key.to_string(),
            why: self.why.to_string(),
            coalesced: self.coalesced,
            attempt: self.attempt,
            queued_ms: ms(self.queued),
            took_ms: ms(self.took),
            failed: self.failed.clone(),
            wrote: self.wrote.iter().map(Touched::to_string).collect(),
        }
    }
}

/// A time in RFC 3339, to the millisecond.
fn rfc3339(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at)
        .map(|at| format!("{at:.3}"))
        .unwrap_or_default()
}

fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    let octave = micros.ilog2();
    let within = if octave >= 2 {
        (micros >> (octave - 2)) & 3
    } else {
        (micros << (2 - octave)) & 3
    };
    ((octave * FINENESS) as usize + within as usize).min(BUCKETS - 1)
}

/// Returns the longest duration of a bucket.
fn upper(bucket: usize) -> Duration {
    let (octave, within) = (
        bucket as u32 / FINENESS,
        bucket as u64 % u64::from(FINENESS),
    );
    Duration::from_nanos(((5 + within) * 1000) << octave >> 2)
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

    #[test]
    fn quantiles_are_within_a_fifth_of_the_exact_ones() {
        let history = History::default();
        for took in 1..=1000 {
            history.add(entry("demo/web", took));
        }
        let performance = history.performance();
        assert!((0.5..0.63).contains(&performance.p50_ms), "{performance:?}");
        assert!(
            (0.99..1.25).contains(&performance.p99_ms),
            "{performance:?}"
        );
        assert_eq!(History::default().performance().p99_ms, 0.0);
    }

    #[test]
    fn each_duration_lies_in_its_bucket() {
        for micros in (0..2000).chain([10_000, 1_000_000, 3_600_000_000]) {
            let bucket = bucket(Duration::from_micros(micros));
            assert!(upper(bucket) >= Duration::from_micros(micros), "{micros}");
            assert!(
                bucket == 0 || upper(bucket - 1) <= Duration::from_micros(micros.max(1)),
                "{micros}"
            );
        }
    }
}
