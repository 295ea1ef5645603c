//! Gives the nodes of a zone that wait for a `NoExecute` taint their turns, at the zone's rate.
//!
//! The monitor decides which nodes of a zone wait, and the rate ([`Waiting`]). Only [`reconcile`] changes the time from
//! which the next one may have its turn ([`Bucket`]): a token bucket that holds one token.
//!
//! Upstream: pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go: Try, SwapLimiter, NewRateLimitedTimedQueue.
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: doNoExecuteTaintingPass, setLimiterInZone.

use std::time::Duration;

use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::NODES;
use crate::observe::millis;
use crate::taints::{of_status, swapped};
use crate::views::Node;
use crate::wanted::Wanted;
use crate::zone::Zone;

/// The nodes of a zone that wait for a taint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Nodes per second; 0 for none.
    pub rate: f64,
    /// The names of the waiting nodes, in the order of their turns.
    pub nodes: Vec<String>,
}

impl Waiting {
    /// The key of the memo.
    pub fn key(zone: &Zone) -> String {
        format!("waiting/{zone}")
    }
}

/// The rate limiter of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    rate: f64,
    /// When the next token is available, in milliseconds since 1970.
    next: u64,
}

impl Bucket {
    /// A bucket with a token.
    fn full(rate: f64) -> Self {
        Self { rate, next: 0 }
    }

    /// The bucket with this rate. A new rate starts with a token only if the old one had one.
    fn at_rate(self, rate: f64, now: u64) -> Self {
        let longest = now.saturating_add(interval(rate));
        if self.rate == rate {
            // The clock may have been set back.
            let next = self.next.min(longest);
            return Self { rate, next };
        }
        let has_token = self.rate > 0.0 && self.next <= now;
        let next = if has_token { 0 } else { longest };
        Self { rate, next }
    }

    /// Takes a token. If there is none, fails with the time until there is one; `None` if there never is.
    fn take(&mut self, now: u64) -> Result<(), Option<Duration>> {
        if self.rate <= 0.0 {
            return Err(None);
        }
        if self.next > now {
            return Err(Some(Duration::from_millis(self.next - now)));
        }
        self.next = now.saturating_add(interval(self.rate));
        Ok(())
    }
}

/// Milliseconds between two tokens.
fn interval(rate: f64) -> u64 {
    // The rate may be zero; a conversion of infinity saturates.
    (1000.0 / rate).ceil() as u64
}

/// Gives the next node of a zone its turn, wakes nodes that have had their turn and lack the taint, and returns when
/// the next node has its turn.
///
/// # Errors
/// A read failed, or the memo is full.
pub fn reconcile(host: &Host, zone: &Zone) -> Result<Outcome, Error> {
    let memo = host.memo();
    let Some(waiting) = memo.get::<Waiting>(&Waiting::key(zone)) else {
        return Ok(Outcome::Done);
    };
    let (key, now) = (format!("bucket/{zone}"), millis(host.now()));
    let before = memo.get::<Bucket>(&key);
    let mut bucket = before
        .unwrap_or(Bucket::full(waiting.rate))
        .at_rate(waiting.rate, now);
    let next = next_turn(host, zone, &waiting, &mut bucket, now)?;
    if before != Some(bucket) {
        memo.put(&key, &bucket, "", Duration::ZERO)?;
    }
    Ok(next.map_or(Outcome::Done, Outcome::RequeueAfter))
}

/// Returns the time until the next node has its turn; `None` if none waits or the rate is zero. A node that has its
/// turn now is woken by the next call, which must follow at once: see [`wanted`](crate::wanted).
fn next_turn(
    host: &Host,
    zone: &Zone,
    waiting: &Waiting,
    bucket: &mut Bucket,
    now: u64,
) -> Result<Option<Duration>, Error> {
    for name in &waiting.nodes {
        // The decision is read before the node. If it has ended, the node that is then read has the taint.
        let wanted = Wanted::of(host, name);
        let Some(node) = host.get::<Node>("", name)? else {
            continue;
        };
        let of_condition = node.status_of("Ready").and_then(of_status);
        let swap = |(key, opposite)| swapped(&node, key, opposite, host.now());
        if of_condition.and_then(swap).is_none() {
            // The node is ready again, or has the taint.
            continue;
        }
        if wanted.is_some() {
            host.queue().add(NODES, &Key::new("", name))?;
            continue;
        }
        if let Err(rest) = bucket.take(now) {
            return Ok(rest);
        }
        Wanted::Turn(zone.clone()).store(host, name, &node.meta.uid)?;
        return Ok(Some(Duration::ZERO));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 0.1;

    #[test]
    fn a_full_bucket_has_one_token_and_gets_the_next_after_its_interval() {
        let mut bucket = Bucket::full(RATE);
        let wait = |seconds| Err(Some(Duration::from_secs(seconds)));
        assert_eq!(bucket.take(100_000), Ok(()));
        assert_eq!(bucket.take(100_000), wait(10));
        assert_eq!(bucket.take(107_000), wait(3));
        assert_eq!(bucket.take(110_000), Ok(()));
        // Unused tokens are not added up.
        assert_eq!(bucket.take(200_000), Ok(()));
        assert_eq!(bucket.take(200_000), wait(10));
    }

    #[test]
    fn without_a_rate_there_is_never_a_token() {
        assert_eq!(Bucket::full(0.0).take(u64::MAX), Err(None));
        assert_eq!(Bucket::full(-1.0).take(0), Err(None));
    }

    #[test]
    fn a_new_rate_starts_with_a_token_only_if_the_old_one_had_one() {
        let now = 100_000;
        let full = Bucket::full(RATE).at_rate(1.0, now);
        assert_eq!(full.next, 0);
        let mut used = Bucket::full(RATE);
        used.take(now).unwrap();
        assert_eq!(used.at_rate(1.0, now).next, now + 1000);
        let stopped = Bucket::full(RATE).at_rate(0.0, now);
        assert_eq!(stopped.at_rate(RATE, now).next, now + 10_000);
        assert_eq!(used.at_rate(RATE, now), used);
    }

    #[test]
    fn a_clock_that_was_set_back_delays_by_one_interval_at_most() {
        let mut bucket = Bucket::full(RATE);
        bucket.take(100_000).unwrap();
        assert_eq!(bucket.at_rate(RATE, 5000).next, 15_000);
    }

    #[test]
    fn rates_from_the_smallest_to_the_largest_are_intervals() {
        assert_eq!(interval(3.0), 334);
        assert_eq!(interval(1e9), 1);
        assert_eq!(interval(0.0), u64::MAX);
        assert_eq!(Bucket::full(1e-300).at_rate(1e-300, 5).take(5), Ok(()));
    }
}
