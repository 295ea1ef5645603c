//! Sets of indexes in the API's notation: `1,3-5,7`.
//!
//! Upstream: pkg/controller/job/indexed_job_utils.go: withOrderedIndexes, merge, total, String, has,
//! parseIndexesFromString.

use std::collections::BTreeSet;
use std::fmt;

/// A set of indexes as sorted intervals that neither overlap nor touch. Its size depends on the
/// length of the text, not on the number of indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals(Vec<(i64, i64)>);

impl Intervals {
    /// Parses a set and keeps the indexes below `end`. Malformed items are ignored.
    pub fn parse(text: &str, end: i64) -> Self {
        let mut read: Vec<(i64, i64)> = text.split(',').filter_map(interval).collect();
        read.retain(|(first, last)| first <= last && *first < end);
        read.iter_mut()
            .for_each(|(_, last)| *last = (*last).min(end - 1));
        Self::of(read)
    }

    /// The union of intervals in any order.
    fn of(mut all: Vec<(i64, i64)>) -> Self {
        // Most of them are two sorted sets, one after the other, which this sort merges in linear time.
        all.sort();
        let mut joined: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match joined.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    /// Returns the union with these indexes.
    pub fn with(&self, indexes: &BTreeSet<i64>) -> Self {
        Self::of(
            self.0
                .iter()
                .copied()
                .chain(indexes.iter().map(|&index| (index, index)))
                .collect(),
        )
    }

    /// Returns the union of both sets.
    pub fn and(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Number of indexes in the set.
    pub fn total(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set contains this index.
    pub fn has(&self, index: i64) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// Number of indexes that are in both sets.
    pub fn shared(&self, other: &Self) -> i64 {
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut shared = 0;
        while let (Some(a), Some(b)) = (own.peek(), others.peek()) {
            shared += (a.1.min(b.1) - a.0.max(b.0) + 1).max(0);
            if a.1 < b.1 {
                own.next()
            } else {
                others.next()
            };
        }
        shared
    }

    /// Returns the first `count` indexes below `end` that are not in the set. Takes time
    /// proportional to the number of intervals plus `count`.
    pub fn missing(&self, count: usize, end: i64) -> Vec<i64> {
        let mut found = Vec::new();
        let mut next = 0;
        for (first, last) in self.0.iter().copied().chain([(end, end)]) {
            let room = count - found.len();
            found.extend((next..first.min(end)).take(room));
            next = next.max(last + 1);
        }
        found
    }
}

fn interval(text: &str) -> Option<(i64, i64)> {
    let mut bounds = text.split('-').map(|bound| bound.parse().ok());
    let first = bounds.next()??;
    bounds
        .next()
        .map_or(Some((first, first)), |last| Some((first, last?)))
}

/// Writes the API's notation, `1,3-5`: an interval of two is written as `1,2`.
impl fmt::Display for Intervals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Intervals {
        Intervals::parse(text, 100)
    }

    #[test]
    fn a_set_is_parsed_and_formatted_in_its_shortest_form() {
        for (text, end, expected) in [
            ("", 10, ""),
            ("0", 10, "0"),
            ("1,3-5,7", 10, "1,3-5,7"),
            ("1,2", 10, "1,2"),
            ("1-2", 10, "1,2"),
            ("1,2,3", 10, "1-3"),
            ("0-2,3-5", 10, "0-5"),
            ("1,3-5,7", 5, "1,3,4"),
            ("1,3-5,7", 3, "1"),
            ("5-9", 5, ""),
            ("1,3-5,7", 0, ""),
        ] {
            assert_eq!(
                Intervals::parse(text, end).to_string(),
                expected,
                "{text} below {end}"
            );
        }
    }

    #[test]
    fn malformed_items_are_ignored() {
        assert_eq!(set("1,x,3-y,5-4,-6,,8").to_string(), "1,8");
    }

    #[test]
    fn unions_merge_intervals() {
        assert_eq!(
            set("1,3-5").with(&BTreeSet::from([2, 7])).to_string(),
            "1-5,7"
        );
        assert_eq!(set("2-5,9").and(&set("0,4-7,11")).to_string(), "0,2-7,9,11");
        assert_eq!(set("1-9").and(&set("2-3")).to_string(), "1-9");
    }

    #[test]
    fn membership_total_and_emptiness() {
        let some = set("1,3-5,9");
        assert_eq!(
            (0..11).filter(|&index| some.has(index)).collect::<Vec<_>>(),
            [1, 3, 4, 5, 9]
        );
        assert_eq!(
            (
                some.total(),
                some.is_empty(),
                set("").total(),
                set("").is_empty()
            ),
            (5, false, 0, true)
        );
    }

    #[test]
    fn shared_counts_the_intersection() {
        assert_eq!(set("0-5,8").shared(&set("1,4-9")), 4);
        assert_eq!(set("0-3").shared(&set("4-9")), 0);
        assert_eq!(set("0-9").shared(&set("0-2,4,9")), 5);
        assert_eq!(set("").shared(&set("1")), 0);
    }

    /// Every other index of 100,000: the most intervals that a job of this size can have.
    #[test]
    fn a_set_of_half_of_100_000_indexes_is_parsed_changed_and_written() {
        let text: Vec<String> = (0..50_000).map(|half| (2 * half).to_string()).collect();
        let text = text.join(",");
        let even = Intervals::parse(&text, 100_000);
        assert_eq!((even.0.len(), even.total()), (50_000, 50_000));
        assert_eq!(even.to_string(), text);
        assert!((0..100_000).all(|index| even.has(index) == (index % 2 == 0)));
        assert!(
            even.missing(50_001, 100_000)
                .iter()
                .copied()
                .eq((0..50_000).map(|half| 2 * half + 1))
        );

        let odd: BTreeSet<i64> = (0..50_000).map(|half| 2 * half + 1).collect();
        let odd_alone = Intervals::default().with(&odd);
        assert_eq!((even.shared(&odd_alone), even.shared(&even)), (0, 50_000));
        assert_eq!(even.with(&odd).to_string(), "0-99999");
        assert_eq!(even.and(&odd_alone).0, [(0, 99_999)]);
    }

    #[test]
    fn missing_indexes_are_sorted_and_within_bounds() {
        assert_eq!(set("1,3-5").missing(4, 8), [0, 2, 6, 7]);
        assert_eq!(set("1,3-5").missing(2, 8), [0, 2]);
        assert_eq!(set("1,3-5").missing(9, 5), [0, 2]);
        assert_eq!(set("0-9").missing(3, 5), [0; 0]);
        assert_eq!(set("").missing(0, 5), [0; 0]);
    }
}
