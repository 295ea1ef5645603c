//! The keys that a change of a CronJob enqueues.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta};

use super::world::*;
use crate::CronJobController;

/// The delays of the keys that a change from `old` to `new` enqueues at 11:59:59.
fn delays(cluster: &Cluster, old: &Object, new: &Object) -> Vec<Duration> {
    cluster.set_now(at("11:59:59"));
    let delta = delta(CRON_JOB, Some(&old.0), Some(&new.0));
    let keys = CronJobController::route(&cluster.host(), &[delta]).unwrap();
    assert!(
        keys.iter()
            .all(|routed| routed.key.to_string() == KEY && routed.queue.is_empty())
    );
    keys.iter().map(|routed| routed.delay).collect()
}

fn ran_at_11_59(schedule: &str) -> Object {
    new_cron_job(schedule).with("/status/lastScheduleTime", at("11:59:00").to_string())
}

#[test]
fn a_change_of_anything_but_the_schedule_is_reconciled_at_once() {
    let old = ran_at_11_59("30 * * * *").spec("timeZone", "America/New_York");
    for new in [
        old.clone().with("/spec/jobTemplate/metadata/labels/a", "c"),
        old.clone().spec("suspend", true),
        old.clone()
            .with("/status/lastSuccessfulTime", at("11:00:00").to_string()),
        old.clone(),
    ] {
        assert_eq!(delays(&Cluster::new(), &old, &new), [Duration::ZERO]);
    }
}

#[test]
fn a_changed_schedule_waits_for_its_next_time() {
    let delta = Duration::from_millis(100);
    for (old, new, seconds) in [
        ("30 * * * *", "*/1 * * * *", 1),
        ("@every 1m", "@every 3m", 121),
        ("@every 3m", "@every 1m", 1),
        ("0 0 1 1 *", "*/30 * * * *", 1),
        ("30 * * * *", "15 * * * *", 901),
    ] {
        let delays = delays(&Cluster::new(), &ran_at_11_59(old), &ran_at_11_59(new));
        assert_eq!(delays, [Duration::from_secs(seconds) + delta], "{new}");
    }
}

#[test]
fn a_changed_schedule_does_not_run_a_time_that_has_passed() {
    // Since the last Job, the new schedule has missed 11:30.
    let old = cron_job("0 0 1 1 *");
    let new = cron_job("30 * * * *").with("/spec/jobTemplate/metadata/labels/a", "c");
    assert_eq!(
        delays(&Cluster::new(), &old, &new),
        [minutes(30) + Duration::from_millis(1100)]
    );
}

#[test]
fn a_schedule_that_changed_together_with_another_change_is_reconciled_at_once() {
    let old = cron_job("0 0 1 1 *").with("/metadata/generation", 2);
    let schedule = cron_job("30 * * * *").with("/metadata/generation", 3);
    let template = schedule
        .clone()
        .with("/spec/jobTemplate/metadata/labels/a", "c")
        .with("/metadata/generation", 4);
    let cluster = Cluster::new();
    assert_ne!(delays(&cluster, &old, &schedule), [Duration::ZERO]);
    // Both changes came in one delta.
    assert_eq!(delays(&cluster, &old, &template), [Duration::ZERO]);
}

#[test]
fn a_changed_time_zone_counts_as_a_changed_schedule() {
    let old = ran_at_11_59("0 12 * * *");
    let new = old.clone().spec("timeZone", "Europe/Berlin");
    // 12:00 in Berlin was an hour ago.
    assert_eq!(
        delays(&Cluster::new(), &old, &new),
        [minutes(23 * 60) + Duration::from_millis(1100)]
    );
    // With an unknown zone, the schedule is evaluated in the host's zone, and `reconcile` reports the unknown zone.
    let unknown = old.clone().spec("timeZone", "Mars/Olympus");
    assert_eq!(
        delays(&Cluster::new(), &old, &unknown),
        [Duration::from_millis(1100)]
    );
}

#[test]
fn a_malformed_schedule_is_reported_and_enqueues_nothing() {
    let cluster = Cluster::new();
    assert!(delays(&cluster, &cron_job("0 * * * *"), &cron_job("nonsense")).is_empty());
    assert_eq!(
        cluster.events(),
        ["Warning UnParseableCronJobSchedule unparseable schedule for cronjob: nonsense"]
    );
}

#[test]
fn an_impossible_schedule_is_reconciled_at_once() {
    assert_eq!(
        delays(
            &Cluster::new(),
            &cron_job("0 * * * *"),
            &cron_job("0 0 31 2 *")
        ),
        [Duration::ZERO]
    );
}

#[test]
fn invalid_settings_do_not_stop_the_routing() {
    let cluster = Cluster::new();
    cluster.set_config("time-zone", "Mars/Olympus");
    assert_eq!(
        delays(&cluster, &cron_job("0 * * * *"), &cron_job("0 * * * *")),
        [Duration::ZERO]
    );
}
