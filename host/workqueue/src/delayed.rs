//! The delayed keys: each is held once, at the earliest requested time. `state.rs` moves them to the lanes when they
//! are due.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use tokio::time::Instant;

use crate::memory::{KEY_BLOCK, shrink_if_sparse};
use crate::{Causes, Priority};

/// When a key is due, and a sequence number that keeps keys of the same instant in the order of their adds.
type Due = (Instant, u64);

struct DelayedAdd<R> {
    due: Due,
    priority: Priority,
    causes: Causes<R>,
}

/// A key whose time has come.
pub(crate) struct DueKey<K, R> {
    pub(crate) key: K,
    pub(crate) due: Instant,
    pub(crate) priority: Priority,
    pub(crate) causes: Causes<R>,
}

/// The delayed keys by time and by key.
///
/// Both maps always hold the same keys. A key that moves to an earlier time is moved in place, so that repeated adds of
/// one key don't grow the maps.
pub(crate) struct Delayed<K, R> {
    by_due: BTreeMap<Due, K>,
    by_key: HashMap<K, DelayedAdd<R>>,
    next_sequence: u64,
    key_bytes: fn(&K) -> usize,
    /// The bytes of all keys.
    bytes: usize,
}

impl<K: Eq + Hash + Clone, R> Delayed<K, R> {
    pub(crate) fn new(key_bytes: fn(&K) -> usize) -> Self {
        Self {
            by_due: BTreeMap::new(),
            by_key: HashMap::new(),
            next_sequence: 0,
            key_bytes,
            bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of memory that the keys take. A map that has just grown has twice the entries it needs.
    pub(crate) fn memory(&self) -> usize {
        let entry = size_of::<(K, DelayedAdd<R>)>() + size_of::<(Due, K)>();
        self.bytes + self.by_key.len() * (KEY_BLOCK + 2 * entry)
    }

    /// When the first key is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.by_due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Adds a key. If it is delayed already, the earlier time and the higher priority win.
    pub(crate) fn add(&mut self, key: K, at: Instant, priority: Priority, causes: Causes<R>) {
        let due = (at, self.next_sequence);
        self.next_sequence += 1;
        match self.by_key.get_mut(&key) {
            None => {
                self.bytes += (self.key_bytes)(&key);
                self.by_key.insert(
                    key.clone(),
                    DelayedAdd {
                        due,
                        priority,
                        causes,
                    },
                );
                self.by_due.insert(due, key);
            }
            Some(entry) => {
                entry.priority = entry.priority.max(priority);
                entry.causes.merge(causes);
                if at < entry.due.0 {
                    self.by_due.remove(&entry.due);
                    self.by_due.insert(due, key);
                    entry.due = due;
                }
            }
        }
    }

    /// Removes the first key whose time has come.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<DueKey<K, R>> {
        let first = self
            .by_due
            .first_entry()
            .filter(|entry| entry.key().0 <= now)?;
        let ((due, _), key) = first.remove_entry();
        let DelayedAdd {
            priority, causes, ..
        } = self.by_key.remove(&key)?;
        self.bytes -= (self.key_bytes)(&key);
        shrink_if_sparse(&mut self.by_key);
        Some(DueKey {
            key,
            due,
            priority,
            causes,
        })
    }

    pub(crate) fn clear(&mut self) {
        self.by_due = BTreeMap::new();
        self.by_key = HashMap::new();
        self.bytes = 0;
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
    fn keys_are_popped_in_the_order_of_their_times_then_of_their_adds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut delayed = Delayed::new(|_| 1);
        add(&mut delayed, 1, at(2));
        add(&mut delayed, 2, at(1));
        add(&mut delayed, 3, at(2));
        add(&mut delayed, 4, at(9));
        assert_eq!(delayed.next_due(), Some(at(1)));
        let keys: Vec<_> = std::iter::from_fn(|| delayed.pop_due(at(2)))
            .map(|due| (due.due, due.key))
            .collect();
        assert_eq!(keys, [(at(1), 2), (at(2), 1), (at(2), 3)]);
        assert_eq!((delayed.len(), delayed.bytes()), (1, 1));
        delayed.clear();
        assert_eq!((delayed.len(), delayed.bytes()), (0, 0));
    }

    #[test]
    fn a_key_that_is_moved_to_earlier_times_is_held_once() {
        let start = Instant::now();
        let mut delayed = Delayed::new(|_| 1);
        for millis in (0..1000).rev() {
            add(&mut delayed, 1, start + Duration::from_millis(millis));
        }
        add(&mut delayed, 1, start + Duration::from_secs(5));
        assert_eq!((delayed.by_due.len(), delayed.by_key.len()), (1, 1));
        assert_eq!(delayed.bytes(), 1);
        assert_eq!(delayed.next_due(), Some(start));
    }
}
