//! The plugin's metrics.

use crate::error::Error;
use crate::imports::{Imports, MetricOperation};
use crate::time::Time;

/// The plugin's metrics: [`Host::metrics`](crate::Host::metrics). `labels` are the label values, in the order of the
/// declared names.
#[derive(Clone, Copy)]
pub struct Metrics<'a> {
    pub(crate) imports: &'a dyn Imports,
}

impl Metrics<'_> {
    /// Adds to a counter.
    pub fn add(&self, metric: &str, labels: &[&str], value: f64) {
        self.imports
            .metrics(MetricOperation::Add, metric, labels, value);
    }

    /// Sets a gauge.
    pub fn set(&self, metric: &str, labels: &[&str], value: f64) {
        self.imports
            .metrics(MetricOperation::Set, metric, labels, value);
    }

    /// Counts a sync that began at `start`, and observes its duration in seconds. Both metrics have the label `code`:
    /// the status code of the API server's error, 500 for other errors, and 200 for a success.
    pub fn sync<T>(&self, counter: &str, histogram: &str, start: Time, result: &Result<T, Error>) {
        let status = |error: &Error| error.api().map_or(0, |error| error.status);
        let code = match result.as_ref().map_or_else(status, |_| 200) {
            0 => "500".to_owned(),
            status => status.to_string(),
        };
        let seconds = self.imports.clock_now().since(start).as_secs_f64();
        self.add(counter, &[&code], 1.0);
        self.observe(histogram, &[&code], seconds);
    }

    /// Observes a value in a histogram.
    pub fn observe(&self, metric: &str, labels: &[&str], value: f64) {
        self.imports
            .metrics(MetricOperation::Observe, metric, labels, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_types::ApiError;

    use crate::testing::Cluster;

    #[test]
    fn a_sync_is_counted_and_timed_by_the_status_of_its_error() {
        let cluster = Cluster::new();
        let host = cluster.host();
        let start = host.now();
        for result in [
            Ok(()),
            Err(ApiError::denied("no").into()),
            Err(Error::failed("no")),
        ] {
            host.metrics().sync("syncs", "seconds", start, &result);
        }
        let metrics = cluster.metrics().into_iter();
        let labels: Vec<_> = metrics
            .map(|(_, name, labels, value)| (name, labels.join(","), value))
            .collect();
        let of = |name: &str, code: &str, value| (name.to_owned(), code.to_owned(), value);
        let code = |code| [of("syncs", code, 1.0), of("seconds", code, 0.0)];
        assert_eq!(labels, [code("200"), code("403"), code("500")].concat());
    }
}
