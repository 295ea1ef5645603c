//! Leaves metrics out of the exposition as the operator asks: whole families, and label values that are not in an
//! allow-list.

use std::collections::{BTreeMap, BTreeSet};

use prometheus::proto::{Bucket, Counter, Histogram, Metric, MetricFamily, MetricType};

/// The value that stands for all values of a label that are not allowed.
const UNEXPECTED: &str = "unexpected";

/// The hidden families, and the allowed values of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restrictions {
    /// Names of families.
    pub disabled: BTreeSet<String>,
    /// The allowed values by the name of a family and of its label.
    pub allowed: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Restrictions {
    /// Returns the families without the hidden ones and with restricted labels. Series whose labels become equal are
    /// added up; for gauges, the last one counts.
    pub(super) fn apply(&self, families: Vec<MetricFamily>) -> Vec<MetricFamily> {
        let shown = families
            .into_iter()
            .filter(|family| !self.disabled.contains(family.name()));
        shown.map(|family| self.restrict(family)).collect()
    }

    fn restrict(&self, mut family: MetricFamily) -> MetricFamily {
        let name = family.name().to_owned();
        let of_family: BTreeMap<&str, &BTreeSet<String>> = self
            .allowed
            .iter()
            .filter(|((metric, _), _)| *metric == name)
            .map(|((_, label), values)| (label.as_str(), values))
            .collect();
        if of_family.is_empty() {
            return family;
        }
        let kind = family.get_field_type();
        let mut merged: BTreeMap<Vec<(String, String)>, Metric> = BTreeMap::new();
        for mut metric in family.take_metric() {
            for label in metric.mut_label() {
                let allowed = of_family.get(label.name());
                if allowed.is_some_and(|values| !values.contains(label.value())) {
                    label.set_value(UNEXPECTED.to_owned());
                }
            }
            let labels = metric.get_label().iter();
            let key = labels.map(|label| (label.name().to_owned(), label.value().to_owned()));
            let key: Vec<_> = key.collect();
            let metric = match merged.remove(&key) {
                Some(other) => sum(kind, other, metric),
                None => metric,
            };
            merged.insert(key, metric);
        }
        family.set_metric(merged.into_values().collect());
        family
    }
}

fn sum(kind: MetricType, one: Metric, mut other: Metric) -> Metric {
    // The time of creation: see `created`.
    other.set_timestamp_ms(one.timestamp_ms().min(other.timestamp_ms()));
    match kind {
        MetricType::COUNTER => {
            let mut counter = Counter::default();
            counter.set_value(one.get_counter().get_value() + other.get_counter().get_value());
            other.set_counter(counter);
        }
        MetricType::HISTOGRAM => {
            let (ours, theirs) = (one.get_histogram(), other.get_histogram());
            let mut histogram = Histogram::default();
            histogram.set_sample_count(ours.get_sample_count() + theirs.get_sample_count());
            histogram.set_sample_sum(ours.get_sample_sum() + theirs.get_sample_sum());
            let buckets = ours.get_bucket().iter().zip(theirs.get_bucket());
            let buckets = buckets.map(|(ours, theirs)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(ours.upper_bound());
                bucket.set_cumulative_count(ours.cumulative_count() + theirs.cumulative_count());
                bucket
            });
            histogram.set_bucket(buckets.collect());
            other.set_histogram(histogram);
        }
        _ => {}
    }
    other
}

#[cfg(test)]
mod tests {
    use super::super::{Metrics, MetricsError};
    use super::*;

    #[test]
    fn disabled_families_and_values_that_are_not_allowed_are_not_shown() -> Result<(), MetricsError>
    {
        let metrics = Metrics::default();
        let counter = metrics.counter("a_total", "Things.", &["code", "name"])?;
        for (code, count) in [("200", 1.0), ("404", 2.0), ("500", 4.0)] {
            counter.with_label_values(&[code, "x"]).inc_by(count);
        }
        let histogram = metrics.histogram("b_seconds", "Time.", &["name"], &[1.0])?;
        histogram.with_label_values(&["x"]).observe(0.5);
        histogram.with_label_values(&["y"]).observe(2.0);
        metrics
            .gauge("c", "Gone.", &[])?
            .with_label_values::<&str>(&[])
            .set(1.0);
        let allow = |metric: &str, label: &str, value: &str| {
            let key = (metric.to_owned(), label.to_owned());
            (key, BTreeSet::from([value.to_owned()]))
        };
        metrics.restrict(Restrictions {
            disabled: ["c".to_owned()].into(),
            allowed: [
                allow("a_total", "code", "200"),
                allow("b_seconds", "name", "z"),
            ]
            .into(),
        });
        let text = metrics.render();
        for line in [
            "a_total{code=\"200\",name=\"x\"} 1\n",
            "a_total{code=\"unexpected\",name=\"x\"} 6\n",
            "b_seconds_bucket{name=\"unexpected\",le=\"1\"} 1\n",
            "b_seconds_count{name=\"unexpected\"} 2\n",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
        assert!(!text.contains("Gone") && !text.contains("404"), "{text}");
        Ok(())
    }
}
