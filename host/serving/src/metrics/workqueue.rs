//! The `workqueue_*` metrics, with client-go's names and buckets.

use std::sync::Arc;
use std::time::Duration;

use flyball_workqueue::Snapshot;
use prometheus::{Gauge, GaugeVec, exponential_buckets};

use super::{Counter, CounterVec, Histogram, HistogramVec, Metrics, MetricsError, OnScrape};

/// The counters of a queue, for `flyball_workqueue::Config::metrics`.
pub struct QueueMetrics {
    adds: Counter,
    queued: Histogram,
    worked: Histogram,
    retries: Counter,
}

/// The gauges of a queue. Dropping it removes their series.
#[must_use = "the queue's gauges are removed when this is dropped"]
pub struct Gauges {
    name: String,
    vecs: [GaugeVec; 3],
    _scrape: OnScrape,
}

impl Metrics {
    /// The counters and histograms of the queue of this name. Queues of one name share them, as in client-go.
    pub fn workqueue(&self, name: &str) -> Result<Arc<QueueMetrics>, MetricsError> {
        // 10 ns to 10 s.
        let buckets = exponential_buckets(1e-8, 10.0, 10).map_err(|source| {
            MetricsError::Invalid("workqueue_queue_duration_seconds".to_owned(), source)
        })?;
        let counter = |suffix: &str, help| -> Result<Counter, MetricsError> {
            let vec: CounterVec = self.counter(&format!("workqueue_{suffix}"), help, &["name"])?;
            Ok(vec.with_label_values(&[name]))
        };
        let histogram = |suffix: &str, help| -> Result<Histogram, MetricsError> {
            let vec: HistogramVec =
                self.histogram(&format!("workqueue_{suffix}"), help, &["name"], &buckets)?;
            Ok(vec.with_label_values(&[name]))
        };
        Ok(Arc::new(QueueMetrics {
            adds: counter("adds_total", "Total number of adds handled by workqueue")?,
            queued: histogram(
                "queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested.",
            )?,
            worked: histogram(
                "work_duration_seconds",
                "How long in seconds processing an item from workqueue takes.",
            )?,
            retries: counter(
                "retries_total",
                "Total number of retries handled by workqueue",
            )?,
        }))
    }

    /// The gauges of the queue of this name, read from `snapshot` at each scrape. `snapshot` returns `None` once the
    /// queue is dropped.
    pub fn workqueue_gauges(
        &self,
        name: &str,
        snapshot: impl Fn() -> Option<Snapshot> + Send + Sync + 'static,
    ) -> Result<Gauges, MetricsError> {
        let vecs = [
            self.gauge("workqueue_depth", "Current depth of workqueue", &["name"])?,
            self.gauge(
                "workqueue_unfinished_work_seconds",
                "Seconds of work in progress over all workers, which work_duration does not include yet. A large value indicates stuck workers, and its growth rate their number.",
                &["name"],
            )?,
            self.gauge(
                "workqueue_longest_running_processor_seconds",
                "Seconds that the longest running worker has been processing its item.",
                &["name"],
            )?,
        ];
        let [depth, unfinished, longest]: [Gauge; 3] =
            vecs.each_ref().map(|vec| vec.with_label_values(&[name]));
        let scrape = self.on_scrape(move || {
            let snapshot = snapshot().unwrap_or_default();
            depth.set(snapshot.depth() as f64);
            unfinished.set(snapshot.unfinished_work.as_secs_f64());
            longest.set(snapshot.longest_running.as_secs_f64());
        });
        Ok(Gauges {
            name: name.to_owned(),
            vecs,
            _scrape: scrape,
        })
    }
}

impl flyball_workqueue::Metrics for QueueMetrics {
    fn on_add(&self) {
        self.adds.inc();
    }

    fn on_get(&self, queued: Duration) {
        self.queued.observe(queued.as_secs_f64());
    }

    fn on_done(&self, worked: Duration) {
        self.worked.observe(worked.as_secs_f64());
    }

    fn on_retry(&self) {
        self.retries.inc();
    }
}

impl Drop for Gauges {
    fn drop(&mut self) {
        for vec in &self.vecs {
            // Fails only if the series was removed already.
            let _ = vec.remove_label_values(&[&self.name]);
        }
    }
}

#[cfg(test)]
mod tests {
    use flyball_workqueue::Metrics as _;

    use super::*;

    #[test]
    fn a_queue_counts_as_client_go_does() -> Result<(), MetricsError> {
        let metrics = Metrics::default();
        let queue = metrics.workqueue("replicaset")?;
        queue.on_add();
        queue.on_get(Duration::from_micros(5));
        let text = metrics.render();
        assert!(
            text.contains("workqueue_adds_total{name=\"replicaset\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"9.999999999999999e-06\"} 1\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("workqueue_retries_total{name=\"replicaset\"} 0\n"),
            "{text}"
        );
        assert_eq!(
            text.matches("workqueue_work_duration_seconds_bucket{")
                .count(),
            11
        );
        Ok(())
    }

    #[test]
    fn the_gauges_are_read_at_each_scrape_and_removed_with_the_queue() -> Result<(), MetricsError> {
        let metrics = Metrics::default();
        let gauges = metrics.workqueue_gauges("job", || {
            Some(Snapshot {
                normal: 2,
                dirty: 1,
                ..Snapshot::default()
            })
        })?;
        assert!(
            metrics
                .render()
                .contains("workqueue_depth{name=\"job\"} 3\n")
        );
        drop(gauges);
        assert!(!metrics.render().contains("name=\"job\""));
        Ok(())
    }
}
