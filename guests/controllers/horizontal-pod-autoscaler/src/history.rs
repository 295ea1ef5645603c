//! State of an autoscaler between reconciles: recommendations and changes of the replicas. It is kept in the host's
//! memo, which survives a reload. Like kube-controller-manager, a new leader begins without it.
//!
//! The lists don't grow with time: a new entry replaces one that no window or period reaches any more.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: recordInitialRecommendation, storeScaleEvent,
//! getReplicasChangePerPeriod, markScaleEventsOutdated, getLongestPolicyPeriod, maybeInitScaleDownStabilizationWindow.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::warning;
use serde::{Deserialize, Serialize};

use crate::views::{Autoscaler, Rules};

/// The recommendations for one autoscaler and its recent changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// The replicas that followed from the metrics, before any limit.
    pub recommendations: Vec<Recommendation>,
    /// Replicas that were added.
    pub ups: Vec<Change>,
    /// Replicas that were removed.
    pub downs: Vec<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    pub replicas: i32,
    /// A [`Time`] is serialized in seconds.
    nanos: i64,
}

/// A change of the replicas by the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Not negative.
    pub replicas: i32,
    nanos: i64,
    /// Whether the change was older than all periods when another change was remembered.
    outdated: bool,
}

fn nanos(time: Time) -> i64 {
    time.seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(time.nanoseconds.into())
}

impl Recommendation {
    pub fn new(replicas: i32, now: Time) -> Self {
        Self {
            replicas,
            nanos: nanos(now),
        }
    }

    /// Whether the recommendation was made after this time.
    pub fn is_after(&self, time: Time) -> bool {
        self.nanos > nanos(time)
    }

    pub fn is_before(&self, time: Time) -> bool {
        self.nanos < nanos(time)
    }
}

impl Change {
    pub fn new(replicas: i32, now: Time) -> Self {
        Self {
            replicas,
            nanos: nanos(now),
            outdated: false,
        }
    }
}

impl History {
    /// Reads the history of an autoscaler.
    pub fn recall(host: &Host, key: &Key) -> Self {
        host.memo().get(&history_key(key)).unwrap_or_default()
    }

    /// Keeps the history until the autoscaler is deleted.
    pub fn remember(&self, host: &Host, autoscaler: &Autoscaler) {
        let (key, uid) = (autoscaler.meta.key(), &autoscaler.meta.uid);
        if let Err(error) = host
            .memo()
            .put(&history_key(&key), self, uid, Duration::ZERO)
        {
            warning!(host, "the recommendations for {key} are lost: {error}");
        }
    }

    /// Remembers the current replicas as a recommendation if there is none.
    pub fn begin(&mut self, replicas: i32, now: Time) {
        if self.recommendations.is_empty() {
            self.recommendations
                .push(Recommendation::new(replicas, now));
        }
    }

    /// Remembers a recommendation. It replaces the last outdated one, if there is one.
    pub fn recommend(
        &mut self,
        replicas: i32,
        now: Time,
        is_outdated: impl Fn(&Recommendation) -> bool,
    ) {
        let new = Recommendation::new(replicas, now);
        match self
            .recommendations
            .iter_mut()
            .rev()
            .find(|old| is_outdated(old))
        {
            Some(old) => *old = new,
            None => self.recommendations.push(new),
        }
    }

    /// Remembers that the replicas were changed, if the autoscaler has rules that may ask for it.
    pub fn changed(&mut self, rules: &Rules, from: i32, to: i32, now: Time) {
        let list = if to > from {
            &mut self.ups
        } else {
            &mut self.downs
        };
        let start = now - rules.longest_period();
        for change in list.iter_mut() {
            change.outdated |= change.nanos < nanos(start);
        }
        let new = Change::new(from.saturating_sub(to).saturating_abs(), now);
        match list.iter_mut().rev().find(|old| old.outdated) {
            Some(old) => *old = new,
            None => list.push(new),
        }
    }
}

/// Sums the changes of the last `period`.
pub fn sum_since(changes: &[Change], period: Duration, now: Time) -> i32 {
    let start = nanos(now - period);
    let recent = changes.iter().filter(|change| change.nanos > start);
    recent.fold(0, |sum, change| sum.saturating_add(change.replicas))
}

impl Rules {
    fn longest_period(&self) -> Duration {
        let periods = self.policies.iter().map(|policy| policy.period());
        periods.max().unwrap_or_default()
    }
}

/// Forgets an autoscaler that does not exist any more.
pub fn forget(host: &Host, key: &Key) {
    host.memo().remove(&history_key(key));
}

fn history_key(autoscaler: &Key) -> String {
    format!("history/{autoscaler}")
}
