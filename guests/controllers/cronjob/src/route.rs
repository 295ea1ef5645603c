//! The delay before a changed CronJob is reconciled.
//!
//! Upstream: pkg/controller/cronjob/cronjob_controllerv2.go: updateCronJob.

use std::time::Duration;

use flyball_sdk::RoutedKey;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, debug};

use crate::due::{due, until_next};
use crate::note::Note;
use crate::parse::ParseError;
use crate::plan::read;
use crate::settings::Settings;
use crate::views::Timing;

/// Returns the keys of changed CronJobs: at once, or at the next time of a changed schedule.
pub fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
    // `reconcile` reports invalid settings.
    let settings = Settings::read(host).unwrap_or_default();
    let mut keys = Vec::new();
    for delta in deltas {
        if let (Some(old), Some(new)) = (delta.before::<Timing>()?, delta.after::<Timing>()?) {
            keys.extend(key(host, &old, &new, &settings));
        }
    }
    Ok(keys)
}

/// `None` if the changed schedule is malformed.
///
/// A delta may stand for several changes of the spec. Only one of them need have changed the schedule; any other is
/// reconciled at once.
fn key(host: &Host, old: &Timing, new: &Timing, settings: &Settings) -> Option<RoutedKey> {
    let now = RoutedKey::now(new.meta.key());
    let has_same_schedule = (&old.schedule, &old.time_zone) == (&new.schedule, &new.time_zone);
    if has_same_schedule || new.meta.generation > old.meta.generation + 1 {
        return Some(now);
    }
    let mut settings = settings.clone();
    settings.ask_zones(host, &new.schedule, new.time_zone.as_deref());
    match read(&new.schedule, new.time_zone.as_deref(), &settings.zones) {
        Ok(schedule) => {
            let (anchor, time) = (new.anchor(), host.now());
            let due = due(&schedule, anchor, time);
            let delay = until_next(&schedule, anchor, &due, time, settings.schedule_delta);
            // A schedule without a next time is reported by `reconcile`.
            let delay = delay.unwrap_or(Duration::ZERO);
            Some(RoutedKey { delay, ..now })
        }
        Err(ParseError(error)) => {
            debug!(host, "{} has a malformed schedule: {error}", new.meta.key());
            let message = format!("unparseable schedule for cronjob: {}", new.schedule);
            Note::warning("UnParseableCronJobSchedule", message).emit(host, &new.meta);
            None
        }
    }
}
