//! The keys that become ready later, each once, at the earliest time asked for.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use tokio::time::Instant;

use crate::{Causes, Priority, trim};

/// When a key becomes ready, and a number that keeps those of the same instant in the order of their adds.
type Due = (Instant, u64);

/// A delayed key's record.
struct Later<R> {
    due: Due,
    priority: Priority,
    causes: Causes<R>,
}

/// The delayed keys by time and by key. Both maps always hold the same keys: an entry that moves forward is removed at
/// once, so that a caller who keeps asking for an earlier time can't fill the memory.
pub(crate) struct Delayed<K, R> {
    by_due: BTreeMap<Due, K>,
    by_key: HashMap<K, Later<R>>,
    next: u64,
}

impl<K: Eq + Hash + Clone, R> Delayed<K, R> {
    pub(crate) fn new() -> Self {
        Self {
            by_due: BTreeMap::new(),
            by_key: HashMap::new(),
            next: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// When the first key becomes ready.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.by_due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Adds a key, or folds the add into the one that waits: the earlier time and the higher priority win.
    pub(crate) fn add(&mut self, key: K, at: Instant, priority: Priority, causes: Causes<R>) {
        let due = (at, self.next);
        self.next += 1;
        match self.by_key.get_mut(&key) {
            None => {
                self.by_key.insert(
                    key.clone(),
                    Later {
                        due,
                        priority,
                        causes,
                    },
                );
                self.by_due.insert(due, key);
            }
            Some(later) => {
                later.priority = later.priority.max(priority);
                later.causes.absorb(causes);
                if at < later.due.0 {
                    self.by_due.remove(&later.due);
                    self.by_due.insert(due, key);
                    later.due = due;
                }
            }
        }
    }

    /// Takes the first key whose time has come, and says when that was.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, K, Priority, Causes<R>)> {
        let first = self
            .by_due
            .first_entry()
            .filter(|entry| entry.key().0 <= now)?;
        let ((at, _), key) = first.remove_entry();
        let later = self.by_key.remove(&key)?;
        trim(&mut self.by_key);
        Some((at, key, later.priority, later.causes))
    }

    pub(crate) fn clear(&mut self) {
        self.by_due = BTreeMap::new();
        self.by_key = HashMap::new();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Duration;

    use super::*;

    fn add(delayed: &mut Delayed<u32, ()>, key: u32, at: Instant) {
        delayed.add(key, at, Priority::Normal, Causes::new(()));
    }

    #[test]
    fn keys_come_in_the_order_of_their_times_then_of_their_adds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut delayed = Delayed::new();
        add(&mut delayed, 1, at(2));
        add(&mut delayed, 2, at(1));
        add(&mut delayed, 3, at(2));
        add(&mut delayed, 4, at(9));
        assert_eq!(delayed.next_due(), Some(at(1)));
        let keys: Vec<_> = std::iter::from_fn(|| delayed.pop_due(at(2)))
            .map(|(at, key, ..)| (at, key))
            .collect();
        assert_eq!(keys, [(at(1), 2), (at(2), 1), (at(2), 3)]);
        assert_eq!(delayed.len(), 1);
    }

    #[test]
    fn a_key_that_keeps_moving_forward_is_held_once() {
        let start = Instant::now();
        let mut delayed = Delayed::new();
        for millis in (0..1000).rev() {
            add(&mut delayed, 1, start + Duration::from_millis(millis));
        }
        add(&mut delayed, 1, start + Duration::from_secs(5));
        assert_eq!((delayed.by_due.len(), delayed.by_key.len()), (1, 1));
        assert_eq!(delayed.next_due(), Some(start));
    }
}
