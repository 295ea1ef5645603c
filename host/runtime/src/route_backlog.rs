//! The deltas that wait for the guest's `route`: one for each object, even if the object changes several times. This is a
//! plain value, and the task in `guest_route.rs` drives it.
//!
//! Deltas are given to the guest in the order of their arrival. If a call fails, each of its deltas is tried alone; one
//! that fails alone backs off and holds up no other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::{Delta, Object, Uid};
use flyball_types::description::DeltaType;
use tokio::time::Instant;

/// How many deltas one call of `route` is given.
const BATCH: usize = 256;
/// The most bytes of objects that one call of `route` is given, if it is given more than one delta.
const BATCH_BYTES: usize = 4 << 20;
/// The first and the longest pause before a delta that failed alone is tried again. It doubles with each failure.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// The most objects that wait. A plugin that falls so far behind loses changes.
const OBJECTS: usize = 1_000_000;
/// The most bytes of whole old versions that wait. No cache holds them any more. Beyond that, each keeps only its
/// identity, labels and owners.
const WHOLE_BYTES: usize = 32 << 20;
/// The most bytes of old versions that wait, reduced ones included. Beyond that, the plugin loses changes.
const OLD_BYTES: usize = 128 << 20;
/// The bytes of an object that waits, without its versions: its entries in the backlog's maps.
const ENTRY: usize = 256;

/// The number of a watched informer of the plugin.
pub(super) type WatchNumber = usize;

/// An object of a watch.
type Key = (WatchNumber, Uid);

/// The pending changes of one object.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) watch: WatchNumber,
    pub(super) delta_type: DeltaType,
    /// The version before the first change that the guest has not been told of. For an object that was created and
    /// deleted meanwhile, its last version.
    pub(super) old: Option<Arc<Object>>,
    /// Whether `old` has no fields any more.
    is_reduced: bool,
    pub(super) new: Option<Arc<Object>>,
    pub(super) initial: bool,
    /// How often it failed alone.
    pub(super) failures: u32,
}

/// Deltas that wait.
#[derive(Debug, Default)]
pub struct RouteBacklog {
    /// Changed by `insert` and `take` alone.
    objects: HashMap<Key, Waiting>,
    /// The bytes of the old versions in `objects`.
    old_bytes: usize,
    /// The part of `old_bytes` that was not reduced yet.
    whole_bytes: usize,
    /// The objects that were not tried since their last change, and marks between them.
    order: VecDeque<Item>,
    /// Objects that failed alone, with the time at which they are tried again.
    failing: HashMap<Key, Instant>,
    /// Changes that were not taken, because too many objects wait.
    refused: u64,
}

#[derive(Debug)]
enum Item {
    /// May be given to the guest together with the next ones.
    Together(Key),
    /// Was in a batch that failed.
    Alone(Key),
    /// All initial deltas of a watch come before this.
    Initial(WatchNumber),
}

/// The next thing to do.
#[derive(Debug)]
pub(super) enum Step {
    /// Give these to the guest, and report the result.
    Route(Vec<Waiting>),
    /// All initial deltas of a watch were given to the guest at least once.
    InitialDone(WatchNumber),
    /// Nothing to do until then, or until a delta comes.
    Wait(Option<Instant>),
}

impl RouteBacklog {
    /// Adds a delta of an informer. It is merged with a delta of the same object that already waits.
    pub fn push(&mut self, watch: WatchNumber, delta: &Delta) {
        // An object that was created and deleted since the last delta has neither version: its last one stands for
        // `old`.
        let last = || delta.between.last().filter(|_| delta.new.is_none());
        let next = Waiting {
            watch,
            delta_type: delta.delta_type(),
            old: delta.old.as_ref().or_else(last).cloned(),
            is_reduced: false,
            new: delta.new.clone(),
            initial: delta.initial,
            failures: 0,
        };
        let key = next.key();
        match self.take(&key) {
            Some(waiting) => {
                let merged = waiting.merge(next);
                if merged.new.is_some() || self.has_room(&merged) {
                    self.insert(key, merged);
                } else {
                    self.refused += 1;
                }
            }
            None if self.objects.len() >= OBJECTS || !self.has_room(&next) => self.refused += 1,
            None => {
                self.order.push_back(Item::Together(key.clone()));
                self.insert(key, next);
            }
        }
    }

    fn insert(&mut self, key: Key, waiting: Waiting) {
        let (old, whole) = waiting.old_bytes();
        self.old_bytes += old;
        self.whole_bytes += whole;
        self.objects.insert(key, waiting);
        if self.whole_bytes > WHOLE_BYTES {
            self.reduce();
        }
    }

    fn take(&mut self, key: &Key) -> Option<Waiting> {
        let waiting = self.objects.remove(key)?;
        let (old, whole) = waiting.old_bytes();
        self.old_bytes -= old;
        self.whole_bytes -= whole;
        Some(waiting)
    }

    /// Whether the old version of another object may wait.
    fn has_room(&self, waiting: &Waiting) -> bool {
        let (more, _) = waiting.old_bytes();
        more == 0 || self.old_bytes + more <= OLD_BYTES
    }

    /// Drops the fields of the old versions.
    fn reduce(&mut self) {
        (self.old_bytes, self.whole_bytes) = (0, 0);
        for waiting in self.objects.values_mut() {
            waiting.reduce();
            self.old_bytes += waiting.old_bytes().0;
        }
    }

    /// The bytes that the backlog takes, without versions that the cache holds.
    pub fn bytes(&self) -> usize {
        self.old_bytes + self.objects.len() * ENTRY
    }

    /// Notes that all initial deltas of a watch were pushed.
    pub(super) fn end_initial(&mut self, watch: WatchNumber) {
        self.order.push_back(Item::Initial(watch));
    }

    /// Returns the next step.
    pub(super) fn next(&mut self, now: Instant) -> Step {
        match self.order.front() {
            Some(Item::Initial(watch)) => {
                let watch = *watch;
                self.order.pop_front();
                return Step::InitialDone(watch);
            }
            Some(Item::Alone(_)) => {
                if let Some(Item::Alone(key)) = self.order.pop_front() {
                    return Step::Route(self.take(&key).into_iter().collect());
                }
            }
            Some(Item::Together(_)) => return Step::Route(self.batch()),
            None => {}
        }
        match self.failing.iter().min_by_key(|(_, at)| **at) {
            Some((key, at)) if *at <= now => {
                let key = key.clone();
                self.failing.remove(&key);
                Step::Route(self.take(&key).into_iter().collect())
            }
            soonest => Step::Wait(soonest.map(|(_, at)| *at)),
        }
    }

    fn batch(&mut self) -> Vec<Waiting> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(Item::Together(key)) = self.order.front() {
            let size = self.objects.get(key).map_or(0, Waiting::size);
            if !batch.is_empty() && (batch.len() == BATCH || bytes + size > BATCH_BYTES) {
                break;
            }
            bytes += size;
            if let Some(Item::Together(key)) = self.order.pop_front() {
                batch.extend(self.take(&key));
            }
        }
        batch
    }

    /// Takes deltas back that the guest failed on. Returns the delta that failed alone, if it was one.
    pub(super) fn failed(&mut self, batch: Vec<Waiting>, now: Instant) -> Option<Arc<Object>> {
        let is_alone = batch.len() == 1;
        let mut failed = None;
        for mut waiting in batch.into_iter().rev() {
            let key = waiting.key();
            if is_alone {
                let pause = PAUSE.0 * 2u32.saturating_pow(waiting.failures.min(16));
                waiting.failures += 1;
                self.failing.insert(key.clone(), now + pause.min(PAUSE.1));
                failed = Some(waiting.object().clone());
            } else {
                self.order.push_front(Item::Alone(key.clone()));
            }
            // The object may have changed during the call. Then it waits in two places, and the first one takes it.
            let waiting = match self.take(&key) {
                Some(newer) => waiting.merge(newer),
                None => waiting,
            };
            self.insert(key, waiting);
        }
        failed
    }

    /// How many objects fail alone.
    pub(super) fn failing(&self) -> usize {
        self.failing.len()
    }

    /// How many objects wait.
    pub(super) fn waiting(&self) -> usize {
        self.objects.len()
    }

    /// Returns how many changes were refused since the last call.
    pub(super) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }
}

impl Waiting {
    fn key(&self) -> Key {
        (self.watch, self.object().uid().clone())
    }

    /// The newest version.
    pub(super) fn object(&self) -> &Arc<Object> {
        let newest = self.new.as_ref().or(self.old.as_ref());
        newest.expect("a delta holds at least one version")
    }

    /// The bytes of the old version, and the part of them that [`Waiting::reduce`] can free.
    fn old_bytes(&self) -> (usize, usize) {
        match &self.old {
            Some(old) if self.is_reduced => (old.size_alone(), 0),
            Some(old) => (old.size_alone(), old.size_alone()),
            None => (0, 0),
        }
    }

    /// Drops the fields of the old version.
    fn reduce(&mut self) {
        if let Some(old) = &self.old
            && !self.is_reduced
        {
            self.old = Some(old.without_fields());
            self.is_reduced = true;
        }
    }

    fn size(&self) -> usize {
        let objects = self.old.iter().chain(&self.new);
        objects.map(|object| object.json().len()).sum()
    }

    /// Merges two changes into one, from the older version of this one to the newer version of the next.
    fn merge(self, next: Self) -> Self {
        let is_new = self.delta_type == DeltaType::Added;
        let delta_type = match (&next.new, is_new) {
            (None, _) => DeltaType::Deleted,
            (Some(_), true) => DeltaType::Added,
            (Some(_), false) => DeltaType::Modified,
        };
        let (old, is_reduced) = match (is_new, &next.new) {
            (false, _) => (self.old, self.is_reduced),
            // The guest was never told of the object: its last version stands for `old`.
            (true, None) => (next.old.or(self.new), false),
            (true, Some(_)) => (None, false),
        };
        Self {
            watch: self.watch,
            delta_type,
            old,
            is_reduced,
            new: next.new,
            initial: self.initial && next.initial,
            failures: self.failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: u32) -> Arc<Object> {
        let json = format!(
            r#"{{"metadata": {{"name": "{name}", "uid": "{name}", "resourceVersion": "{version}"}}}}"#
        );
        Object::parse(json.as_bytes()).expect("it is an object")
    }

    fn delta(old: Option<Arc<Object>>, new: Option<Arc<Object>>) -> Delta {
        Delta {
            old,
            new,
            between: Vec::new(),
            initial: false,
        }
    }

    fn added(name: &str) -> Delta {
        delta(None, Some(object(name, 1)))
    }

    /// The names of the next batch, and the batch itself.
    fn batch(backlog: &mut RouteBacklog, now: Instant) -> (Vec<String>, Vec<Waiting>) {
        match backlog.next(now) {
            Step::Route(batch) => {
                let names = batch.iter().map(|one| one.object().name().to_owned());
                (names.collect(), batch)
            }
            other => panic!("{other:?} is not a batch"),
        }
    }

    fn versions(waiting: &Waiting) -> (DeltaType, Option<String>, Option<String>) {
        let version = |object: &Option<Arc<Object>>| {
            object
                .as_ref()
                .map(|object| object.resource_version().to_string())
        };
        (
            waiting.delta_type,
            version(&waiting.old),
            version(&waiting.new),
        )
    }

    #[test]
    fn changes_of_an_object_collapse_to_its_oldest_and_newest_version() {
        let text = |version: u32| Some(version.to_string());
        let object = |version| Some(object("a", version));
        for (changes, expected) in [
            (
                vec![(object(1), object(2)), (object(2), object(3))],
                (DeltaType::Modified, text(1), text(3)),
            ),
            (
                vec![(None, object(1)), (object(1), object(2))],
                (DeltaType::Added, None, text(2)),
            ),
            (
                vec![(object(1), object(2)), (object(2), None)],
                (DeltaType::Deleted, text(1), None),
            ),
            (
                vec![(None, object(1)), (object(1), None)],
                (DeltaType::Deleted, text(1), None),
            ),
            (
                vec![(object(1), None), (None, object(2))],
                (DeltaType::Modified, text(1), text(2)),
            ),
        ] {
            let mut backlog = RouteBacklog::default();
            for (old, new) in changes {
                backlog.push(0, &delta(old, new));
            }
            assert_eq!(backlog.waiting(), 1);
            let (_, batch) = batch(&mut backlog, Instant::now());
            assert_eq!(versions(&batch[0]), expected);
            assert!(matches!(backlog.next(Instant::now()), Step::Wait(None)));
        }
    }

    #[test]
    fn an_object_that_was_created_and_deleted_in_between_is_deleted_in_its_last_version() {
        let mut backlog = RouteBacklog::default();
        let between = vec![object("a", 1), object("a", 2)];
        backlog.push(
            0,
            &Delta {
                between,
                ..delta(None, None)
            },
        );
        let (_, batch) = batch(&mut backlog, Instant::now());
        assert_eq!(
            versions(&batch[0]),
            (DeltaType::Deleted, Some("2".into()), None)
        );
    }

    #[test]
    fn a_poisoned_delta_backs_off_alone() {
        let (mut backlog, start) = (RouteBacklog::default(), Instant::now());
        for name in ["a", "poison", "b"] {
            backlog.push(0, &added(name));
        }
        backlog.end_initial(0);
        let (names, failed) = batch(&mut backlog, start);
        assert_eq!(names, ["a", "poison", "b"]);
        assert!(backlog.failed(failed, start).is_none());
        for name in ["a", "poison", "b"] {
            let (names, alone) = batch(&mut backlog, start);
            assert_eq!(names, [name]);
            if name == "poison" {
                let failed = backlog.failed(alone, start).expect("it failed alone");
                assert_eq!(failed.name(), "poison");
            }
        }
        // Each was tried: the plugin may start although one fails.
        assert!(matches!(backlog.next(start), Step::InitialDone(0)));
        backlog.push(0, &added("c"));
        assert_eq!(batch(&mut backlog, start).0, ["c"]);
        let mut now = start;
        for pause in [100, 200, 400, 800] {
            let Step::Wait(Some(at)) = backlog.next(now) else {
                panic!("it waits");
            };
            assert_eq!(at - now, Duration::from_millis(pause));
            now = at;
            let (names, alone) = batch(&mut backlog, now);
            assert_eq!(names, ["poison"]);
            backlog.failed(alone, now);
            assert_eq!((backlog.failing(), backlog.waiting()), (1, 1));
        }
    }

    #[test]
    fn an_object_that_changes_while_its_delta_fails_is_tried_with_both_changes() {
        let (mut backlog, now) = (RouteBacklog::default(), Instant::now());
        backlog.push(0, &delta(Some(object("a", 1)), Some(object("a", 2))));
        let (_, failed) = batch(&mut backlog, now);
        backlog.push(0, &delta(Some(object("a", 2)), Some(object("a", 3))));
        backlog.failed(failed, now);
        let (_, again) = batch(&mut backlog, now);
        assert_eq!(
            versions(&again[0]),
            (DeltaType::Modified, Some("1".into()), Some("3".into()))
        );
        // Its other place is empty.
        let later = now + Duration::from_secs(1);
        let mut left = 0;
        while let Step::Route(batch) = backlog.next(later) {
            left += batch.len();
        }
        assert_eq!((left, backlog.waiting(), backlog.failing()), (0, 0, 0));
    }

    #[test]
    fn a_batch_has_a_bound_and_keeps_the_order() {
        let (mut backlog, now) = (RouteBacklog::default(), Instant::now());
        let names: Vec<String> = (0..BATCH + 3).map(|n| format!("o{n}")).collect();
        names.iter().for_each(|name| backlog.push(0, &added(name)));
        let (first, _) = batch(&mut backlog, now);
        let (second, _) = batch(&mut backlog, now);
        assert_eq!([first, second].concat(), names);
    }

    /// An object whose JSON has this many bytes.
    fn sized(name: &str, bytes: usize) -> Delta {
        let with = |padding: usize| {
            let padding = "x".repeat(padding);
            let metadata = json!({"name": name, "uid": name, "resourceVersion": "1"});
            json!({"metadata": metadata, "data": padding}).to_string()
        };
        let json = with(bytes - with(0).len());
        let object = Object::parse(json.as_bytes()).expect("it is an object");
        assert_eq!(object.json().len(), bytes);
        delta(None, Some(object))
    }

    #[test]
    fn a_batch_has_at_most_four_megabytes_unless_it_is_one_delta() {
        let (mut backlog, now) = (RouteBacklog::default(), Instant::now());
        for name in ["a", "b", "c", "d"] {
            backlog.push(0, &sized(name, BATCH_BYTES / 4));
        }
        backlog.push(0, &sized("large", BATCH_BYTES + 1));
        backlog.push(0, &sized("half", BATCH_BYTES / 2));
        backlog.push(0, &sized("other", BATCH_BYTES / 2 + 1));
        let batches: Vec<_> = (0..4).map(|_| batch(&mut backlog, now).0).collect();
        assert_eq!(
            batches,
            [&["a", "b", "c", "d"][..], &["large"], &["half"], &["other"]]
        );
    }

    #[test]
    fn both_versions_of_a_delta_count_towards_the_size_of_a_batch() {
        let (mut backlog, now) = (RouteBacklog::default(), Instant::now());
        for name in ["a", "b"] {
            let object = sized(name, BATCH_BYTES / 4 + 1).new;
            backlog.push(0, &delta(object.clone(), object));
        }
        assert_eq!(batch(&mut backlog, now).0, ["a"]);
    }

    #[test]
    fn the_pause_of_a_failing_delta_is_at_most_30_seconds() {
        let (mut backlog, mut now) = (RouteBacklog::default(), Instant::now());
        backlog.push(0, &added("a"));
        for _ in 0..20 {
            let (_, alone) = batch(&mut backlog, now);
            backlog.failed(alone, now);
            let Step::Wait(Some(at)) = backlog.next(now) else {
                panic!("it waits");
            };
            assert!(at - now <= PAUSE.1);
            now = at;
        }
        let (_, alone) = batch(&mut backlog, now);
        backlog.failed(alone, now);
        assert!(matches!(backlog.next(now), Step::Wait(Some(at)) if at - now == PAUSE.1));
    }

    #[test]
    fn a_delta_is_initial_as_long_as_all_its_changes_are() {
        let initial = Delta {
            initial: true,
            ..added("a")
        };
        for (second, expected) in [(initial.clone(), true), (added("a"), false)] {
            let mut backlog = RouteBacklog::default();
            backlog.push(0, &initial);
            backlog.push(0, &second);
            let (_, batch) = batch(&mut backlog, Instant::now());
            assert_eq!(batch[0].initial, expected);
        }
    }

    #[test]
    fn old_versions_lose_their_fields_beyond_their_bytes() {
        let mut backlog = RouteBacklog::default();
        let count = 2 * WHOLE_BYTES / (1 << 20);
        for number in 0..count {
            let name = format!("o{number}");
            let (old, new) = (sized(&name, 1 << 20).new, sized(&name, 1000).new);
            backlog.push(0, &delta(old, new));
            assert!(backlog.bytes() <= WHOLE_BYTES + (1 << 21));
        }
        assert_eq!((backlog.waiting(), backlog.take_refused()), (count, 0));
        let (_, first) = batch(&mut backlog, Instant::now());
        let old = first[0].old.as_ref().expect("its identity is kept");
        assert!(old.name() == "o0" && old.json().len() < 200);
        while let Step::Route(_) = backlog.next(Instant::now()) {}
        assert_eq!(backlog.bytes(), 0);
    }

    #[test]
    fn deletions_are_lost_once_their_identities_take_too_much() {
        let mut backlog = RouteBacklog::default();
        // The name alone has almost a kilobyte.
        let deleted = |number: usize| {
            let name = format!("{}{number}", "n".repeat(900));
            delta(sized(&name, 4000).new, None)
        };
        let number = (0..).find(|number| {
            backlog.push(0, &deleted(*number));
            backlog.take_refused() > 0
        });
        let number = number.expect("the backlog is bounded");
        assert_eq!(backlog.waiting(), number);
        assert!(backlog.bytes() <= OLD_BYTES + number * ENTRY);
        // An object that the cache holds takes nothing.
        backlog.push(0, &added("a"));
        assert_eq!((backlog.waiting(), backlog.take_refused()), (number + 1, 0));
        // The guest was not told of it.
        backlog.push(0, &delta(sized("a", 5000).new, None));
        assert_eq!((backlog.waiting(), backlog.take_refused()), (number, 1));
    }

    #[test]
    fn no_new_object_is_taken_once_a_million_wait() {
        let (mut backlog, delta) = (RouteBacklog::default(), added("a"));
        for watch in 0..OBJECTS {
            backlog.push(watch, &delta);
        }
        assert_eq!(backlog.take_refused(), 0);
        backlog.push(OBJECTS, &delta);
        backlog.push(OBJECTS + 1, &delta);
        assert_eq!(backlog.waiting(), OBJECTS);
        assert_eq!((backlog.take_refused(), backlog.take_refused()), (2, 0));
        // An object that waits already is still followed.
        backlog.push(0, &delta);
        assert_eq!(backlog.take_refused(), 0);
    }
}
