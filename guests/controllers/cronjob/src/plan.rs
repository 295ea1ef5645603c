//! Decides whether a Job is due.
//!
//! Upstream: pkg/controller/cronjob/cronjob_controllerv2.go: syncCronJob, formatSchedule.
//! Upstream: pkg/controller/cronjob/utils.go: mostRecentScheduleTime, nextScheduleTime.

use std::time::Duration;

use flyball_sdk::Time;
use flyball_sdk::meta::CoreObjectReference;

use crate::due::{Due, Impossible, due, until_next};
use crate::note::Note;
use crate::parse::{ParseError, parse};
use crate::schedule::Schedule;
use crate::settings::Settings;
use crate::template;
use crate::views::{CronJob, Status};
use crate::zone::Zones;

/// The next step for a CronJob.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing, until the CronJob changes.
    Idle,
    /// Nothing, until the next scheduled time.
    Wait,
    /// Create the Job of this scheduled time.
    Start(Time),
}

/// The next step, the events about it, and the time until the next scheduled time.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub step: Step,
    pub notes: Vec<Note>,
    pub until_next: Option<Duration>,
}

impl Plan {
    fn idle(notes: Vec<Note>) -> Self {
        Self {
            step: Step::Idle,
            notes,
            until_next: None,
        }
    }
}

/// Decides the next step at `now`, with `status` as the current status.
pub fn plan(cron_job: &CronJob, status: &Status, settings: &Settings, now: Time) -> Plan {
    let zone = cron_job.time_zone.as_deref();
    if let Some(name) = zone
        && let Err(error) = settings.zones.load(name)
    {
        let message = format!("invalid timeZone: {name:?}: {error}");
        return Plan::idle(vec![Note::warning("UnknownTimeZone", message)]);
    }
    if cron_job.suspend {
        return Plan::idle(Vec::new());
    }
    let text = &cron_job.schedule;
    let mut notes = Vec::new();
    if names_zone(text) {
        let message = format!(
            "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        notes.push(Note::warning("UnsupportedSchedule", message));
    }
    let schedule = match read(text, zone, &settings.zones) {
        Ok(schedule) => schedule,
        Err(ParseError(error)) => {
            let message = format!("unparseable schedule: {text:?} : {error}");
            notes.push(Note::warning("UnparseableSchedule", message));
            return Plan::idle(notes);
        }
    };
    let earliest = earliest(cron_job, now);
    let found = due(&schedule, earliest, now);
    let Ok(Due { latest, missed }) = found else {
        let message = format!("invalid schedule: {text} : {}", Impossible::MESSAGE);
        notes.push(Note::warning("InvalidSchedule", message));
        return Plan::idle(notes);
    };
    let step = latest.map_or(Step::Wait, |time| {
        if missed > settings.max_missed {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            notes.push(Note::warning("TooManyMissedTimes", message));
        }
        start(cron_job, status, time, &mut notes)
    });
    // The next time does not depend on the deadline. A Job that is created becomes the last one.
    let last = match step {
        Step::Start(time) => time,
        Step::Idle | Step::Wait => cron_job.anchor(),
    };
    let found = if last == earliest {
        found
    } else {
        due(&schedule, last, now)
    };
    let until_next = until_next(&schedule, last, &found, now, settings.schedule_delta);
    Plan {
        step,
        notes,
        until_next,
    }
}

/// Parses a schedule. Its own zone takes precedence over `spec.timeZone`, which it has if it is valid.
///
/// # Errors
/// The schedule is malformed.
pub fn read(text: &str, zone: Option<&str>, zones: &Zones) -> Result<Schedule, ParseError> {
    match zone {
        Some(zone) if !names_zone(text) && zones.load(zone).is_ok() => {
            parse(&format!("TZ={zone} {text}"), zones)
        }
        _ => parse(text, zones),
    }
}

/// Whether the schedule names a zone, as kube-controller-manager sees it.
fn names_zone(schedule: &str) -> bool {
    schedule.contains("TZ")
}

/// Returns the time after which a Job may be due: the scheduled time of the last Job, or else the creation of the
/// CronJob, but not before the starting deadline.
fn earliest(cron_job: &CronJob, now: Time) -> Time {
    let anchor = cron_job.anchor();
    let bound = cron_job.starting_deadline().map(|deadline| now - deadline);
    bound.map_or(anchor, |bound| anchor.max(bound))
}

/// Decides whether the Job of a scheduled time is created. The time is not too late, because the search began at the
/// deadline; so kube-controller-manager's event `MissSchedule` never occurs.
fn start(cron_job: &CronJob, status: &Status, time: Time, notes: &mut Vec<Note>) -> Step {
    let name = template::name(cron_job, time);
    let is_its_job =
        |job: &CoreObjectReference| job.name == name && job.namespace == cron_job.meta.namespace;
    if status.active.iter().any(is_its_job) || status.last_schedule_time == Some(time) {
        return Step::Wait;
    }
    if cron_job.concurrency_policy == "Forbid" && !status.active.is_empty() {
        let message =
            "Not starting job because prior execution is running and concurrency policy is Forbid";
        notes.push(Note::normal("JobAlreadyActive", message));
        return Step::Wait;
    }
    Step::Start(time)
}
