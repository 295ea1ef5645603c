//! A bounded map that forgets the entry that has not been used for the longest time.

use std::collections::{BTreeMap, HashMap};

/// The hash of an object, a group, an event or a message, keyed at random. The texts of a thousand owners and their
/// events would take megabytes; a collision among some thousands of 64-bit hashes is not expected.
pub(super) type Digest = u64;

/// How many entries are remembered, as in client-go.
pub(super) const REMEMBERED: usize = 4096;

pub(super) struct Recent<V> {
    values: HashMap<Digest, (u64, V)>,
    /// The entries in the order of their last use.
    order: BTreeMap<u64, Digest>,
    uses: u64,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self {
            values: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
        }
    }
}

impl<V> Recent<V> {
    /// Returns the entry, which counts as used now. A missing one is created with `new`.
    pub(super) fn entry(&mut self, of: Digest, new: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        match self.values.get(&of) {
            Some((used, _)) => {
                self.order.remove(used);
            }
            None if self.order.len() == REMEMBERED => {
                if let Some((_, oldest)) = self.order.pop_first() {
                    self.values.remove(&oldest);
                }
            }
            None => {}
        }
        self.order.insert(self.uses, of);
        let (used, value) = self.values.entry(of).or_insert_with(|| (0, new()));
        *used = self.uses;
        value
    }

    /// Keeps the values for which `keep` returns true. No value counts as used.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut V) -> bool) {
        let order = &mut self.order;
        self.values.retain(|_, (used, value)| {
            let is_kept = keep(value);
            if !is_kept {
                order.remove(used);
            }
            is_kept
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_that_was_not_used_for_the_longest_time_is_forgotten() {
        let mut recent = Recent::default();
        for of in 0..REMEMBERED as u64 {
            assert_eq!(*recent.entry(of, || of), of);
        }
        recent.entry(0, || unreachable!("it is remembered"));
        recent.entry(REMEMBERED as u64, || 0);
        recent.entry(0, || unreachable!("it was used later than 1"));
        assert_eq!(*recent.entry(1, || 77), 77);
        assert_eq!(
            (recent.values.len(), recent.order.len()),
            (REMEMBERED, REMEMBERED)
        );
        recent.retain(|value| *value == 77);
        // The 77th entry has its own number, too.
        assert_eq!((recent.values.len(), recent.order.len()), (2, 2));
        assert!(!recent.is_empty());
    }
}
