//! A plugin's workqueue. Its keys are strings, and each has the reason for which it was queued.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flyball_cache::{Delta, Object};
use flyball_serving::Metrics;
use flyball_serving::metrics::{Gauges, MetricsError, QueueMetrics};
use flyball_traces::Trace;
use flyball_types::Kind;
use flyball_types::description::{self, DeltaType};
use flyball_workqueue::{BucketConfig, Config, Priority, RateLimit, WorkQueue};
use tokio::time::Instant;

/// The minimum interval between two reconciles of a key, unless an object is deleted: in a burst of changes, each write
/// but the last is overwritten by the next.
const MINIMUM_INTERVAL: Duration = Duration::from_millis(25);

/// Why a key was queued, and the trace that its reconcile continues, if there is one.
#[derive(Clone, Debug)]
pub struct Cause {
    pub reason: Reason,
    pub trace: Option<Trace>,
}

/// Why a key was queued.
#[derive(Clone, Debug)]
pub enum Reason {
    /// An object changed.
    Delta {
        kind: Arc<Kind>,
        object: Arc<str>,
        delta: DeltaType,
    },
    /// The guest asked for it.
    Requeued { by: Arc<str> },
    /// The guest's `route` returned it. The cause is known if `route` was called for one delta.
    Routed { cause: Option<Arc<Reason>> },
    /// Its last reconcile failed.
    Retry,
    /// A ticker added it.
    Tick,
    /// The plugin was quarantined when its turn came.
    HeldBack,
    /// An operator ended a quarantine.
    Resumed,
    /// Another version reconciles it from now on, or is compared with one that reconciles others.
    Moved,
}

/// One of a plugin's queues, as a version describes it. Its keys and their backoffs outlive the version.
pub struct Queue {
    pub name: Arc<str>,
    pub keys: WorkQueue<Arc<str>, Cause>,
    /// How often a key is retried; none for no limit.
    pub max_retries: Option<u32>,
    standby: Arc<Standby>,
    gauges: Arc<Gauges>,
}

/// Hides from the metrics that a standby has keys: no worker is late with them. kube-controller-manager has no queues
/// before it leads, and alerts on `workqueue_depth` and `workqueue_queue_duration_seconds` rely on that.
struct Standby {
    /// When the standby ended; unset before.
    ended: OnceLock<Instant>,
}

/// Leaves the time that a key waited in a standby out of the time in the queue.
struct SinceStandby {
    counted: Arc<QueueMetrics>,
    standby: Arc<Standby>,
}

impl Queue {
    /// Creates an empty queue. Its metrics have this `label`. A standby's keys are counted from
    /// [`end_standby`](Self::end_standby) on.
    pub fn new(
        described: &description::Queue,
        label: &str,
        metrics: &Metrics,
        is_standby: bool,
    ) -> Result<Self, MetricsError> {
        let rate_limit = rate_limit(described);
        let standby = Arc::new(Standby::new(is_standby));
        let events = Arc::new(SinceStandby {
            counted: metrics.workqueue(label)?,
            standby: standby.clone(),
        });
        let keys = WorkQueue::new(Config {
            rate_limit,
            minimum_interval: MINIMUM_INTERVAL,
            key_bytes: |key: &Arc<str>| key.len(),
            metrics: events,
            ..Config::default()
        });
        let (watched, shown) = (keys.clone(), standby.clone());
        let gauges = metrics
            .workqueue_gauges(label, move || shown.has_ended().then(|| watched.snapshot()))?;
        let gauges = Arc::new(gauges);
        Ok(Self {
            name: described.name.as_str().into(),
            keys,
            max_retries: described.max_retries,
            standby,
            gauges,
        })
    }

    /// From now on, workers take keys because this process leads.
    pub fn end_standby(&self) {
        self.standby.end();
    }

    /// Returns the queue with the same keys for another version, with its description.
    pub fn handed_on(&self, described: &description::Queue) -> Self {
        self.keys.set_rate_limit(rate_limit(described));
        Self {
            name: self.name.clone(),
            keys: self.keys.clone(),
            max_retries: described.max_retries,
            standby: self.standby.clone(),
            gauges: self.gauges.clone(),
        }
    }

    /// Adds a key that a guest asked for.
    pub fn add(&self, key: Arc<str>, delay: Duration, cause: Cause) {
        self.keys.add_after(key, delay, Priority::Normal, cause);
    }

    /// Enqueues a key that a delta yielded. Its reconcile continues the trace.
    pub fn enqueue(
        &self,
        key: Arc<str>,
        delay: Duration,
        kind: &Arc<Kind>,
        delta: &Delta,
        trace: Option<Trace>,
    ) {
        // Initial objects come after current changes.
        let priority = if delta.initial {
            Priority::Low
        } else {
            Priority::Normal
        };
        let reason = Reason::Delta {
            kind: kind.clone(),
            object: delta.object().key().into(),
            delta: delta.delta_type(),
        };
        let cause = Cause { reason, trace };
        if delay.is_zero() && is_deletion(delta) {
            self.keys.add_urgent(key, priority, cause);
        } else if delay.is_zero() {
            self.keys.add(key, priority, cause);
        } else {
            self.keys.add_after(key, delay, priority, cause);
        }
    }
}

impl From<Reason> for Cause {
    /// A cause without a trace.
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            trace: None,
        }
    }
}

impl Reason {
    /// Returns the kind and the key of the object whose change is the reason, if there is one.
    pub(crate) fn object(&self) -> Option<(&Kind, &str)> {
        match self {
            Self::Delta { kind, object, .. } => Some((kind, object)),
            Self::Routed { cause } => cause.as_ref()?.object(),
            _ => None,
        }
    }
}

impl Standby {
    fn new(is_standby: bool) -> Self {
        let standby = Self {
            ended: OnceLock::new(),
        };
        if !is_standby {
            standby.end();
        }
        standby
    }

    fn end(&self) {
        self.ended.get_or_init(Instant::now);
    }

    fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }
}

impl flyball_workqueue::Metrics for SinceStandby {
    fn on_add(&self) {
        self.counted.on_add();
    }

    fn on_get(&self, queued: Duration) {
        let leads = self.standby.ended.get().map(Instant::elapsed);
        self.counted.on_get(queued.min(leads.unwrap_or_default()));
    }

    fn on_done(&self, worked: Duration) {
        self.counted.on_done(worked);
    }

    fn on_retry(&self) {
        self.counted.on_retry();
    }
}

/// Whether an object was deleted, or its deletion has begun. Other objects may have to replace it.
fn is_deletion(delta: &Delta) -> bool {
    let is_deleting =
        |object: &Option<Arc<Object>>| object.as_ref().is_some_and(|object| object.is_deleting());
    delta.new.is_none() || is_deleting(&delta.new) && !is_deleting(&delta.old)
}

fn rate_limit(described: &description::Queue) -> RateLimit {
    let bucket = (described.qps > 0.0).then(|| BucketConfig {
        qps: described.qps,
        burst: described.burst.max(1),
    });
    RateLimit {
        base: Duration::from_millis(described.base_delay_ms.into()),
        max: Duration::from_millis(described.max_delay_ms.into()),
        bucket,
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delta {
                kind,
                object,
                delta,
            } => {
                let what = match delta {
                    DeltaType::Added => "added",
                    DeltaType::Modified => "modified",
                    DeltaType::Deleted => "deleted",
                };
                write!(f, "{} {object} {what}", kind.kind)
            }
            Self::Requeued { by } => write!(f, "asked for by the reconcile of {by}"),
            Self::Routed { cause: Some(cause) } => write!(f, "{cause}, mapped by `route`"),
            Self::Routed { cause: None } => f.write_str("changes that `route` mapped"),
            Self::Retry => f.write_str("retry"),
            Self::Tick => f.write_str("tick"),
            Self::HeldBack => f.write_str("held back while the plugin was quarantined"),
            Self::Resumed => f.write_str("the quarantine was ended"),
            Self::Moved => f.write_str("a step of a canary"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_queued_key_keeps_no_object() {
        let described: description::Queue =
            serde_json::from_value(json!({"name": "a"})).expect("a queue");
        let queue = Queue::new(&described, "a", &Metrics::new(), false).expect("the name is free");
        let object = json!({"metadata": {"namespace": "demo", "name": "web", "uid": "1", "resourceVersion": "1"}});
        let object = Object::parse(object.to_string().as_bytes()).expect("an object");
        let left = Arc::downgrade(&object);
        let delta = Delta {
            old: Some(object.clone()),
            new: Some(object.clone()),
            between: vec![object],
            initial: false,
        };
        let kind = Arc::new(Kind::new("", "v1", "Pod"));
        queue.enqueue("demo/web".into(), Duration::ZERO, &kind, &delta, None);
        drop(delta);
        assert_eq!(queue.keys.snapshot().normal, 1);
        assert!(left.upgrade().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_keys_of_a_standby_wait_in_no_metric() {
        let described: description::Queue =
            serde_json::from_value(json!({"name": "a"})).expect("a queue");
        let metrics = Metrics::new();
        let queue = Queue::new(&described, "a", &metrics, true).expect("the name is free");
        let reason = Reason::Tick;
        queue
            .keys
            .add("demo/web".into(), Priority::Normal, reason.into());
        tokio::time::advance(Duration::from_secs(3600)).await;
        let shows = |line: &str| metrics.render().contains(line);
        assert!(shows("workqueue_depth{name=\"a\"} 0\n"));
        queue.end_standby();
        assert!(shows("workqueue_depth{name=\"a\"} 1\n"));
        tokio::time::advance(Duration::from_secs(2)).await;
        drop(queue.keys.get().await);
        assert!(shows(
            "workqueue_queue_duration_seconds_sum{name=\"a\"} 2\n"
        ));
    }
}
