//! Tests of the state and the health checks of a version.

use super::*;

const UNSYNCED: &str = "waits until its caches are synced: v1/Pod";

fn waiting() -> WaitsFor {
    WaitsFor {
        kinds: Arc::new(|| None),
        caches: Arc::new(|| Some(UNSYNCED.to_owned())),
        slots: Arc::new(|| None),
    }
}

fn starving() -> WaitsFor {
    WaitsFor {
        kinds: Arc::new(|| None),
        caches: Arc::new(|| None),
        slots: Arc::new(|| starvation(Duration::from_secs(11))),
    }
}

fn ready(health: &HealthChecks) -> (bool, String) {
    let report = health.report("readyz", &[]);
    (report.is_healthy(), report.text(true))
}

#[test]
fn a_built_in_is_alive_and_not_ready_until_its_informers_are_synced() {
    let health = HealthChecks::default();
    let checks = checks(&health, "job-controller", true, &waiting());
    assert_eq!(health.check("job-controller"), Some(Ok(())));
    assert!(health.report("healthz", &[]).is_healthy());
    let report = health.report("readyz", &[]);
    assert_eq!(
        report.failed(),
        [("informers/job-controller".to_owned(), UNSYNCED.to_owned())]
    );
    drop(checks);
    assert!(ready(&health).0);
}

#[test]
fn a_watch_of_a_plugin_that_never_syncs_names_the_plugin_and_leaves_the_host_ready() {
    let health = HealthChecks::default();
    let checks = checks(&health, "hello", false, &waiting());
    assert_eq!(
            ready(&health),
            (
                true,
                "[+]ping ok\n[+]plugins/hello ok\n[i]informers/hello: not synced\nreadyz check passed\n".to_owned()
            )
        );
    drop(checks);
    assert_eq!(ready(&health).1, "[+]ping ok\nreadyz check passed\n");
}

#[test]
fn a_starved_built_in_makes_the_host_unready_and_a_starved_plugin_is_noted() {
    let health = HealthChecks::default();
    let noted = checks(&health, "hello", false, &starving());
    assert_eq!(
        ready(&health),
        (
            true,
            "[+]ping ok\n[+]plugins/hello ok\n[i]instances/hello: starved\nreadyz check passed\n"
                .to_owned()
        )
    );
    drop(noted);
    let failing = checks(&health, "job-controller", true, &starving());
    let report = health.report("readyz", &[]);
    let [(name, reason)] = report.failed() else {
        panic!("{:?}", report.failed());
    };
    assert_eq!(name, "instances/job-controller");
    assert!(reason.starts_with("is starved: its calls have waited for an instance slot for 11 s"));
    assert!(health.report("livez", &[]).is_healthy());
    drop(failing);
    assert!(ready(&health).0);
    assert_eq!(starvation(STARVED), None);
}

#[test]
fn no_plugin_hides_the_checks_of_a_built_in() {
    let health = HealthChecks::default();
    let _own = checks(&health, "a", true, &waiting());
    let nothing = || WaitsFor {
        kinds: Arc::new(|| None),
        caches: Arc::new(|| None),
        slots: Arc::new(|| None),
    };
    let names = ["a", "a-informers", "informers", "ping", "readyz"];
    let _others = names.map(|name| checks(&health, name, false, &nothing()));
    assert_eq!(health.check("informers/a"), Some(Err(UNSYNCED.to_owned())));
    assert!(!ready(&health).0);
}

#[test]
fn the_state_says_what_a_version_waits_for() {
    let limits = HostLimits::new("a".into(), &Default::default(), false, Arc::default());
    let nothing = WaitsFor {
        caches: Arc::new(|| None),
        ..waiting()
    };
    let deleted = WaitsFor {
        kinds: Arc::new(|| Some("waits for a kind".to_owned())),
        ..waiting()
    };
    for (waits_for, leads, state) in [
        (&nothing, true, PluginState::Running),
        (&nothing, false, PluginState::Standby),
        (&waiting(), true, PluginState::Starting),
        (&deleted, true, PluginState::WaitingForKind),
    ] {
        assert_eq!(state_of(&limits, waits_for, leads), state);
    }
}
