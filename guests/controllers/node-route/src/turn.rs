//! The pace of runs that changes of nodes ask for: at most one in ten seconds.
//!
//! The first change starts a run at once. Changes in the ten seconds after it have to wait for the end of this time, and
//! share one run.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/route/route_controller.go: New.

use std::time::Duration;

use flyball_sdk::{Host, MicroTime, Time};

/// The time between two runs.
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);
/// The key of the memo with the time of the last run that was asked for, which may lie in the future.
const TURN: &str = "turn";

/// Returns the time of a run that is asked for now.
pub(crate) fn next(last: Option<Time>, now: Time) -> Time {
    match last {
        // It has yet to begin, and covers this change.
        Some(last) if last > now && last <= now + INTERVAL => last,
        Some(last) if last <= now => now.max(last + INTERVAL),
        // The clock was set back.
        _ => now,
    }
}

/// Takes the next turn. Returns the time until then.
pub(crate) fn take(host: &Host) -> Duration {
    let (memo, now) = (host.memo(), host.now());
    let last = memo.get(TURN).map(|MicroTime(last)| last);
    let turn = next(last, now);
    // Without the entry, the next run comes too early.
    let _ = memo.put(TURN, &MicroTime(turn), "", Duration::ZERO);
    turn.from_now(now)
}
