//! When conflicts are reported and counted.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::SelinuxWarnings;

fn ended(pod: Value) -> Value {
    with(pod, "/status/phase", "Succeeded")
}

#[test]
fn a_conflict_is_reported_about_both_pods_once() {
    let cluster = cluster([pod("a", "s0:c1"), pod("b", "s0:c2")]);
    assert!(sync(&cluster, &["team/a"]).is_empty());
    assert_eq!(sync(&cluster, &["team/b"]), label_conflict("b", "a"));
    assert!(sync(&cluster, &["team/a", "team/b"]).is_empty());
    assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
}

#[test]
fn events_are_normal_and_about_the_version_that_was_seen() {
    let cluster = cluster([pod("a", "s0:c1"), pod("b", "s0:c2")]);
    cluster.reconcile::<SelinuxWarnings>("team/a").unwrap();
    cluster.reconcile::<SelinuxWarnings>("team/b").unwrap();
    let events = cluster.recorded_events();
    assert_eq!(events[1].event_type, "Normal");
    let about = cluster.object(POD, "team", "a").unwrap();
    let version = &about["metadata"]["resourceVersion"];
    assert_eq!(*version, events[1].options.resource_version.as_str());
}

#[test]
fn a_third_pod_is_compared_with_each_of_the_others() {
    let cluster = cluster([pod("a", "s0:c1"), pod("b", "s0:c1"), pod("c", "s0:c2")]);
    assert!(sync(&cluster, &["team/a", "team/b"]).is_empty());
    assert_eq!(
        sync(&cluster, &["team/c"]),
        [label_conflict("c", "a"), label_conflict("c", "b")].concat()
    );
}

#[test]
fn a_pod_that_has_ended_or_was_deleted_no_longer_counts() {
    let end = |cluster: &Cluster| cluster.put(ended(pod("a", "s0:c1")));
    let delete = |cluster: &Cluster| cluster.remove(POD, "team", "a");
    for end in [&end as &dyn Fn(&Cluster), &delete] {
        let cluster = cluster([pod("a", "s0:c1"), pod("b", "s0:c2")]);
        sync(&cluster, &["team/a"]);
        end(&cluster);
        assert!(sync(&cluster, &["team/a", "team/b"]).is_empty());
        // It is back.
        cluster.put(pod("a", "s0:c1"));
        assert_eq!(sync(&cluster, &["team/a"]), label_conflict("a", "b"));
    }
}

#[test]
fn an_event_about_a_pod_that_is_gone_is_left_out() {
    let cluster = cluster([pod("a", "s0:c1"), pod("b", "s0:c2")]);
    sync(&cluster, &["team/a"]);
    cluster.remove(POD, "team", "a");
    // The deletion is yet to be reconciled.
    assert_eq!(sync(&cluster, &["team/b"]), ["b SELinuxLabelConflict"]);
}

#[test]
fn a_driver_that_supports_labels_now_or_no_longer_wakes_its_pods() {
    let other = [
        with(pod("other", "s0:c1"), "/spec/volumes", json!([])),
        ended(pod("ended", "s0:c1")),
    ];
    let cluster = cluster(
        [pod("a", "s0:c1"), pod("b", "s0:c2")]
            .into_iter()
            .chain(other),
    );
    cluster.put(driver(false));
    assert!(sync(&cluster, &["team/a", "team/b"]).is_empty());
    cluster.put(driver(true));
    assert!(sync(&cluster, &["csi.example.com"]).is_empty());
    let enqueued = cluster.enqueued().into_iter();
    let enqueued: Vec<String> = enqueued.map(|enqueued| enqueued.key).collect();
    assert_eq!(enqueued, ["team/a", "team/b"]);
    // For a moment one pod has a label and the other has none, which kube-controller-manager reports, too.
    assert_eq!(sync(&cluster, &["team/a"]).len(), 4);
    assert_eq!(sync(&cluster, &["team/b"]), label_conflict("b", "a"));
    sync(&cluster, &["other.example.com"]);
    assert!(cluster.enqueued().is_empty());
}

#[test]
fn current_conflicts_are_counted_in_both_directions() {
    let cluster = cluster([pod("a", "s0:c1"), pod("b", "s0:c2"), pod("c", "s0:c2")]);
    sync(&cluster, &["team/a", "team/b"]);
    assert_eq!(
        counted(&cluster),
        ["SELinuxLabel a b 1", "SELinuxLabel b a 1"]
    );
    sync(&cluster, &["team/c", "team/c"]);
    assert_eq!(
        counted(&cluster),
        ["SELinuxLabel a c 1", "SELinuxLabel c a 1"]
    );
    cluster.remove(POD, "team", "a");
    sync(&cluster, &["team/a"]);
    assert_eq!(
        counted(&cluster),
        [
            "SELinuxLabel a b 0",
            "SELinuxLabel a c 0",
            "SELinuxLabel b a 0",
            "SELinuxLabel c a 0"
        ]
    );
}

#[test]
fn a_conflict_in_two_volumes_is_reported_for_each_and_counted_once() {
    let second = |name: &str, level: &str| {
        let disk =
            json!({"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2026-01.com.example:a", "lun": 0});
        let mut pod = pod(name, level);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data"}, {"name": "more"}]);
        let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
        volumes.push(json!({"name": "more", "iscsi": disk}));
        pod
    };
    let cluster = cluster([second("a", "s0:c1"), second("b", "s0:c2")]);
    let events = sync(&cluster, &["team/a", "team/b"]);
    let of_volume = label_conflict("b", "a");
    assert_eq!(events, [of_volume.clone(), of_volume].concat());
    assert_eq!(counted(&cluster).len(), 2);
    cluster.put(ended(second("a", "s0:c1")));
    sync(&cluster, &["team/a"]);
    assert_eq!(
        counted(&cluster),
        ["SELinuxLabel a b 0", "SELinuxLabel b a 0"]
    );
}
