//! Autoscalers that scale the same pods.

use std::time::Duration;

use flyball_sdk::LabelSelector;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::{autoscaler, pod};
use crate::rivals;
use crate::views::{Autoscaler, Pod};

/// The autoscalers `web` and `rival`, and two pods with the label `app=web`.
fn cluster() -> Cluster {
    let spec = || json!({"maxReplicas": 10});
    Cluster::with([
        autoscaler("web", spec()),
        autoscaler("rival", spec()),
        pod("a"),
        pod("b"),
    ])
}

fn get(cluster: &Cluster, name: &str) -> Autoscaler {
    let found = cluster.host().get::<Autoscaler>("team", name);
    found.unwrap().unwrap()
}

fn keep(cluster: &Cluster, name: &str, selector: &str) {
    let selector: LabelSelector = selector.parse().unwrap();
    rivals::keep(&cluster.host(), &get(cluster, name), &selector);
}

/// The rivals of `web`.
fn found(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.host().list::<Pod>().namespace("team").all();
    rivals::of(&cluster.host(), &get(cluster, "web"), &pods.unwrap()).unwrap()
}

#[test]
fn an_entry_that_an_autoscaler_has_left_behind_makes_it_no_rival() {
    let cluster = cluster();
    keep(&cluster, "rival", "app=web");
    let entry = "selectors/team/app=web";
    let left: Value = cluster.host().memo().get(entry).unwrap();
    keep(&cluster, "rival", "app=other");
    // The change of another instance at the same time has won.
    let put = |host: Host| host.memo().put(entry, &left, "", Duration::ZERO);
    put(cluster.host()).unwrap();
    assert!(found(&cluster).is_empty());
}

#[test]
fn a_rival_is_found_whatever_its_selector_requires() {
    for (selector, is_rival) in [
        ("app=web", true),
        ("app in (web)", true),
        ("app in (other, web)", true),
        ("app", true),
        ("tier!=back", true),
        ("app=web,tier!=back", true),
        ("app=web,tier=back", false),
        ("app=other", false),
        ("app!=web", false),
        ("!app", false),
    ] {
        let cluster = cluster();
        keep(&cluster, "web", "app=web");
        keep(&cluster, "rival", selector);
        let expected = if is_rival { vec!["rival"] } else { vec![] };
        assert_eq!(found(&cluster), expected, "{selector}");
    }
}

#[test]
fn the_last_selector_counts() {
    let cluster = cluster();
    keep(&cluster, "rival", "app=web");
    keep(&cluster, "rival", "app=other");
    assert_eq!(found(&cluster), [""; 0]);
    keep(&cluster, "rival", "app");
    assert_eq!(found(&cluster), ["rival"]);
    keep(&cluster, "rival", "app=web");
    assert_eq!(found(&cluster), ["rival"]);
}

#[test]
fn a_deleted_autoscaler_is_no_rival_and_leaves_nothing() {
    let cluster = cluster();
    keep(&cluster, "rival", "app=web");
    cluster.remove(Autoscaler::KIND, "team", "rival");
    assert_eq!(found(&cluster), [""; 0], "before its own reconcile");
    rivals::forget(&cluster.host(), &Key::new("team", "rival"));
    for key in ["selectors/team/app=web", "place/team/rival"] {
        assert_eq!(cluster.host().memo().get::<Value>(key), None, "{key}");
    }
}

#[test]
fn a_selector_that_was_lost_comes_back() {
    let cluster = cluster();
    keep(&cluster, "rival", "app=web");
    cluster.host().memo().remove("selectors/team/app=web");
    assert_eq!(found(&cluster), [""; 0]);
    keep(&cluster, "rival", "app=web");
    assert_eq!(found(&cluster), ["rival"]);
}
