//! Holds back the keys of a plugin that fails on all of them, and tries one key at a time to see whether it has
//! recovered. Only calls that do not return count: a guest that returns an error works.
//!
//! A few bad objects must not stop the others. So a quarantine begins only when many distinct keys fail in a row and no
//! call returns. While it lasts, keys that failed go back to their queue, and keys that were not tried yet are tried
//! first.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The number of distinct keys that must fail since a call last returned.
const KEYS: usize = 10;
/// The first and the longest pause before a trial. It doubles with each trial that fails.
const PAUSE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// The maximum number of failed keys that are remembered. Other keys count as not tried yet.
const REMEMBERED: usize = 10_000;
/// The pause after which a key is tried again that came while another one was on trial.
const SOON: Duration = Duration::from_secs(1);
/// Bytes of the reason that are kept.
const REASON: usize = 1000;

/// Whether the keys of a plugin are reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuarantineState {
    Running,
    /// No key is reconciled before `until`. After it, keys are tried one at a time, until a call returns.
    Quarantined {
        /// When the next trial begins.
        until: Instant,
        /// The last failure, for people.
        reason: Arc<str>,
    },
}

/// The number of one of the plugin's queues, and a key in it.
type Key = (usize, Arc<str>);

/// The quarantine of one plugin.
#[derive(Default)]
pub struct Quarantine {
    phase: Mutex<Phase>,
    /// Notified when waiting keys must check again.
    changed: Notify,
}

#[derive(Default)]
struct Phase {
    /// The keys whose calls failed since a call last returned.
    failed: HashSet<Key>,
    hold: Option<Hold>,
    closed: bool,
}

struct Hold {
    until: Instant,
    pause: Duration,
    reason: Arc<str>,
    on_trial: bool,
}

/// The decision about a key.
pub enum Admission<'a> {
    /// Call the guest, and report the result to the pass.
    Go(Pass<'a>),
    /// Return the key to its queue, and try it again after this time.
    Later(Duration),
    /// The plugin ends.
    Closed,
}

/// An admitted call. If it is dropped without a result, the call does not count.
pub struct Pass<'a> {
    quarantine: &'a Quarantine,
    key: Key,
    on_trial: bool,
}

impl Quarantine {
    /// Waits until a key may be reconciled, or returns when it may be admitted.
    pub async fn admit(&self, queue: usize, key: &Arc<str>) -> Admission<'_> {
        let key = (queue, key.clone());
        loop {
            // Registered before the check, so that no change in between is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let (until, on_trial) = {
                let mut phase = self.phase.lock();
                if phase.closed {
                    return Admission::Closed;
                }
                let has_failed = phase.failed.contains(&key);
                let Some(hold) = &mut phase.hold else {
                    return Admission::Go(Pass {
                        quarantine: self,
                        key,
                        on_trial: false,
                    });
                };
                let left = hold.until.saturating_duration_since(Instant::now());
                if left.is_zero() && !hold.on_trial {
                    hold.on_trial = true;
                    return Admission::Go(Pass {
                        quarantine: self,
                        key,
                        on_trial: true,
                    });
                }
                if has_failed {
                    return Admission::Later(left.max(SOON));
                }
                (hold.until, hold.on_trial)
            };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(until), if !on_trial => {}
            }
        }
    }

    pub fn state(&self) -> QuarantineState {
        match &self.phase.lock().hold {
            None => QuarantineState::Running,
            Some(hold) => QuarantineState::Quarantined {
                until: hold.until,
                reason: hold.reason.clone(),
            },
        }
    }

    /// Ends the quarantine at once, and returns the keys that failed, each with the number of its queue, so that they
    /// are tried again.
    pub fn resume(&self) -> Vec<(usize, Arc<str>)> {
        let failed = {
            let mut phase = self.phase.lock();
            phase.hold = None;
            std::mem::take(&mut phase.failed)
        };
        self.changed.notify_waiters();
        failed.into_iter().collect()
    }

    /// Stops all waiting, because the plugin ends.
    pub fn close(&self) {
        self.phase.lock().closed = true;
        self.changed.notify_waiters();
    }
}

impl Pass<'_> {
    /// Reports that the call returned, with whatever outcome. Returns whether that ended a quarantine.
    pub fn returned(mut self) -> bool {
        self.on_trial = false;
        let ended = {
            let mut phase = self.quarantine.phase.lock();
            phase.failed.clear();
            phase.hold.take().is_some()
        };
        if ended {
            self.quarantine.changed.notify_waiters();
        }
        ended
    }

    /// Reports that the call did not return, for this reason. If that began or prolonged a quarantine, returns its
    /// pause.
    pub fn failed(mut self, reason: &str) -> Option<Duration> {
        let was_trial = std::mem::take(&mut self.on_trial);
        let reason: Arc<str> = reason[..reason.floor_char_boundary(REASON)].into();
        let pause = {
            let mut phase = self.quarantine.phase.lock();
            if phase.failed.len() < REMEMBERED {
                phase.failed.insert(self.key.clone());
            }
            let pause = match &phase.hold {
                None if phase.failed.len() < KEYS => None,
                None => Some(PAUSE.0),
                Some(hold) if was_trial => Some((hold.pause * 2).min(PAUSE.1)),
                // The call began before the quarantine.
                Some(_) => None,
            };
            if let Some(pause) = pause {
                phase.hold = Some(Hold {
                    until: Instant::now() + pause,
                    pause,
                    reason,
                    on_trial: false,
                });
            }
            pause
        };
        if pause.is_some() {
            self.quarantine.changed.notify_waiters();
        }
        pause
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.on_trial {
            if let Some(hold) = &mut self.quarantine.phase.lock().hold {
                hold.on_trial = false;
            }
            self.quarantine.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pass of a key that is admitted at once.
    async fn go<'a>(quarantine: &'a Quarantine, key: &str) -> Pass<'a> {
        match quarantine.admit(0, &key.into()).await {
            Admission::Go(pass) => pass,
            Admission::Later(delay) => panic!("{key} is to come again after {delay:?}"),
            Admission::Closed => panic!("it is closed"),
        }
    }

    async fn later(quarantine: &Quarantine, key: &str) -> Duration {
        match quarantine.admit(0, &key.into()).await {
            Admission::Later(delay) => delay,
            _ => panic!("{key} is not held back"),
        }
    }

    /// A quarantine that has just begun, with the failed keys `0` to `9`.
    async fn quarantined() -> Quarantine {
        let quarantine = Quarantine::default();
        for key in 0..KEYS {
            let paused = go(&quarantine, &key.to_string()).await.failed("it trapped");
            assert_eq!(paused, (key == KEYS - 1).then_some(PAUSE.0));
        }
        quarantine
    }

    #[tokio::test(start_paused = true)]
    async fn one_key_that_fails_again_and_again_begins_no_quarantine() {
        let quarantine = Quarantine::default();
        for _ in 0..1000 {
            assert_eq!(go(&quarantine, "bad").await.failed("it trapped"), None);
        }
        assert_eq!(quarantine.state(), QuarantineState::Running);
    }

    #[tokio::test(start_paused = true)]
    async fn many_bad_keys_among_good_ones_begin_no_quarantine() {
        let quarantine = Quarantine::default();
        for key in 0..100 {
            assert_eq!(
                go(&quarantine, &key.to_string()).await.failed("it trapped"),
                None
            );
            if key % 5 == 0 {
                assert!(!go(&quarantine, "good").await.returned());
            }
        }
        assert_eq!(quarantine.state(), QuarantineState::Running);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_fails_on_every_key_is_quarantined_with_the_reason() {
        let quarantine = quarantined().await;
        let until = Instant::now() + PAUSE.0;
        assert_eq!(
            quarantine.state(),
            QuarantineState::Quarantined {
                until,
                reason: "it trapped".into()
            }
        );
        assert_eq!(later(&quarantine, "3").await, PAUSE.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_that_returns_ends_the_quarantine_and_admits_all_keys() {
        let quarantine = quarantined().await;
        let start = Instant::now();
        let others = async {
            // While the trial goes on, which takes a second.
            tokio::time::sleep(PAUSE.0 + Duration::from_millis(500)).await;
            assert!(!go(&quarantine, "other").await.returned());
            start.elapsed()
        };
        let trial = async {
            let pass = go(&quarantine, "fresh").await;
            assert_eq!(start.elapsed(), PAUSE.0);
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(later(&quarantine, "3").await, SOON);
            assert!(pass.returned());
        };
        let (waited, ()) = futures::join!(others, trial);
        assert_eq!(waited, PAUSE.0 + Duration::from_secs(1));
        assert_eq!(quarantine.state(), QuarantineState::Running);
        assert_eq!(go(&quarantine, "3").await.failed("again"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn each_trial_that_fails_doubles_the_pause_up_to_the_longest() {
        let quarantine = quarantined().await;
        let mut pauses = Vec::new();
        for trial in 0..7 {
            // Keys that failed are tried too if no other key is there.
            tokio::time::sleep(later(&quarantine, "3").await).await;
            let key = if trial == 0 {
                "3".into()
            } else {
                format!("fresh-{trial}")
            };
            pauses.extend(
                go(&quarantine, &key)
                    .await
                    .failed("again")
                    .map(|pause| pause.as_secs()),
            );
        }
        assert_eq!(pauses, [20, 40, 80, 160, 300, 300, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_that_is_dropped_leaves_its_place_to_the_next_key() {
        let quarantine = quarantined().await;
        drop(go(&quarantine, "fresh").await);
        let start = Instant::now();
        assert!(go(&quarantine, "next").await.returned());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_from_before_the_quarantine_do_not_prolong_it_and_one_that_returns_ends_it() {
        let quarantine = Quarantine::default();
        let (late, good) = (go(&quarantine, "late").await, go(&quarantine, "good").await);
        for key in 0..KEYS {
            go(&quarantine, &key.to_string()).await.failed("it trapped");
        }
        assert_eq!(late.failed("late"), None);
        assert_eq!(later(&quarantine, "late").await, PAUSE.0);
        assert!(good.returned());
        assert_eq!(quarantine.state(), QuarantineState::Running);
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_ends_the_quarantine_and_gets_the_keys_that_failed() {
        let quarantine = quarantined().await;
        let start = Instant::now();
        let (pass, mut failed) =
            futures::join!(go(&quarantine, "fresh"), async { quarantine.resume() });
        assert_eq!(start.elapsed(), Duration::ZERO);
        drop(pass);
        failed.sort();
        let keys: Vec<String> = failed
            .iter()
            .map(|(queue, key)| format!("{queue}/{key}"))
            .collect();
        assert_eq!(
            keys,
            (0..KEYS).map(|key| format!("0/{key}")).collect::<Vec<_>>()
        );
        assert_eq!(quarantine.state(), QuarantineState::Running);
    }

    #[tokio::test(start_paused = true)]
    async fn no_key_waits_for_a_plugin_that_ends() {
        let quarantine = quarantined().await;
        let key = Arc::from("fresh");
        let (admission, ()) =
            futures::join!(quarantine.admit(0, &key), async { quarantine.close() });
        assert!(matches!(admission, Admission::Closed));
    }
}
