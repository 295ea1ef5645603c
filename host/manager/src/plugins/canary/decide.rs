//! Decides how a canary goes on: a pure function from what the two versions have done in a step.

use std::time::Duration;

use flyball_policy::Rollout;
use flyball_runtime::split::{Counts, Measured};

/// The failures of the candidate that count for nothing. A conflict now and then is no fault of a version.
const FREE_FAILURES: f64 = 2.0;
/// How much longer the slowest hundredth of the candidate's reconciles may always take.
const FREE_P99: Duration = Duration::from_millis(10);
/// How much more the candidate may always write in a reconcile: a new version often writes each object once, and its
/// own write leads to a second reconcile, without a write.
const FREE_WRITES: f64 = 0.5;

/// What the two versions have done in a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Evidence {
    /// How long the step has lasted, without the time in which no candidate could run.
    pub(crate) elapsed: Duration,
    pub(crate) running: Measured,
    pub(crate) candidate: Measured,
}

/// How a canary goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Wait(Waiting),
    /// To the next step, or after the last one to all keys.
    Advance,
    /// All keys go back to the version that runs. The reason is a sentence.
    GoBack(String),
}

/// Why a step goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// For so much more time.
    Time(Duration),
    /// For so many more reconciles of the candidate.
    Calls(u64),
}

/// Decides about a step. The candidate goes back as soon as it exceeds a threshold, and advances only when the step has
/// lasted long enough and the candidate has reconciled often enough.
pub(crate) fn decide(rollout: &Rollout, evidence: &Evidence) -> Decision {
    if let Some(reason) = exceeded(rollout, evidence) {
        return Decision::GoBack(reason);
    }
    let (interval, needed) = (rollout.interval.0, rollout.calls.0);
    let calls = evidence.candidate.counts.calls;
    match interval.checked_sub(evidence.elapsed) {
        Some(left) if !left.is_zero() => Decision::Wait(Waiting::Time(left)),
        _ if calls < needed => Decision::Wait(Waiting::Calls(needed - calls)),
        _ => Decision::Advance,
    }
}

/// A sentence about the first threshold that the candidate exceeds.
fn exceeded(rollout: &Rollout, evidence: &Evidence) -> Option<String> {
    let Evidence {
        running, candidate, ..
    } = evidence;
    let has_enough = |counts: &Counts| counts.calls > 0 && counts.calls >= rollout.calls.0;
    let (own, others) = (&candidate.counts, &running.counts);
    if let Some(reason) = traps(rollout, candidate) {
        return Some(reason);
    }
    if !has_enough(own) {
        return None;
    }
    let comparable = has_enough(others);
    failures(rollout, candidate, others)
        .or_else(|| comparable.then(|| writes(rollout, own, others)).flatten())
        .or_else(|| slowness(rollout, candidate, running))
}

fn traps(rollout: &Rollout, candidate: &Measured) -> Option<String> {
    let (traps, most) = (candidate.counts.traps, rollout.thresholds.traps);
    (traps > most).then(|| {
        let reconciles = match traps {
            1 => "1 reconcile of it".to_owned(),
            traps => format!("{traps} reconciles of it"),
        };
        format!(
            "{reconciles} trapped or reached a limit, and {most} may{}",
            last(candidate)
        )
    })
}

fn failures(rollout: &Rollout, candidate: &Measured, others: &Counts) -> Option<String> {
    let more = rollout.thresholds.failures;
    let own = &candidate.counts;
    let usual = ratio(others.failures, others.calls);
    let allowed = (usual + more.fraction()) * own.calls as f64 + FREE_FAILURES;
    (own.failures as f64 > allowed).then(|| {
        format!(
            "{} of its {} reconciles failed, which is more than {more} above the {} of {} of the version that runs{}",
            own.failures,
            own.calls,
            others.failures,
            others.calls,
            last(candidate)
        )
    })
}

fn writes(rollout: &Rollout, own: &Counts, others: &Counts) -> Option<String> {
    let times = rollout.thresholds.writes;
    let (rate, usual) = (
        ratio(own.writes, own.calls),
        ratio(others.writes, others.calls),
    );
    (rate > usual * times + FREE_WRITES).then(|| {
        format!(
            "it wrote {rate:.2} times in a reconcile, which is more than {times} times the {usual:.2} of the version that \
             runs, and {FREE_WRITES} more"
        )
    })
}

fn slowness(rollout: &Rollout, candidate: &Measured, running: &Measured) -> Option<String> {
    let (own, usual) = candidate.p99.zip(running.p99)?;
    let times = rollout.thresholds.p99;
    (own > usual.mul_f64(times) + FREE_P99).then(|| {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        format!(
            "its slowest hundredth took {:.1} ms, which is more than {times} times the {:.1} ms of the version that runs, \
             and {} ms more",
            ms(own),
            ms(usual),
            FREE_P99.as_millis()
        )
    })
}

/// The last failure of a version, as the end of a sentence.
fn last(version: &Measured) -> String {
    let last = version.last_failure.as_ref();
    last.map(|failure| format!("; the last one of {failure}"))
        .unwrap_or_default()
}

fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STEP: Duration = Duration::from_secs(300);

    fn did(calls: u64, failures: u64, traps: u64, writes: u64) -> Measured {
        Measured {
            counts: Counts {
                calls,
                failures,
                traps,
                writes,
            },
            ..Measured::default()
        }
    }

    fn decided(elapsed: Duration, running: Measured, candidate: Measured) -> Decision {
        let evidence = Evidence {
            elapsed,
            running,
            candidate,
        };
        decide(&Rollout::default(), &evidence)
    }

    fn reason(decision: Decision) -> String {
        match decision {
            Decision::GoBack(reason) => reason,
            other => panic!("it does not go back: {other:?}"),
        }
    }

    #[test]
    fn a_step_waits_for_its_time_and_for_enough_reconciles() {
        let good = did(10, 0, 0, 5);
        let half = STEP / 2;
        assert_eq!(
            decided(half, good.clone(), good.clone()),
            Decision::Wait(Waiting::Time(half))
        );
        assert_eq!(
            decided(STEP * 2, good.clone(), did(3, 0, 0, 0)),
            Decision::Wait(Waiting::Calls(7))
        );
        assert_eq!(decided(STEP, good.clone(), good), Decision::Advance);
    }

    #[test]
    fn a_trap_goes_back_at_once() {
        let mut candidate = did(1, 0, 1, 0);
        candidate.last_failure = Some("team/web: unreachable".into());
        let reason = reason(decided(Duration::ZERO, did(0, 0, 0, 0), candidate));
        assert_eq!(
            reason,
            "1 reconcile of it trapped or reached a limit, and 0 may; the last one of team/web: unreachable"
        );
    }

    #[test]
    fn failures_go_back_if_the_running_version_fails_less() {
        let (few, many) = (did(100, 1, 0, 0), did(100, 20, 0, 0));
        assert!(reason(decided(STEP, few.clone(), many.clone())).contains("20 of its 100"));
        assert_eq!(decided(STEP, many.clone(), many), Decision::Advance);
        // Two conflicts are no fault.
        assert_eq!(
            decided(STEP, few.clone(), did(10, 2, 0, 0)),
            Decision::Advance
        );
        assert!(reason(decided(STEP, few, did(10, 3, 0, 0))).contains("3 of its 10"));
        // Without a call of the running version, all failures are its own.
        assert!(reason(decided(STEP, did(0, 0, 0, 0), did(10, 9, 0, 0))).contains("9 of its 10"));
    }

    #[test]
    fn writes_go_back_if_the_running_version_writes_less() {
        let quiet = did(100, 0, 0, 10);
        assert_eq!(
            decided(STEP, quiet.clone(), did(100, 0, 0, 70)),
            Decision::Advance
        );
        let reason = reason(decided(STEP, quiet, did(100, 0, 0, 71)));
        assert!(reason.starts_with("it wrote 0.71 times"), "{reason}");
        // A version that did too little is no measure.
        assert_eq!(
            decided(STEP, did(9, 0, 0, 0), did(100, 0, 0, 900)),
            Decision::Advance
        );
    }

    #[test]
    fn slowness_goes_back_if_both_have_reconciled_often() {
        let slow = |ms: u64| Measured {
            p99: Some(Duration::from_millis(ms)),
            ..did(100, 0, 0, 0)
        };
        assert_eq!(decided(STEP, slow(10), slow(30)), Decision::Advance);
        assert!(reason(decided(STEP, slow(10), slow(31))).contains("took 31.0 ms"));
        assert_eq!(
            decided(STEP, did(99, 0, 0, 0), slow(9000)),
            Decision::Advance
        );
    }

    fn measured() -> impl Strategy<Value = Measured> {
        (0..500_u64, 0..=100_u64, 0..3_u64, 0..2000_u64, 0..5000_u64).prop_map(
            |(calls, failures, traps, writes, p99)| Measured {
                p99: (calls >= 100).then(|| Duration::from_millis(p99)),
                ..did(calls, failures.min(calls), traps.min(calls), writes)
            },
        )
    }

    proptest! {
        #[test]
        fn it_advances_only_with_time_and_calls_and_a_version_that_did_the_same_never_goes_back(
            running in measured(),
            candidate in measured(),
            seconds in 0..1000_u64,
        ) {
            let elapsed = Duration::from_secs(seconds);
            let rollout = Rollout::default();
            let decision = decided(elapsed, running, candidate.clone());
            if decision == Decision::Advance {
                prop_assert!(elapsed >= rollout.interval.0);
                prop_assert!(candidate.counts.calls >= rollout.calls.0);
                prop_assert_eq!(candidate.counts.traps, 0);
            }
            let mut same = candidate;
            same.counts.traps = 0;
            let decision = decided(elapsed, same.clone(), same);
            prop_assert!(!matches!(decision, Decision::GoBack(_)), "{:?}", decision);
        }

        #[test]
        fn what_goes_back_goes_back_with_more_failures_traps_and_writes_too(
            running in measured(),
            candidate in measured(),
            more in (0..50_u64, 0..3_u64, 0..500_u64),
        ) {
            let before = decided(STEP, running.clone(), candidate.clone());
            let mut worse = candidate;
            worse.counts.failures += more.0;
            worse.counts.traps += more.1;
            worse.counts.writes += more.2;
            if matches!(before, Decision::GoBack(_)) {
                prop_assert!(matches!(decided(STEP, running, worse), Decision::GoBack(_)));
            }
        }
    }
}
