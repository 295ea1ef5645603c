//! A set of blocks: disjoint intervals of their numbers. Its size depends on the number of nodes, not of blocks.
//!
//! Upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go: AllocateNext.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// A set of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks(
    /// The first and last number of each interval, in order, with a gap between two intervals.
    Vec<(u64, u64)>,
);

impl Blocks {
    pub fn insert(&mut self, blocks: RangeInclusive<u64>) {
        let (mut first, mut last) = blocks.into_inner();
        // The intervals that the new one overlaps or touches are joined with it.
        let begin = self
            .0
            .partition_point(|known| known.1.saturating_add(1) < first);
        let end = self
            .0
            .partition_point(|known| known.0 <= last.saturating_add(1));
        if begin < end {
            first = first.min(self.0[begin].0);
            last = last.max(self.0[end - 1].1);
        }
        self.0.splice(begin..end, [(first, last)]);
    }

    /// The number of blocks.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub fn contains_any(&self, blocks: &RangeInclusive<u64>) -> bool {
        let at = self.0.partition_point(|known| known.1 < *blocks.start());
        self.0.get(at).is_some_and(|known| known.0 <= *blocks.end())
    }

    /// Returns the first block from `from` on, below `max` and then from 0 on, that is not in the set. `None` if all
    /// are.
    pub fn next_free(&self, from: u64, max: u64) -> Option<u64> {
        let free_from = |from: u64| {
            let at = self.0.partition_point(|known| known.1 < from);
            match self.0.get(at) {
                Some(&(first, last)) if first <= from => last + 1,
                _ => from,
            }
        };
        [from, 0]
            .map(free_from)
            .into_iter()
            .find(|free| *free < max)
    }

    /// The number of blocks that are not in `other`.
    pub fn count_without(&self, other: &Self) -> u64 {
        let mut all = other.clone();
        for &(first, last) in &self.0 {
            all.insert(first..=last);
        }
        all.count() - other.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(intervals: &[(u64, u64)]) -> Blocks {
        let mut blocks = Blocks::default();
        intervals
            .iter()
            .for_each(|&(first, last)| blocks.insert(first..=last));
        blocks
    }

    #[test]
    fn intervals_that_overlap_or_touch_are_joined() {
        assert_eq!(blocks(&[(5, 7), (1, 2)]).0, [(1, 2), (5, 7)]);
        assert_eq!(blocks(&[(5, 7), (1, 4)]).0, [(1, 7)]);
        assert_eq!(blocks(&[(5, 7), (8, 8)]).0, [(5, 8)]);
        assert_eq!(blocks(&[(5, 7), (6, 6)]).0, [(5, 7)]);
        assert_eq!(blocks(&[(1, 1), (3, 3), (5, 5), (2, 4)]).0, [(1, 5)]);
        assert_eq!(
            blocks(&[(1, 1), (9, 9), (3, 6)]).0,
            [(1, 1), (3, 6), (9, 9)]
        );
        assert_eq!(blocks(&[(0, 0), (u64::MAX, u64::MAX)]).count(), 2);
    }

    #[test]
    fn the_next_free_block_is_found_from_any_block_on_and_around_the_end() {
        let used = blocks(&[(0, 1), (3, 3), (6, 7)]);
        for (from, expected) in [(0, 2), (2, 2), (3, 4), (4, 4), (6, 2), (7, 2)] {
            assert_eq!(used.next_free(from, 8), Some(expected), "{from}");
        }
        assert_eq!(blocks(&[(0, 7)]).next_free(5, 8), None);
        assert_eq!(Blocks::default().next_free(0, 1), Some(0));
    }

    #[test]
    fn blocks_in_the_set_are_found() {
        let used = blocks(&[(2, 3), (8, 8)]);
        for (first, last, expected) in [
            (0, 1, false),
            (1, 2, true),
            (3, 5, true),
            (4, 7, false),
            (0, 9, true),
            (9, 9, false),
        ] {
            assert_eq!(
                used.contains_any(&(first..=last)),
                expected,
                "{first}-{last}"
            );
        }
    }

    #[test]
    fn the_difference_counts_what_only_one_set_has() {
        let (one, other) = (blocks(&[(0, 4), (8, 9)]), blocks(&[(3, 8)]));
        assert_eq!(one.count_without(&other), 4);
        assert_eq!(other.count_without(&one), 3);
        assert_eq!(one.count_without(&one), 0);
        assert_eq!(one.count_without(&Blocks::default()), 7);
    }
}
