//! Histograms with the buckets that they were declared with, and with those of a native histogram if the process has
//! them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::proto::Metric;

use super::created;
use super::native::Native;

/// The series of a histogram.
#[derive(Clone)]
pub struct HistogramVec {
    declared: created::HistogramVec,
    native: Option<NativeSeries>,
}

/// The native histograms of all series.
#[derive(Clone)]
struct NativeSeries {
    labels: Arc<[String]>,
    series: Arc<Mutex<Series>>,
}

/// By the values of the labels.
type Series = HashMap<Vec<String>, Arc<Mutex<Native>>>;

/// A series of a histogram.
#[derive(Clone)]
pub struct Histogram {
    declared: created::Histogram,
    native: Option<Arc<Mutex<Native>>>,
}

impl HistogramVec {
    pub(super) fn new(declared: created::HistogramVec, labels: &[&str], is_native: bool) -> Self {
        let native = is_native.then(|| NativeSeries {
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            series: Arc::default(),
        });
        Self { declared, native }
    }

    pub(super) fn declared(&self) -> &created::HistogramVec {
        &self.declared
    }

    /// The series with these values, created if there is none.
    ///
    /// # Panics
    /// The number of values is not that of the labels.
    pub fn with_label_values<V: AsRef<str> + std::fmt::Debug>(&self, values: &[V]) -> Histogram {
        self.get_metric_with_label_values(values)
            .expect("the values fit the declared labels")
    }

    pub(super) fn get_metric_with_label_values<V: AsRef<str> + std::fmt::Debug>(
        &self,
        values: &[V],
    ) -> prometheus::Result<Histogram> {
        let declared = self.declared.get_metric_with_label_values(values)?;
        let native = self.native.as_ref().map(|native| {
            let values = values.iter().map(|value| value.as_ref().to_owned());
            let mut series = native.series.lock();
            series.entry(values.collect()).or_default().clone()
        });
        Ok(Histogram { declared, native })
    }

    /// The native histogram of a series as it is gathered; none if there is none, or if restrictions have changed the
    /// labels.
    pub(super) fn native(&self, metric: &Metric) -> Option<Native> {
        let native = self.native.as_ref()?;
        let value = |name: &String| {
            let mut pairs = metric.get_label().iter();
            pairs
                .find(|pair| pair.name() == name)
                .map(|pair| pair.value().to_owned())
        };
        let values: Option<Vec<String>> = native.labels.iter().map(value).collect();
        let series = native.series.lock().get(&values?)?.clone();
        let native = series.lock().clone();
        Some(native)
    }
}

impl Histogram {
    pub fn observe(&self, value: f64) {
        self.declared.observe(value);
        if let Some(native) = &self.native {
            native.lock().observe(value);
        }
    }
}
