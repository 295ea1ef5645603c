//! What holds a plugin within its limits on the host's side: the gates of its log and its events, its quarantine, and how
//! often each of these was needed. Shared by its calls and its workers; what bounds the guest itself is in `flyball_plugin`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flyball_types::ApiError;

use crate::limits::gate::Gate;
use crate::limits::quarantine::Quarantine;
use crate::policy::LimitPolicy;
use crate::runtime::queue::Queue;

/// Lines of the log per second and at once, of a plugin that was dropped in; the built-ins' are not limited.
const LOG_LINES: (f64, u32) = (100.0, 1000);
/// Events per second and at once, of a plugin that was dropped in.
const EVENTS: (f64, u32) = (10.0, 200);
/// Keys in a queue up to which a plugin that was dropped in may add more by itself.
const QUEUED_KEYS: u32 = 100_000;
/// Bytes of a key: the API's longest namespace and name with a kind and a UID have less.
const KEY: usize = 1024;

/// Holds one plugin within its limits.
pub(crate) struct Guard {
    plugin: Arc<str>,
    pub(crate) log_lines: Gate,
    pub(crate) events: Gate,
    pub(crate) quarantine: Quarantine,
    /// 0 for no limit.
    queued_keys: u32,
    refused_keys: AtomicU64,
    full_memo: AtomicU64,
}

impl Guard {
    /// A guard with the limits of a policy; where it gives none, with the host's, which spare the built-ins.
    pub(crate) fn new(plugin: Arc<str>, policy: &LimitPolicy, is_builtin: bool) -> Arc<Self> {
        let gate = |rate: Option<f64>, burst: Option<u32>, default: (f64, u32)| {
            let default_rate = if is_builtin { 0.0 } else { default.0 };
            Gate::new(rate.unwrap_or(default_rate), burst.unwrap_or(default.1))
        };
        Arc::new(Self {
            plugin,
            log_lines: gate(
                policy.log_lines_per_second,
                policy.log_lines_burst,
                LOG_LINES,
            ),
            events: gate(policy.events_per_second, policy.events_burst, EVENTS),
            quarantine: Quarantine::default(),
            queued_keys: policy
                .queued_keys
                .unwrap_or(if is_builtin { 0 } else { QUEUED_KEYS }),
            refused_keys: AtomicU64::new(0),
            full_memo: AtomicU64::new(0),
        })
    }

    /// Whether the guest may add this key to a queue by itself.
    pub(crate) fn check_key(&self, queue: &Queue, key: &str) -> Result<(), ApiError> {
        let refuse = |message| {
            self.refused_keys.fetch_add(1, Relaxed);
            Err(ApiError::new(507, "Full", message))
        };
        if key.len() > KEY {
            return refuse(format!("a key of {} bytes is longer than {KEY}", key.len()));
        }
        if self.queued_keys > 0 {
            let snapshot = queue.keys.snapshot();
            if snapshot.depth() + snapshot.delayed >= self.queued_keys as usize {
                return refuse(format!(
                    "the queue holds {} keys, and the plugin may add no more",
                    self.queued_keys
                ));
            }
        }
        Ok(())
    }

    /// Takes note of what the memo answered.
    pub(crate) fn note_memo<T>(&self, answer: Result<T, ApiError>) -> Result<T, ApiError> {
        if answer.as_ref().is_err_and(|error| error.status == 507) {
            self.full_memo.fetch_add(1, Relaxed);
        }
        answer
    }

    /// How often each of the host's limits was hit, by its key in the policy.
    pub(crate) fn hits(&self) -> [(&'static str, u64); 4] {
        [
            ("log-lines-per-second", self.log_lines.dropped()),
            ("events-per-second", self.events.dropped()),
            ("queued-keys", self.refused_keys.load(Relaxed)),
            ("memo", self.full_memo.load(Relaxed)),
        ]
    }

    /// Tells the operator, in a line for each, what was dropped since this was last called. Called now and then.
    pub(crate) fn tell_dropped(&self) {
        for (what, gate) in [
            ("lines of the log", &self.log_lines),
            ("events", &self.events),
        ] {
            let dropped = gate.take_untold();
            if dropped > 0 {
                tracing::warn!(
                    controller = &*self.plugin,
                    dropped,
                    "dropped {what} beyond the plugin's limit"
                );
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.tell_dropped();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flyball_serving::Metrics;
    use flyball_types::description;

    use super::*;

    fn queue() -> Queue {
        let described = description::Queue {
            name: "q".into(),
            ..description::Queue::default()
        };
        Queue::new(&described, &Metrics::new()).unwrap()
    }

    #[tokio::test]
    async fn a_guest_adds_keys_up_to_the_limit_and_they_must_be_keys() {
        let policy = LimitPolicy {
            queued_keys: Some(3),
            ..LimitPolicy::default()
        };
        let (guard, queue) = (Guard::new("greeter".into(), &policy, false), queue());
        // Those that wait for their time count too.
        for (key, delay) in [("a", 0), ("b", 0), ("c", 1000)] {
            guard.check_key(&queue, key).unwrap();
            queue.add(key.into(), Duration::from_secs(delay), &"a".into());
        }
        assert_eq!(guard.check_key(&queue, "d").unwrap_err().reason, "Full");
        assert!(
            guard
                .check_key(&queue, &"x".repeat(KEY + 1))
                .unwrap_err()
                .message
                .contains("1025 bytes")
        );
        assert_eq!(guard.hits()[2], ("queued-keys", 2));
    }

    #[test]
    fn a_built_in_says_what_it_wants_unless_the_policy_limits_it() {
        let policy = LimitPolicy::default();
        let passed = |guard: &Guard| (0..10_000).filter(|_| guard.log_lines.pass()).count();
        assert_eq!(passed(&Guard::new("a".into(), &policy, true)), 10_000);
        assert!(passed(&Guard::new("a".into(), &policy, false)) < 2000);
        let policy = LimitPolicy {
            log_lines_per_second: Some(1.0),
            log_lines_burst: Some(7),
            ..policy
        };
        assert!(passed(&Guard::new("a".into(), &policy, true)) < 20);
    }
}
