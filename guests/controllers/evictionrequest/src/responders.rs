//! The responders of an Eviction: their order, and the step from one to the next. One is active at a time. It reports in the
//! Eviction's status, and the next one follows if it has completed, or has not reported for 20 minutes.
//!
//! Upstream: pkg/controller/evictionrequest/eviction_utils.go: getOrInitializeTargetResponders, computeResponderProgression,
//! computeResponderStateAndNextResync.
//! Upstream: pkg/controller/evictionrequest/evictionrequest_utils.go: shouldDeferCompletion, findTargetResponderIdx,
//! sortTargetResponders.
//! Upstream: pkg/apis/lifecycle/validation/validation.go: SortTargetResponders.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::target::Target;
use crate::views::{Eviction, Report, TargetResponder};

pub const INACTIVE: &str = "Inactive";
pub const ACTIVE: &str = "Active";
pub const INTERRUPTED: &str = "Interrupted";
pub const CANCELED: &str = "Canceled";
pub const COMPLETED: &str = "Completed";

/// A responder that has not reported for this long is given up.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// How long the active responder may still report after the target has ended.
pub const LAST_REPORT: Duration = Duration::from_secs(5);

/// Why an eviction needs no further responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The target no longer exists.
    Gone,
    /// The target has ended.
    Terminal,
    /// No requester wants the eviction any more.
    Canceled,
}

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Whether all responders had ended before.
    pub is_done: bool,
    /// When the next step may be due.
    pub again_after: Option<Duration>,
}

/// The responders of an Eviction in their order: those in its status, or else those of its target.
pub fn all(eviction: &Eviction, target: &Target) -> Vec<TargetResponder> {
    let mut all = match eviction.target_responders.as_slice() {
        [] => {
            let of_target = target.responders().into_iter().map(|one| TargetResponder {
                name: one.name,
                priority: one.priority,
                state: INACTIVE.into(),
            });
            of_target.collect()
        }
        own => own.to_vec(),
    };
    all.sort_by(compare);
    all
}

/// The responder with the higher priority comes first, and of several with the same priority the one whose domain comes first,
/// compared from the top-level domain downwards.
fn compare(a: &TargetResponder, b: &TargetResponder) -> Ordering {
    // Without a priority, a responder comes last.
    let rank = |one: &TargetResponder| (one.priority.is_none(), Reverse(one.priority));
    let (a_domain, a_key) = a.name.split_once('/').unwrap_or((a.name.as_str(), ""));
    let (b_domain, b_key) = b.name.split_once('/').unwrap_or((b.name.as_str(), ""));
    { rank(a).cmp(&rank(b)) }
        .then_with(|| a_domain.rsplit('.').cmp(b_domain.rsplit('.')))
        .then_with(|| a_key.cmp(b_key))
}

/// The active responder.
pub fn active(responders: &[TargetResponder]) -> Option<&TargetResponder> {
    responders.iter().find(|one| one.state == ACTIVE)
}

/// Brings the responders to their next states.
pub fn progress(
    responders: &mut [TargetResponder],
    eviction: &Eviction,
    end: Option<End>,
    terminal_time: Option<Time>,
    now: Time,
) -> Step {
    let has_ended =
        |one: &TargetResponder| [INTERRUPTED, CANCELED, COMPLETED].contains(&one.state.as_str());
    if responders.last().is_none_or(has_ended) {
        return Step {
            is_done: true,
            again_after: None,
        };
    }
    let active = responders.iter().position(|one| one.state == ACTIVE);
    let Some(end) = end else {
        let first = || responders.iter().position(|one| one.state == INACTIVE);
        let Some(at) = active.or_else(first) else {
            return Step::default();
        };
        return advance(responders, at, eviction, now);
    };
    // If all that were active have ended, none begins any more.
    let mut again_after = None;
    if let Some(at) = active {
        let report = eviction.report(&responders[at].name);
        let state = match end {
            End::Canceled => CANCELED,
            _ if report.is_some_and(|report| report.completion_time.is_some()) => COMPLETED,
            _ => {
                again_after = last_report_due(report, terminal_time, now);
                match again_after {
                    Some(_) => ACTIVE,
                    None => INTERRUPTED,
                }
            }
        };
        responders[at].state = state.into();
    }
    Step {
        is_done: false,
        again_after,
    }
}

/// Lets a responder go on, or the next one begin.
fn advance(responders: &mut [TargetResponder], at: usize, eviction: &Eviction, now: Time) -> Step {
    let (state, mut again_after) = state(eviction.report(&responders[at].name), now);
    responders[at].state = state.into();
    if let Some(next) = responders.get_mut(at + 1).filter(|_| state != ACTIVE) {
        next.state = ACTIVE.into();
        again_after = Some(HEARTBEAT_TIMEOUT);
    }
    Step {
        is_done: false,
        again_after,
    }
}

/// The state of a responder by its report, and when it changes unless there is a new one.
fn state(report: Option<&Report>, now: Time) -> (&'static str, Option<Duration>) {
    let Some(report) = report else {
        return (ACTIVE, Some(HEARTBEAT_TIMEOUT));
    };
    if report.completion_time.is_some() {
        return (COMPLETED, None);
    }
    let heard = report.heartbeat_time.or(report.start_time).unwrap_or(now);
    match HEARTBEAT_TIMEOUT.saturating_sub(now.since(heard)) {
        Duration::ZERO => (INTERRUPTED, None),
        rest => (ACTIVE, Some(rest)),
    }
}

/// How long the active responder may still report after the target has ended; `None` if nothing is awaited.
pub fn last_report_due(
    report: Option<&Report>,
    terminal_time: Option<Time>,
    now: Time,
) -> Option<Duration> {
    report.filter(|report| report.completion_time.is_none())?;
    let rest = LAST_REPORT.saturating_sub(now.since(terminal_time?));
    (!rest.is_zero()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn responder(name: &str, priority: Option<i64>) -> TargetResponder {
        TargetResponder {
            name: name.into(),
            priority,
            state: INACTIVE.into(),
        }
    }

    fn sorted(names: &[(&str, Option<i64>)]) -> Vec<String> {
        let mut all: Vec<_> = { names.iter() }
            .map(|(name, priority)| responder(name, *priority))
            .collect();
        all.sort_by(compare);
        all.into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn responders_are_ordered_by_priority_and_then_by_domain_from_the_top() {
        let names = [
            ("none.io/a", None),
            ("imperative-eviction.k8s.io/evictor", Some(100)),
            ("z.com/a", Some(10_000)),
            ("a.io/z", Some(10_000)),
            ("sub.a.io/a", Some(10_000)),
            ("a.io/b", Some(10_000)),
            ("b.io/a", Some(10_001)),
        ];
        assert_eq!(
            sorted(&names),
            [
                "b.io/a",
                "z.com/a",
                "a.io/b",
                "a.io/z",
                "sub.a.io/a",
                "imperative-eviction.k8s.io/evictor",
                "none.io/a"
            ]
        );
    }

    /// The states after a step of two responders with these states. The report is the first one's.
    fn step(
        states: [&str; 2],
        report: Option<Report>,
        end: Option<End>,
        terminal_time: Option<i64>,
    ) -> ([String; 2], Step) {
        let mut responders = [responder("a.io/a", Some(2)), responder("b.io/b", Some(1))];
        for (one, state) in responders.iter_mut().zip(states) {
            one.state = state.into();
        }
        let reports = report.map(|report| Report {
            name: "a.io/a".into(),
            ..report
        });
        let eviction = Eviction {
            reports: reports.into_iter().collect(),
            ..Eviction::default()
        };
        let now = Time::of_seconds(10_000);
        let terminal_time = terminal_time.map(Time::of_seconds);
        let step = progress(&mut responders, &eviction, end, terminal_time, now);
        (responders.map(|one| one.state), step)
    }

    fn again(seconds: u64) -> Step {
        Step {
            is_done: false,
            again_after: Some(Duration::from_secs(seconds)),
        }
    }

    fn heard(start: i64, heartbeat: Option<i64>, completion: Option<i64>) -> Option<Report> {
        Some(Report {
            name: String::new(),
            start_time: Some(Time::of_seconds(start)),
            heartbeat_time: heartbeat.map(Time::of_seconds),
            completion_time: completion.map(Time::of_seconds),
        })
    }

    #[test]
    fn the_next_responder_begins_when_the_one_before_completes_or_falls_silent() {
        let both = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let new = step([INACTIVE; 2], None, None, None);
        assert_eq!(new, (both(ACTIVE, INACTIVE), again(1200)));
        let busy = step(
            [ACTIVE, INACTIVE],
            heard(8_500, Some(9_900), None),
            None,
            None,
        );
        assert_eq!(busy, (both(ACTIVE, INACTIVE), again(1100)));
        for silent in [heard(8_800, None, None), heard(1, Some(8_800), None)] {
            let silent = step([ACTIVE, INACTIVE], silent, None, None);
            assert_eq!(silent, (both(INTERRUPTED, ACTIVE), again(1200)));
        }
        let completed = step([ACTIVE, INACTIVE], heard(1, None, Some(9_000)), None, None);
        assert_eq!(completed, (both(COMPLETED, ACTIVE), again(1200)));
        let last = step([COMPLETED, CANCELED], None, None, None);
        assert_eq!((last.1.is_done, last.1.again_after), (true, None));
    }

    #[test]
    fn the_active_responder_may_report_for_five_seconds_after_the_end() {
        let both = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let of = |report, end, at| step([ACTIVE, INACTIVE], report, Some(end), at);
        for end in [End::Gone, End::Terminal] {
            let waiting = of(heard(1, None, None), end, Some(9_998));
            assert_eq!(waiting, (both(ACTIVE, INACTIVE), again(3)));
            let late = of(heard(1, None, None), end, Some(9_995));
            assert_eq!(late, (both(INTERRUPTED, INACTIVE), Step::default()));
            let reported = of(heard(1, None, Some(2)), end, Some(9_998));
            assert_eq!(reported, (both(COMPLETED, INACTIVE), Step::default()));
            let between = step([COMPLETED, INACTIVE], None, Some(end), Some(9_998));
            assert_eq!(between, (both(COMPLETED, INACTIVE), Step::default()));
        }
        let canceled = of(heard(1, None, None), End::Canceled, None);
        assert_eq!(canceled, (both(CANCELED, INACTIVE), Step::default()));
    }

    #[test]
    fn without_responders_an_eviction_is_done() {
        let step = progress(&mut [], &Eviction::default(), None, None, Time::default());
        assert!(step.is_done);
    }
}
