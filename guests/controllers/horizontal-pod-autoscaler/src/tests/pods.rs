//! The pods that count, and their requests.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::view;

use super::world;
use crate::calculator::{PodMetric, PodMetrics};
use crate::pods::*;
use crate::settings::Settings;
use crate::views::Pod;

const NOW: &str = "2026-01-01T00:10:00Z";

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

fn pod(change: impl FnOnce(&mut Value)) -> Pod {
    let mut object = world::pod("p");
    change(&mut object);
    view(object)
}

/// The group of one pod whose metric ends at this time, for a resource.
fn group_of(pod: Pod, resource: &str, measured: &str) -> &'static str {
    let metric = PodMetric {
        timestamp: time(measured),
        window: Duration::from_secs(60),
        value: 1,
    };
    let metrics = PodMetrics::from([("p".into(), metric)]);
    let readiness = Settings::default().readiness;
    let found = group(&[pod], &metrics, resource, readiness, time(NOW));
    match (
        found.ready,
        found.unready.len(),
        found.missing.len(),
        found.ignored.len(),
    ) {
        (1, 0, 0, 0) => "ready",
        (0, 1, 0, 0) => "unready",
        (0, 0, 1, 0) => "missing",
        (0, 0, 0, 1) => "ignored",
        other => panic!("{other:?}"),
    }
}

#[test]
fn pods_are_grouped_by_their_state() {
    let of = |change: fn(&mut Value)| group_of(pod(change), "", NOW);
    assert_eq!(of(|_| {}), "ready");
    assert_eq!(
        of(|pod| pod["metadata"]["deletionTimestamp"] = NOW.into()),
        "ignored"
    );
    assert_eq!(
        of(|pod| pod["status"]["phase"] = "Failed".into()),
        "ignored"
    );
    assert_eq!(
        of(|pod| pod["status"]["phase"] = "Pending".into()),
        "unready"
    );
    // Metrics other than the CPU's count even if the pod isn't ready.
    assert_eq!(of(|pod| pod["status"]["conditions"] = json!([])), "ready");
    let none = group(
        &[pod(|_| {})],
        &PodMetrics::new(),
        "cpu",
        Settings::default().readiness,
        time(NOW),
    );
    assert_eq!((none.ready, none.missing.len()), (0, 1));
}

#[test]
fn the_cpu_usage_of_a_starting_pod_does_not_count() {
    let of = |started: &str, ready: &str, changed: &str, measured: &str| {
        let pod = pod(|pod| {
            pod["status"]["startTime"] = started.into();
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": ready, "lastTransitionTime": changed}]);
        });
        group_of(pod, "cpu", measured)
    };
    let (recent, long_ago) = ("2026-01-01T00:06:00Z", "2026-01-01T00:00:00Z");
    // Within the first minutes: ready for less than a window, and for a window.
    assert_eq!(of(recent, "True", "2026-01-01T00:09:30Z", NOW), "unready");
    assert_eq!(of(recent, "True", "2026-01-01T00:09:00Z", NOW), "ready");
    assert_eq!(of(recent, "False", "2026-01-01T00:06:00Z", NOW), "unready");
    // Later: an unready pod counts if it has been ready before.
    assert_eq!(
        of(long_ago, "False", "2026-01-01T00:00:10Z", NOW),
        "unready"
    );
    assert_eq!(of(long_ago, "False", "2026-01-01T00:00:30Z", NOW), "ready");
    assert_eq!(of(long_ago, "True", "2026-01-01T00:09:59Z", NOW), "ready");
    assert_eq!(
        of(long_ago, "Unknown", "2026-01-01T00:00:10Z", NOW),
        "ready"
    );
    let without = |field: &str| {
        let pod = pod(|pod| pod["status"][field] = Value::Null);
        group_of(pod, "cpu", NOW)
    };
    assert_eq!(
        [without("startTime"), without("conditions")],
        ["unready"; 2]
    );
}

#[test]
fn ready_pods_run() {
    let pods = [
        pod(|_| {}),
        pod(|pod| pod["status"]["phase"] = "Succeeded".into()),
        pod(|pod| pod["status"]["conditions"][0]["status"] = "False".into()),
    ];
    assert_eq!(ready(&pods), Ok(1));
    let none = "no pods returned by selector while calculating replica count";
    assert_eq!(ready(&[]), Err(none.into()));
}

/// The CPU request of a pod with this spec.
fn requested(spec: Value, container: &str, pod_level: bool) -> Result<i64, String> {
    let pod = pod(|pod| pod["spec"] = spec);
    requests(&[pod], container, "cpu", pod_level).map(|found| found["p"])
}

fn container(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
}

#[test]
fn containers_and_sidecars_are_summed() {
    let mut sidecar = container("s", "100m");
    sidecar["restartPolicy"] = "Always".into();
    let spec = json!({"containers": [container("a", "1"), container("b", "500m")],
                      "initContainers": [sidecar, container("i", "9")]});
    assert_eq!(requested(spec.clone(), "", true), Ok(1600));
    assert_eq!(requested(spec.clone(), "b", true), Ok(500));
    assert_eq!(requested(spec.clone(), "s", true), Ok(100));
    let missing = "container i not found in Pod p";
    assert_eq!(requested(spec, "i", true), Err(missing.into()));
}

#[test]
fn each_container_must_have_a_request() {
    let spec = json!({"containers": [container("a", "1"), {"name": "b"}]});
    let missing = "missing request for cpu in container b of Pod p";
    assert_eq!(requested(spec.clone(), "", true), Err(missing.into()));
    assert_eq!(requested(spec.clone(), "b", true), Err(missing.into()));
    assert_eq!(requested(spec, "a", true), Ok(1000));
}

#[test]
fn the_request_of_a_pod_as_a_whole_takes_precedence() {
    let of = |requests: Value, pod_level| {
        let mut spec =
            json!({"containers": [container("a", "1"), {"name": "b"}], "overhead": {"cpu": "10m"}});
        spec["resources"] = json!({"requests": requests});
        requested(spec, "", pod_level)
    };
    assert_eq!(of(json!({"cpu": "3"}), true), Ok(3010));
    assert_eq!(of(json!({"memory": "1Gi"}), true), Ok(1010));
    let missing = "missing request for cpu in container b of Pod p";
    assert_eq!(of(json!({"cpu": "3"}), false), Err(missing.into()));
    assert_eq!(
        of(json!({"example.com/gpu": "3"}), true),
        Err(missing.into())
    );
    let whole =
        json!({"containers": [container("a", "1")], "resources": {"requests": {"cpu": "3"}}});
    assert_eq!(requested(whole, "a", true), Ok(1000));
    let none = json!({"containers": [{"name": "a"}], "resources": {"requests": {"memory": "1Gi"}}});
    let missing = "missing pod-level request for cpu in Pod p";
    assert_eq!(requested(none, "", true), Err(missing.into()));
}
