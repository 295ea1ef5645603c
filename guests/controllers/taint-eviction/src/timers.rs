//! The pending evictions of a node, in the memo.
//!
//! An entry for each node holds its timers. A further entry for each point in time shows that the time has not passed:
//! the host drops the entry after its time to live, by a clock that nobody can set. So a step of the wall clock evicts
//! no pod early.
//!
//! If the memo is emptied, the waiting times begin again, as after a restart of kube-controller-manager.
//!
//! Upstream: pkg/controller/tainteviction/timed_workers.go: AddWork, UpdateWork, CancelWork, createWorker.

use std::collections::BTreeSet;
use std::time::Duration;

use flyball_sdk::Key;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The shortest time until a timer is looked at again.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long a deletion must look incomplete before it is requested again. The API server takes milliseconds from one
/// step of a deletion to the next.
const SECOND_LOOK: Duration = Duration::from_secs(20);
/// The longest time to live of an entry. Longer times pass by the wall clock.
const LONGEST: Duration = Duration::from_secs(40 * 24 * 60 * 60);

/// A pending eviction, or a second look at an evicted pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// When the pod is evicted, in milliseconds since 1970, by the wall clock. Only the host knows whether this time
    /// has really passed.
    pub due: u64,
    /// Whether the pod was evicted and its deletion looked incomplete. Every pod looks so for a moment, between the two
    /// steps in which the API server deletes it, so only a second look can tell.
    pub is_second_look: bool,
    /// Whether the time has passed.
    #[serde(skip)]
    pub is_due: bool,
}

impl Timer {
    /// The eviction of a pod after this time.
    pub fn new(pod: &Meta, now: Time, delay: Duration) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            due: after(now, delay),
            is_second_look: false,
            is_due: false,
        }
    }

    /// A second look at a pod whose deletion looks incomplete.
    pub fn second_look(pod: &Meta, now: Time) -> Self {
        Self {
            is_second_look: true,
            ..Self::new(pod, now, SECOND_LOOK)
        }
    }

    pub fn pod(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }

    /// The time since it has been due, by the wall clock.
    pub fn late(&self, now: Time) -> Duration {
        Duration::from_millis(millis(now).saturating_sub(self.due))
    }

    /// Makes the eviction due again after this time.
    pub fn put_off(&mut self, now: Time, delay: Duration) {
        self.due = after(now, delay);
        self.is_due = false;
    }

    /// The time until the eviction is due, by the wall clock; zero if that has passed.
    fn rest(&self, now: Time) -> Duration {
        Duration::from_millis(self.due.saturating_sub(millis(now)))
    }
}

/// Returns the pending evictions of a node.
pub fn recall(host: &Host, node: &str) -> Vec<Timer> {
    let (memo, now) = (host.memo(), host.now());
    let mut timers: Vec<Timer> = memo.get(&of_node(node)).unwrap_or_default();
    let mut last = None;
    for timer in &mut timers {
        // Most pods of a node have the same time.
        let is_due = match last {
            Some((due, is_due)) if due == timer.due => is_due,
            _ => match memo.get(&of_time(node, timer.due)) {
                None => true,
                Some(Clock::Host) => false,
                Some(Clock::Wall) => timer.rest(now).is_zero(),
            },
        };
        timer.is_due = is_due;
        last = Some((timer.due, is_due));
    }
    timers
}

/// The clock by which a time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Clock {
    /// The host's, which drops the entry.
    Host,
    Wall,
}

/// Stores the pending evictions of a node, if they have changed.
///
/// # Errors
/// The memo is full.
pub fn store(host: &Host, node: &str, before: &[Timer], timers: &[Timer]) -> Result<(), Error> {
    if before == timers {
        return Ok(());
    }
    let memo = host.memo();
    for due in times(before).difference(&times(timers)) {
        memo.remove(&of_time(node, *due));
    }
    if timers.is_empty() {
        memo.remove(&of_node(node));
        return Ok(());
    }
    let now = host.now();
    for due in times(timers).difference(&times(before)) {
        let rest = Duration::from_millis(due.saturating_sub(millis(now)));
        let (clock, ttl) = if rest > LONGEST {
            (Clock::Wall, Duration::ZERO)
        } else {
            // A time to live of zero would mean no limit.
            (Clock::Host, rest.max(Duration::from_millis(1)))
        };
        memo.put(&of_time(node, *due), &clock, "", ttl)?;
    }
    Ok(memo.put(&of_node(node), &timers, "", Duration::ZERO)?)
}

fn times(timers: &[Timer]) -> BTreeSet<u64> {
    timers.iter().map(|timer| timer.due).collect()
}

/// Returns when the next eviction is due. `None` if none is pending.
pub fn next(timers: &[Timer], now: Time) -> Option<Duration> {
    let pending = timers.iter().filter(|timer| !timer.is_due);
    let rest = |timer: &Timer| match timer.rest(now) {
        // The wall clock is ahead.
        Duration::ZERO => SHORTEST,
        rest => rest.min(LONGEST),
    };
    pending.map(rest).min()
}

fn of_node(node: &str) -> String {
    format!("node/{node}")
}

fn of_time(node: &str, due: u64) -> String {
    format!("due/{node}/{due}")
}

/// A point in time in milliseconds since 1970.
fn after(now: Time, delay: Duration) -> u64 {
    millis(now).saturating_add(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
}

fn millis(time: Time) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0) * 1000 + u64::from(time.nanoseconds / 1_000_000)
}
