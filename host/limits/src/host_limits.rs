//! The limits of one plugin on the host's side: log lines, events, keys that the guest adds, and its quarantine. Its
//! guest calls and its workers share them. Counts how often each limit was reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use flyball_policy::LimitPolicy;
use flyball_types::ApiError;
use flyball_types::description::MAX_KEY;
use flyball_workqueue::Held;

use crate::quarantine::Quarantine;
use crate::rate::RateGate;
use crate::stop::StopSignal;

/// Log lines per second and at once of a dropped-in plugin. Built-ins have no limit.
const LOG_LINES: (f64, u32) = (100.0, 1000);
/// Events per second and at once of a dropped-in plugin.
const EVENTS: (f64, u32) = (10.0, 200);
/// The longest message of an event in bytes: of a built-in, and of a dropped-in plugin. The API's `v1` has no limit of
/// its own, and kube-controller-manager passes on whatever a webhook says. The rest is cut off.
const EVENT_MESSAGE: (usize, usize) = (32 << 10, 1 << 10);
/// The keys in all queues of a dropped-in plugin together up to which its guest may add more.
const QUEUED_KEYS: u32 = 100_000;
/// The average size in bytes that each of the queued keys may have.
const AVERAGE_KEY: usize = 160;

pub struct HostLimits {
    plugin: Arc<str>,
    pub log_lines: RateGate,
    pub events: RateGate,
    /// The longest message of an event in bytes.
    pub event_message: usize,
    pub quarantine: Quarantine,
    pub route: RouteLoad,
    /// Stops writes that have not started.
    pub stop: Arc<StopSignal>,
    /// 0 for no limit.
    queued_keys: u32,
    refused_keys: AtomicU64,
    full_memo: AtomicU64,
}

/// The deltas that wait for the guest's `route`, as of the last call.
#[derive(Default)]
pub struct RouteLoad {
    waiting: AtomicUsize,
    failing: AtomicUsize,
    /// The bytes that the waiting deltas take.
    bytes: AtomicUsize,
    refused: AtomicU64,
}

impl RouteLoad {
    /// Sets how many objects wait, how many of them fail and the bytes that they take, and counts changes that were
    /// refused.
    pub fn set(&self, waiting: usize, failing: usize, bytes: usize, refused: u64) {
        self.waiting.store(waiting, Relaxed);
        self.failing.store(failing, Relaxed);
        self.bytes.store(bytes, Relaxed);
        self.refused.fetch_add(refused, Relaxed);
    }

    /// Objects whose changes wait for `route`.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// The bytes that the waiting deltas take.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Objects on which `route` fails.
    pub fn failing(&self) -> usize {
        self.failing.load(Relaxed)
    }
}

impl HostLimits {
    /// The limits of a policy. Where the policy gives none, the host's defaults apply, which do not limit built-ins.
    /// Versions of a plugin that run at the same time share their `stop`: a removal ends the calls of all of them.
    pub fn new(
        plugin: Arc<str>,
        policy: &LimitPolicy,
        is_builtin: bool,
        stop: Arc<StopSignal>,
    ) -> Arc<Self> {
        let gate = |rate: Option<f64>, burst: Option<u32>, default: (f64, u32)| {
            let default_rate = if is_builtin { 0.0 } else { default.0 };
            RateGate::new(rate.unwrap_or(default_rate), burst.unwrap_or(default.1))
        };
        Arc::new(Self {
            plugin,
            log_lines: gate(
                policy.log_lines_per_second,
                policy.log_lines_burst,
                LOG_LINES,
            ),
            events: gate(policy.events_per_second, policy.events_burst, EVENTS),
            event_message: if is_builtin {
                EVENT_MESSAGE.0
            } else {
                EVENT_MESSAGE.1
            },
            quarantine: Quarantine::default(),
            stop,
            route: RouteLoad::default(),
            queued_keys: policy
                .queued_keys
                .unwrap_or(if is_builtin { 0 } else { QUEUED_KEYS }),
            refused_keys: AtomicU64::new(0),
            full_memo: AtomicU64::new(0),
        })
    }

    /// Keys in the queues up to which the guest may add more; none for no limit.
    pub fn queued_keys(&self) -> Option<u32> {
        Some(self.queued_keys).filter(|most| *most > 0)
    }

    /// Checks whether the guest may add this key. `held` returns the keys that all queues of the plugin hold.
    pub fn check_key(&self, key: &str, held: impl FnOnce() -> Held) -> Result<(), ApiError> {
        let refuse = |message| {
            self.refused_keys.fetch_add(1, Relaxed);
            Err(ApiError::full(message))
        };
        if key.len() > MAX_KEY {
            return refuse(format!(
                "a key of {} bytes is longer than {MAX_KEY}",
                key.len()
            ));
        }
        if self.queued_keys == 0 {
            return Ok(());
        }
        let (Held { keys, bytes, .. }, most) = (held(), self.queued_keys as usize);
        let most_bytes = most.saturating_mul(AVERAGE_KEY);
        if keys >= most || bytes.saturating_add(key.len()) > most_bytes {
            return refuse(format!(
                "the plugin's queues hold {keys} keys of {bytes} bytes, and its guest may add keys up to {most} of \
                 {most_bytes} bytes together (`queued-keys` in the policy)"
            ));
        }
        Ok(())
    }

    /// Counts a result of the memo that reports a full memo.
    pub fn note_memo<T>(&self, result: Result<T, ApiError>) -> Result<T, ApiError> {
        if result.as_ref().is_err_and(|error| error.status == 507) {
            self.full_memo.fetch_add(1, Relaxed);
        }
        result
    }

    /// Counts and logs that a watch lost changes, because the plugin fell too far behind.
    pub fn note_restart(&self) {
        self.route.refused.fetch_add(1, Relaxed);
        if self.log_lines.pass() {
            tracing::warn!(
                plugin = &*self.plugin,
                "lost changes: too many wait for the plugin's mappings, so a watch begins again with all objects"
            );
        }
    }

    /// Returns how often each limit was reached, by its key in the policy.
    pub fn hits(&self) -> [(&'static str, u64); 5] {
        [
            ("log-lines-per-second", self.log_lines.dropped()),
            ("events-per-second", self.events.dropped()),
            ("queued-keys", self.refused_keys.load(Relaxed)),
            ("memo", self.full_memo.load(Relaxed)),
            ("route-backlog", self.route.refused.load(Relaxed)),
        ]
    }

    /// Logs how many log lines and events were dropped since the last call.
    pub fn report_dropped(&self) {
        for (what, gate) in [("log lines", &self.log_lines), ("events", &self.events)] {
            let dropped = gate.take_unreported();
            if dropped > 0 {
                tracing::warn!(
                    plugin = &*self.plugin,
                    dropped,
                    "dropped {what} beyond the plugin's limit"
                );
            }
        }
    }
}

impl Drop for HostLimits {
    fn drop(&mut self) {
        self.report_dropped();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_adds_keys_up_to_the_limit_and_none_that_is_too_long() {
        let policy = LimitPolicy {
            queued_keys: Some(3),
            ..LimitPolicy::default()
        };
        let limits = HostLimits::new("greeter".into(), &policy, false, Arc::default());
        let held = |keys, bytes| {
            move || Held {
                keys,
                bytes,
                ..Held::default()
            }
        };
        limits.check_key("c", held(2, 2)).unwrap();
        let full = limits.check_key("d", held(3, 3)).unwrap_err();
        assert_eq!(full.reason, "Full");
        let most = 3 * AVERAGE_KEY;
        limits.check_key("c", held(1, most - 1)).unwrap();
        assert!(limits.check_key("cc", held(1, most - 1)).is_err());
        let too_long = "x".repeat(MAX_KEY + 1);
        let too_long = limits.check_key(&too_long, Held::default).unwrap_err();
        assert!(too_long.message.contains("1025 bytes"));
        assert_eq!(limits.hits()[2], ("queued-keys", 3));
        let built_in = HostLimits::new("a".into(), &LimitPolicy::default(), true, Arc::default());
        let all = held(usize::MAX, usize::MAX);
        built_in.check_key("a", all).unwrap();
    }

    #[test]
    fn a_built_in_logs_without_limit_unless_the_policy_sets_one() {
        let policy = LimitPolicy::default();
        let passed = |limits: &HostLimits| (0..10_000).filter(|_| limits.log_lines.pass()).count();
        assert_eq!(
            passed(&HostLimits::new("a".into(), &policy, true, Arc::default())),
            10_000
        );
        assert!(passed(&HostLimits::new("a".into(), &policy, false, Arc::default())) < 2000);
        let policy = LimitPolicy {
            log_lines_per_second: Some(1.0),
            log_lines_burst: Some(7),
            ..policy
        };
        assert!(passed(&HostLimits::new("a".into(), &policy, true, Arc::default())) < 20);
    }
}
