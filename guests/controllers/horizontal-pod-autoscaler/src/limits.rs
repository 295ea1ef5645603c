//! Narrows the replicas that follow from the metrics: by recent recommendations, by the rate of changes, and by the
//! least and the greatest number that the autoscaler allows. Autoscalers may have rules of their own for the rate
//! (KEP-853).
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: stabilizeRecommendation, normalizeDesiredReplicas,
//! normalizeDesiredReplicasWithBehaviors, stabilizeRecommendationWithBehaviors, convertDesiredReplicasWithBehaviorRate,
//! convertDesiredReplicasWithRules, calculateScaleUpLimit, calculateScaleUpLimitWithScalingRules,
//! calculateScaleDownLimitWithBehaviors.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::history::{Change, History, sum_since};
use crate::settings::Settings;
use crate::views::{ABLE_TO_SCALE, Behavior, Policy, Rules, SCALING_LIMITED, Spec};

/// Without rules, the replicas are at most doubled at once...
const FACTOR: i32 = 2;
/// ...but may always become this many.
const AT_LEAST: i32 = 4;

/// The replicas after all limits, and the conditions that tell which limit applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    pub replicas: i32,
    pub able: Condition,
    pub limited: Condition,
}

/// A reason and a message of a condition.
type Why = (&'static str, &'static str);

const WITHIN: Why = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const TOO_FEW: Why = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);
const TOO_MANY: Why = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const UP_LIMIT: Why = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const DOWN_LIMIT: Why = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);
const READY: Why = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: Why = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_STABILIZED: Why = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);

/// Narrows the desired replicas, and remembers them as a recommendation.
pub fn limit(
    spec: &Spec,
    current: i32,
    desired: i32,
    history: &mut History,
    settings: &Settings,
    now: Time,
) -> Limited {
    let window = settings.downscale_stabilization;
    let (stabilized, why, (replicas, limit)) = match &spec.behavior {
        None => {
            let stabilized = stabilize(desired, history, window, now);
            let limit = by_default_rate(current, stabilized, spec);
            (stabilized, DOWN_STABILIZED, limit)
        }
        Some(behavior) => {
            let (stabilized, why) =
                stabilize_by_rules(behavior, current, desired, history, window, now);
            let limit = by_rules(spec, behavior, current, stabilized, history, now);
            (stabilized, why, limit)
        }
    };
    let (reason, message) = if stabilized == desired { READY } else { why };
    let is_limited = if replicas == stabilized {
        "False"
    } else {
        "True"
    };
    Limited {
        replicas,
        able: Condition::new(ABLE_TO_SCALE, "True", reason, message),
        limited: Condition::new(SCALING_LIMITED, is_limited, limit.0, limit.1),
    }
}

/// Returns the highest recommendation of the window, and remembers the desired replicas.
fn stabilize(desired: i32, history: &mut History, window: Duration, now: Time) -> i32 {
    let start = now - window;
    let recent = history.recommendations.iter();
    let recent = recent.filter(|old| !old.is_before(start));
    let highest = recent.map(|old| old.replicas).fold(desired, i32::max);
    history.recommend(desired, now, |old| old.is_before(start));
    highest
}

/// Returns the number that is nearest to the current replicas among the recommendations of the windows of both
/// directions, and the reason if it differs from the desired number. Remembers the desired replicas.
fn stabilize_by_rules(
    behavior: &Behavior,
    current: i32,
    desired: i32,
    history: &mut History,
    default_down: Duration,
    now: Time,
) -> (i32, Why) {
    let window = |rules: &Rules, default| {
        let window = rules.stabilization_window_seconds;
        window.map_or(default, |seconds| {
            Duration::from_secs(seconds.max(0).unsigned_abs().into())
        })
    };
    let up_start = now - window(&behavior.scale_up, Duration::ZERO);
    // The API server sets no default here; the flag has whole seconds.
    let default_down = Duration::from_secs(default_down.as_secs());
    let down_start = now - window(&behavior.scale_down, default_down);
    let (mut lowest, mut highest) = (desired, desired);
    for old in &history.recommendations {
        if old.is_after(up_start) {
            lowest = lowest.min(old.replicas);
        }
        if old.is_after(down_start) {
            highest = highest.max(old.replicas);
        }
    }
    let stabilized = current.max(lowest).min(highest);
    history.recommend(desired, now, |old| {
        old.is_before(up_start) && old.is_before(down_start)
    });
    let why = if desired >= current {
        UP_STABILIZED
    } else {
        DOWN_STABILIZED
    };
    (stabilized, why)
}

/// Applies the default rate and the bounds of the autoscaler. The rate keeps a bogus report of CPU usage from
/// multiplying the replicas (kubernetes/kubernetes#32304).
fn by_default_rate(current: i32, desired: i32, spec: &Spec) -> (i32, Why) {
    let fastest = current.saturating_mul(FACTOR).max(AT_LEAST);
    let (most, why) = if spec.max_replicas > fastest {
        (fastest, UP_LIMIT)
    } else {
        (spec.max_replicas, TOO_MANY)
    };
    if desired < spec.min_replicas() {
        (spec.min_replicas(), TOO_FEW)
    } else if desired > most {
        (most, why)
    } else {
        (desired, WITHIN)
    }
}

/// Applies the rules of the direction and the bounds of the autoscaler.
fn by_rules(
    spec: &Spec,
    behavior: &Behavior,
    current: i32,
    desired: i32,
    history: &History,
    now: Time,
) -> (i32, Why) {
    let start = |policy: &Policy| {
        let sum = |changes: &[Change]| sum_since(changes, policy.period(), now);
        current
            .saturating_sub(sum(&history.ups))
            .saturating_add(sum(&history.downs))
    };
    if desired > current {
        let fastest = most_after(&behavior.scale_up, current, start).max(current);
        let (most, why) = if spec.max_replicas > fastest {
            (fastest, UP_LIMIT)
        } else {
            (spec.max_replicas, TOO_MANY)
        };
        if desired > most {
            return (most, why);
        }
    } else if desired < current {
        let fastest = least_after(&behavior.scale_down, current, start).min(current);
        let (least, why) = if spec.min_replicas() < fastest {
            (fastest, DOWN_LIMIT)
        } else {
            (spec.min_replicas(), TOO_FEW)
        };
        if desired < least {
            return (least, why);
        }
    }
    (desired, WITHIN)
}

/// The most replicas that the rules allow now. `start` returns the replicas at the start of a policy's period.
pub fn most_after(rules: &Rules, current: i32, start: impl Fn(&Policy) -> i32) -> i32 {
    let allowed = |policy: &Policy| {
        let start = start(policy);
        match policy.policy_type.as_str() {
            "Percent" => {
                let factor = 1.0 + f64::from(policy.value) / 100.0;
                // Rounded up, or a few replicas could never become more.
                (f64::from(start) * factor).ceil() as i32
            }
            _ => start.saturating_add(policy.value),
        }
    };
    let allowed = rules.policies.iter().map(allowed);
    match rules.select_policy.as_deref() {
        Some("Disabled") => current,
        Some("Min") => allowed.min().unwrap_or(i32::MAX),
        _ => allowed.max().unwrap_or(i32::MIN),
    }
}

/// The least replicas that the rules allow now.
pub fn least_after(rules: &Rules, current: i32, start: impl Fn(&Policy) -> i32) -> i32 {
    let allowed = |policy: &Policy| {
        let start = start(policy);
        match policy.policy_type.as_str() {
            "Percent" => (f64::from(start) * (1.0 - f64::from(policy.value) / 100.0)) as i32,
            _ => start.saturating_sub(policy.value),
        }
    };
    let allowed = rules.policies.iter().map(allowed);
    match rules.select_policy.as_deref() {
        Some("Disabled") => current,
        // The smallest change leaves the most replicas.
        Some("Min") => allowed.max().unwrap_or(i32::MIN),
        _ => allowed.min().unwrap_or(i32::MAX),
    }
}

impl Policy {
    pub fn period(&self) -> Duration {
        Duration::from_secs(self.period_seconds.max(0).unsigned_abs().into())
    }
}
