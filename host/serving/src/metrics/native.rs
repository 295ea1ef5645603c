//! Native histograms: buckets whose bounds grow exponentially, for the feature gate NativeHistograms. With the options of
//! Kubernetes' components, each bound is at most 1.1 times the one before, and 160 buckets are kept at most: then each two
//! become one.

use std::collections::BTreeMap;

/// The first schema: 2^3 buckets for each power of two.
const SCHEMA: i32 = 3;
/// The last schema that Prometheus knows.
const LAST_SCHEMA: i32 = -4;
/// The maximum number of buckets besides the zero bucket.
pub(super) const MAX_BUCKETS: usize = 160;
/// Values up to this one count as zero: 2^-128, Prometheus' default.
pub(super) const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// The buckets of a histogram.
#[derive(Clone, Debug)]
pub(super) struct Native {
    pub(super) schema: i32,
    pub(super) zero: u64,
    /// The counts by the number of the bucket. Bucket `n` ends at 2^(n/2^schema).
    pub(super) positive: BTreeMap<i32, u64>,
    /// The same for the absolute values of negative numbers.
    pub(super) negative: BTreeMap<i32, u64>,
}

/// Buckets as Prometheus transfers them: the lengths of runs without large gaps, and the differences of the counts.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Spans {
    /// The distance to the previous run, or the first bucket's number; and the number of buckets.
    pub(super) spans: Vec<(i32, u32)>,
    pub(super) deltas: Vec<i64>,
}

impl Default for Native {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            zero: 0,
            positive: BTreeMap::new(),
            negative: BTreeMap::new(),
        }
    }
}

impl Native {
    /// Counts a value. Those that are not finite are in no bucket.
    pub(super) fn observe(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        if value.abs() <= ZERO_THRESHOLD {
            self.zero += 1;
            return;
        }
        let bucket = bucket(value.abs(), self.schema);
        let buckets = match value > 0.0 {
            true => &mut self.positive,
            false => &mut self.negative,
        };
        *buckets.entry(bucket).or_default() += 1;
        while self.positive.len() + self.negative.len() > MAX_BUCKETS && self.schema > LAST_SCHEMA {
            self.schema -= 1;
            self.positive = halved(&self.positive);
            self.negative = halved(&self.negative);
        }
    }
}

/// The number of the bucket of a positive value.
fn bucket(value: f64, schema: i32) -> i32 {
    let position = value.log2() * f64::from(schema).exp2();
    let nearest = position.round();
    // The logarithm of a bound may be off by a few bits.
    let is_bound = (nearest / f64::from(schema).exp2()).exp2() >= value;
    let number = match (position - nearest).abs() < 1e-9 {
        true if is_bound => nearest,
        true => nearest + 1.0,
        false => position.ceil(),
    };
    number as i32
}

/// Buckets of twice the width.
fn halved(buckets: &BTreeMap<i32, u64>) -> BTreeMap<i32, u64> {
    let mut wider = BTreeMap::new();
    for (number, count) in buckets {
        *wider.entry((number + 1) >> 1).or_default() += count;
    }
    wider
}

impl Spans {
    pub(super) fn of(buckets: &BTreeMap<i32, u64>) -> Self {
        let mut all = Self::default();
        let (mut next, mut last) = (0, 0);
        for (&number, &count) in buckets {
            let gap = number - next;
            match all.spans.last_mut() {
                // Empty buckets take less than another span.
                Some((_, length)) if gap <= 2 => {
                    *length += gap.unsigned_abs() + 1;
                    for _ in 0..gap {
                        all.deltas.push(-last);
                        last = 0;
                    }
                }
                _ => all.spans.push((gap, 1)),
            }
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            all.deltas.push(count - last);
            (next, last) = (number + 1, count);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(values: impl IntoIterator<Item = f64>) -> Native {
        let mut native = Native::default();
        values.into_iter().for_each(|value| native.observe(value));
        native
    }

    #[test]
    fn bounds_belong_to_the_bucket_that_they_end() {
        let native = observed([0.25, 0.5, 1.0, 1.0001, 2.0, 4.0, -1.0, 0.0, f64::NAN]);
        assert_eq!(native.schema, 3);
        assert_eq!((native.zero, native.negative), (1, [(0, 1)].into()));
        let expected = [(-16, 1), (-8, 1), (0, 1), (1, 1), (8, 1), (16, 1)];
        assert_eq!(native.positive, expected.into());
    }

    #[test]
    fn each_value_is_between_the_bounds_of_its_bucket() {
        for schema in -4..=3 {
            for step in -4000..4000 {
                let value = 1.01f64.powi(step);
                let number = f64::from(bucket(value, schema));
                let bound = |number: f64| (number / f64::from(schema).exp2()).exp2();
                assert!(
                    value <= bound(number) && value > bound(number - 1.0),
                    "{value}"
                );
            }
        }
    }

    #[test]
    fn many_buckets_become_wider_ones() {
        let native = observed((0..300).map(|step| 1.1f64.powi(step)));
        assert_eq!(native.schema, 1);
        assert!(native.positive.len() <= MAX_BUCKETS);
        assert_eq!(native.positive.values().sum::<u64>(), 300);
        assert_eq!(
            halved(&[(-3, 1), (-2, 2), (-1, 4), (0, 8), (1, 16), (2, 32)].into()),
            [(-1, 3), (0, 12), (1, 48)].into()
        );
    }

    #[test]
    fn spans_bridge_small_gaps() {
        let spans = Spans::of(&[(-2, 3), (-1, 1), (1, 4), (9, 4)].into());
        assert_eq!(spans.spans, [(-2, 4), (7, 1)]);
        assert_eq!(spans.deltas, [3, -2, -1, 4, 0]);
    }
}
