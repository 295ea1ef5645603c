//! Counters and histograms that know when each series was created. Only Prometheus' protobuf format has this time.

use std::ops::Deref;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::core::{Metric, MetricVec, MetricVecBuilder};
use prometheus::proto::{self, MetricType};
use prometheus::{HistogramOpts, Opts};

/// A series, and when it was created.
#[derive(Clone, Debug)]
pub struct Created<M> {
    series: M,
    /// In milliseconds since the Unix epoch.
    at: i64,
}

/// Builds the series of a family with their times.
#[derive(Clone)]
pub struct Builder<B>(B);

/// Names the type of a family's builder, which `prometheus` does not export.
pub trait Built {
    type Builder: MetricVecBuilder;
}

type CounterBuilder = <prometheus::CounterVec as Built>::Builder;
type HistogramBuilder = <prometheus::HistogramVec as Built>::Builder;

pub type Counter = Created<prometheus::Counter>;
pub type CounterVec = MetricVec<Builder<CounterBuilder>>;
pub(super) type Histogram = Created<prometheus::Histogram>;
pub(super) type HistogramVec = MetricVec<Builder<HistogramBuilder>>;

pub(super) fn counters(opts: Opts, labels: &[&str]) -> prometheus::Result<CounterVec> {
    let opts = opts.variable_labels(owned(labels));
    MetricVec::create(MetricType::COUNTER, Builder(CounterBuilder::new()), opts)
}

pub(super) fn histograms(opts: HistogramOpts, labels: &[&str]) -> prometheus::Result<HistogramVec> {
    let opts = opts.variable_labels(owned(labels));
    MetricVec::create(MetricType::HISTOGRAM, Builder(HistogramBuilder {}), opts)
}

fn owned(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

impl<B: MetricVecBuilder> Built for MetricVec<B> {
    type Builder = B;
}

impl<B: MetricVecBuilder> MetricVecBuilder for Builder<B> {
    type M = Created<B::M>;
    type P = B::P;

    fn build<V: AsRef<str>>(&self, opts: &B::P, values: &[V]) -> prometheus::Result<Self::M> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let at = now.unwrap_or_default().as_millis();
        Ok(Created {
            series: self.0.build(opts, values)?,
            at: i64::try_from(at).unwrap_or(i64::MAX),
        })
    }
}

impl<M> Deref for Created<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.series
    }
}

impl<M: Metric> Metric for Created<M> {
    /// The time stands in the field for the time of the sample: `prometheus` has no field for it, and no sample here has
    /// a time.
    fn metric(&self) -> proto::Metric {
        let mut metric = self.series.metric();
        metric.set_timestamp_ms(self.at);
        metric
    }
}
