//! The posting lists of the indexer: the slots of each term. Optimised for many terms with one slot and few terms with
//! many.
//!
//! In a cluster with 150,000 pods there are tens of thousands of owners with a few pods each, and a few namespaces with
//! thousands. So a term's bucket grows in three steps:
//!
//! | slots added to a term | its bucket |
//! |---|---|
//! | 0 | `One(0)`: no allocation |
//! | 0 and 1 | `Few([0, 1])`: searched from end to end |
//! | 0 to 32 | `Many`, a hash table, since the 33rd slot: adding and removing take constant time |
//! | … of which 17 are removed | `Few` with 16 slots |
//!
//! A table becomes a list again only at half of the size at which it was made, so that a term around 32 slots is not
//! converted by each change.

use hashbrown::HashTable;

/// The maximum length of a list of slots. A bucket with more slots is a hash table.
const FEW: usize = 32;

/// The slots of each term.
#[derive(Default)]
pub(crate) struct Postings {
    /// Keyed by the term, which is itself a hash.
    buckets: HashTable<(u64, Bucket)>,
    /// The number of slots in all buckets.
    slots: usize,
}

/// The slots of one term.
pub(crate) enum Bucket {
    One(u32),
    Few(Vec<u32>),
    Many(Box<HashTable<u32>>),
}

impl Postings {
    pub(crate) fn get(&self, term: u64) -> Option<&Bucket> {
        self.buckets
            .find(term, |(own, _)| *own == term)
            .map(|(_, bucket)| bucket)
    }

    /// The number of slots that a term has.
    pub(crate) fn count(&self, term: u64) -> usize {
        self.get(term).map_or(0, Bucket::len)
    }

    pub(crate) fn insert(&mut self, term: u64, slot: u32) {
        match self
            .buckets
            .entry(term, |(own, _)| *own == term, |(own, _)| *own)
        {
            hashbrown::hash_table::Entry::Occupied(mut entry) => {
                self.slots += usize::from(entry.get_mut().1.insert(slot))
            }
            hashbrown::hash_table::Entry::Vacant(entry) => {
                entry.insert((term, Bucket::One(slot)));
                self.slots += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, term: u64, slot: u32) {
        if let Ok(mut entry) = self.buckets.find_entry(term, |(own, _)| *own == term) {
            self.slots -= usize::from(entry.get_mut().1.remove(slot));
            if entry.get().1.len() == 0 {
                entry.remove();
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.buckets.is_empty() && self.slots == 0
    }

    /// Approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.buckets.capacity() * (size_of::<(u64, Bucket)>() + 1) + self.slots * 5
    }
}

/// The indexer assigns slots, so the hash need not resist an attacker.
fn hash(slot: u32) -> u64 {
    u64::from(slot).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Bucket {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Few(slots) => slots.len(),
            Self::Many(slots) => slots.len(),
        }
    }

    pub(crate) fn for_each(&self, mut each: impl FnMut(u32)) {
        match self {
            Self::One(slot) => each(*slot),
            Self::Few(slots) => slots.iter().for_each(|slot| each(*slot)),
            Self::Many(slots) => slots.iter().for_each(|slot| each(*slot)),
        }
    }

    /// Adds a slot and returns whether it is new.
    fn insert(&mut self, slot: u32) -> bool {
        match self {
            Self::One(own) if *own == slot => return false,
            Self::One(own) => *self = Self::Few(vec![*own, slot]),
            Self::Few(slots) if slots.contains(&slot) => return false,
            Self::Few(slots) if slots.len() < FEW => slots.push(slot),
            Self::Few(slots) => {
                let mut table = HashTable::with_capacity(2 * FEW);
                for own in slots.drain(..).chain([slot]) {
                    table.insert_unique(hash(own), own, |own| hash(*own));
                }
                *self = Self::Many(Box::new(table));
            }
            Self::Many(slots) => {
                match slots.entry(hash(slot), |own| *own == slot, |own| hash(*own)) {
                    hashbrown::hash_table::Entry::Occupied(_) => return false,
                    hashbrown::hash_table::Entry::Vacant(entry) => drop(entry.insert(slot)),
                }
            }
        }
        true
    }

    /// Removes a slot and returns whether the bucket had it. May leave an empty bucket, which the caller removes.
    fn remove(&mut self, slot: u32) -> bool {
        match self {
            Self::One(own) if *own == slot => *self = Self::Few(Vec::new()),
            Self::One(_) => return false,
            Self::Few(slots) => match slots.iter().position(|own| *own == slot) {
                Some(at) => drop(slots.swap_remove(at)),
                None => return false,
            },
            Self::Many(slots) => match slots.find_entry(hash(slot), |own| *own == slot) {
                Ok(entry) => {
                    entry.remove();
                    if slots.len() <= FEW / 2 {
                        *self = Self::Few(slots.iter().copied().collect());
                    }
                }
                Err(_) => return false,
            },
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_each_slot_once_at_every_size() {
        let mut postings = Postings::default();
        for slot in (0..100).chain(0..100) {
            postings.insert(7, slot);
        }
        assert_eq!(postings.count(7), 100);
        let mut found = Vec::new();
        postings.get(7).unwrap().for_each(|slot| found.push(slot));
        found.sort_unstable();
        assert_eq!(found, (0..100).collect::<Vec<_>>());
        for slot in 0..100 {
            assert_eq!(postings.count(7), 100 - slot as usize);
            postings.remove(7, slot);
            // Removing an absent slot changes no count.
            postings.remove(7, slot);
        }
        assert!(postings.get(7).is_none() && postings.is_empty());
        assert_eq!(size_of::<(u64, Bucket)>(), 32);
    }

    #[test]
    fn a_bucket_is_a_table_only_while_it_has_many_slots() {
        let mut bucket = Bucket::One(0);
        assert!(!bucket.insert(0) && matches!(bucket, Bucket::One(_)));
        for slot in 1..100 {
            assert!(bucket.insert(slot) && !bucket.insert(slot));
            assert!(!bucket.remove(1000));
            let is_table = matches!(bucket, Bucket::Many(_));
            assert_eq!(is_table, bucket.len() > FEW, "{} slots", bucket.len());
        }
        for slot in 0..100 {
            assert!(bucket.remove(slot));
            let is_table = matches!(bucket, Bucket::Many(_));
            assert_eq!(is_table, bucket.len() > FEW / 2, "{} slots", bucket.len());
        }
        let mut one = Bucket::One(1);
        assert!(!one.remove(2) && one.len() == 1);
    }

    #[test]
    fn slots_have_different_hashes() {
        let hashes: std::collections::BTreeSet<u64> = (0..100).map(hash).collect();
        assert_eq!(hashes.len(), 100);
    }
}
