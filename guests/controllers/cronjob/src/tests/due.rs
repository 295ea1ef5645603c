//! Scheduled times that are due.

use std::time::Duration;

use flyball_sdk::Time;

use super::world::{at, minutes};
use crate::due::{Due, Impossible, due, until_next};
use crate::parse::parse;
use crate::schedule::Schedule;
use crate::zone::Zones;

fn schedule(text: &str) -> Schedule {
    parse(text, &Zones::default()).unwrap()
}

/// The result of [`due`] at this long after noon, for the times after `earliest`.
fn due_at(text: &str, earliest: Time, after_noon: Duration) -> (Option<Time>, i64) {
    let Due { latest, missed } =
        due(&schedule(text), earliest, at("12:00:00") + after_noon).unwrap();
    (latest, missed)
}

#[test]
fn the_latest_time_and_the_number_of_missed_ones_are_found() {
    let noon = at("12:00:00");
    let none = (None, 0);
    assert_eq!(due_at("0 * * * *", noon, Duration::from_secs(30)), none);
    assert_eq!(
        due_at("0 * * * *", noon, minutes(61)),
        (Some(at("13:00:00")), 0)
    );
    assert_eq!(
        due_at("0 * * * *", at("12:00:10"), minutes(301)),
        (Some(at("17:00:00")), 5)
    );
    assert_eq!(due_at("*/5 * * * *", at("12:30:00"), minutes(31)), none);
    assert_eq!(
        due_at("@every 1h", at("12:01:00"), minutes(10080)).0,
        Some(noon + minutes(10021))
    );
    assert_eq!(due_at("@every 1h", at("12:01:00"), minutes(10080)).1, 167);
}

#[test]
fn a_scheduled_time_is_due_at_once() {
    assert_eq!(
        due_at("0 * * * *", at("11:30:00"), Duration::ZERO).0,
        Some(at("12:00:00"))
    );
    assert_eq!(due_at("0 * * * *", at("12:00:00"), Duration::ZERO).0, None);
}

#[test]
fn irregular_schedules_are_estimated_from_their_first_two_times() {
    let hours = |hours: u64| minutes(hours * 60);
    let half_past_ten = at("10:30:00");
    let latest = |text: &str, earliest: Time, now: Time| {
        let Due { latest, missed } = due(&schedule(text), earliest, now).unwrap();
        assert!(missed > 0);
        latest
    };
    // The intervals are 4 hours, and more at night and on the weekend.
    for days in [1, 4] {
        let next = half_past_ten + hours(24 * days);
        assert_eq!(
            latest("30 6-16/4 * * 1-5", half_past_ten, next + minutes(1)),
            Some(next)
        );
    }
    let tomorrow = half_past_ten + hours(24);
    assert_eq!(
        latest("30 6-16/4 * * 1-5", at("10:00:00"), tomorrow + minutes(1)),
        Some(tomorrow)
    );
    // The intervals are an hour, and 22 hours at night: the estimate of the latest time is too late.
    assert_eq!(
        latest(
            "30 10,11,12 * * 1-5",
            half_past_ten,
            at("16:30:00") + hours(24)
        ),
        None
    );
}

#[test]
fn a_date_that_never_comes_is_an_error() {
    assert_eq!(
        due(&schedule("59 23 31 2 *"), at("11:00:00"), at("12:00:00")),
        Err(Impossible)
    );
    // 2100 has no leap day, so there is none in the five years after the leap day of 2096.
    let time = |text: &str| text.parse::<Time>().unwrap();
    let leap_days = schedule("0 0 29 2 *");
    assert_eq!(
        due(
            &leap_days,
            time("2096-01-01T00:00:00Z"),
            time("2096-03-01T00:00:00Z")
        ),
        Err(Impossible)
    );
    assert_eq!(
        due(
            &leap_days,
            time("2096-03-01T00:00:00Z"),
            time("2096-03-02T00:00:00Z")
        ),
        Err(Impossible)
    );
}

#[test]
fn a_year_of_minutes_is_searched_in_time() {
    // The first two times are four months apart, so the search begins long ago.
    let found = due(
        &schedule("* * * 1-8 *"),
        "2025-08-31T23:58:00Z".parse().unwrap(),
        "2026-08-31T20:00:00Z".parse().unwrap(),
    );
    assert_eq!(
        found.unwrap().latest,
        Some("2026-08-31T20:00:00Z".parse().unwrap())
    );
}

#[test]
fn the_next_time_follows_from_the_latest_one() {
    let until = |text: &str, earliest: Time, now: Time| {
        let schedule = schedule(text);
        let due = due(&schedule, earliest, now);
        until_next(&schedule, earliest, &due, now, Duration::ZERO).map(|wait| wait.as_secs())
    };
    assert_eq!(
        until("0 * * * *", at("12:00:00"), at("12:15:00")),
        Some(45 * 60)
    );
    assert_eq!(
        until("0 * * * *", at("09:00:00"), at("12:15:00")),
        Some(45 * 60)
    );
    // `@every` counts from the latest time, not from now.
    assert_eq!(
        until("@every 1h", at("09:10:00"), at("12:15:00")),
        Some(55 * 60)
    );
    // The clock is behind.
    assert_eq!(
        until("0 * * * *", at("13:00:00"), at("12:15:00")),
        Some(105 * 60)
    );
    // If there is no latest time among the missed ones, it counts from now.
    assert_eq!(
        until("30 10,11,12 * * *", at("10:30:00"), at("12:40:00")),
        Some(21 * 3600 + 50 * 60)
    );
    assert_eq!(until("0 0 31 2 *", at("09:00:00"), at("12:15:00")), None);
}
