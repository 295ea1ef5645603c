//! The scheduled times of a CronJob: the latest one that has passed, the number of missed ones, and the time until the
//! next.
//!
//! Upstream: pkg/controller/cronjob/utils.go: mostRecentScheduleTime, nextScheduleTimeDuration, nextScheduleTime.

use std::time::Duration;

use flyball_sdk::Time;

use crate::schedule::Schedule;

/// The scheduled times that have passed at some point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// The latest time of the schedule that has passed.
    pub latest: Option<Time>,
    /// An estimate of the number of times that have passed, from the distance of the first two; 0 if only one has.
    pub missed: i64,
}

/// The schedule has no times, or hardly any: it says February 30, or February 29 in a century without a leap day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible;

impl Impossible {
    pub const MESSAGE: &str = "time difference between two schedules is less than 1 second";
}

/// Returns the scheduled times after `earliest` that have passed at `now`.
///
/// The latest time is searched from one interval before its estimate. If the schedule is irregular, that can be too
/// late to find any: `30 10,11,12 * * *` has intervals of an hour and of 22 hours. Then `latest` is `None` although
/// `missed` is not 0, and the times are skipped, as kube-controller-manager skips them.
///
/// # Errors
/// The schedule has fewer than two times.
pub fn due(schedule: &Schedule, earliest: Time, now: Time) -> Result<Due, Impossible> {
    let first = schedule.next(earliest).ok_or(Impossible)?;
    if now < first {
        return Ok(Due::default());
    }
    let Some(second) = schedule.next(first) else {
        return Err(Impossible);
    };
    if now < second {
        return Ok(Due {
            latest: Some(first),
            missed: 0,
        });
    }
    let interval = second.seconds - first.seconds;
    let missed = (now.seconds - first.seconds) / interval + 1;
    let start = Time::of_seconds(first.seconds + (missed - 2) * interval);
    let times = std::iter::successors(schedule.next(start), |time| schedule.next(*time));
    let latest = times.take_while(|time| *time <= now).last();
    Ok(Due { latest, missed })
}

/// Returns how long to wait at `now` until the next time of the schedule. `delta` is added in case clocks differ. `due`
/// is the result of [`due`]. Returns `None` if there is no next time.
pub fn until_next(
    schedule: &Schedule,
    earliest: Time,
    due: &Result<Due, Impossible>,
    now: Time,
    delta: Duration,
) -> Option<Duration> {
    let last = match due {
        Ok(due) => due
            .latest
            .unwrap_or(if due.missed == 0 { earliest } else { now }),
        Err(Impossible) => now,
    };
    let next = schedule.next(last)?;
    Some((next + delta).since(now))
}
