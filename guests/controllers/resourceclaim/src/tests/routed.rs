//! The keys of changes.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta};

use super::world::*;
use crate::ResourceClaims;

pub(super) fn route(
    cluster: &Cluster,
    kind: &str,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Vec<String> {
    let routed = cluster.route::<ResourceClaims>(&[delta(kind, old, new)]);
    let keys = routed.unwrap().into_iter();
    keys.map(|routed| routed.key.to_string()).collect()
}

fn web() -> Value {
    let claims = [
        from_template("gpu"),
        existing("shared"),
        from_template("nic"),
    ];
    recorded(pod("web", &claims), &[("gpu", "web-gpu-1")])
}

#[test]
fn a_pod_wakes_itself() {
    let cluster = Cluster::new();
    let web = web();
    assert_eq!(route(&cluster, POD, None, Some(&web)), ["pod:team/web"]);
    assert_eq!(
        route(&cluster, POD, Some(&web), Some(&web)),
        ["pod:team/web"]
    );
}

#[test]
fn a_pod_that_is_done_wakes_its_claims() {
    let cluster = Cluster::new();
    let claims = ["claim:team/shared", "claim:team/web-gpu-1"];
    let ended = with(web(), "/status/phase", "Failed");
    assert_eq!(
        route(&cluster, POD, Some(&web()), Some(&ended)),
        [&claims[..], &["pod:team/web"]].concat()
    );
    assert_eq!(
        route(&cluster, POD, Some(&web()), Some(&deleting(web()))),
        claims
    );
    let stopping = deleting(on_node(web()));
    assert_eq!(
        route(&cluster, POD, None, Some(&stopping)),
        Vec::<String>::new()
    );
    assert_eq!(route(&cluster, POD, Some(&stopping), None), claims);
}

#[test]
fn a_pod_that_was_replaced_wakes_the_claims_of_the_old_one() {
    let next = with(pod("web", &[existing("next")]), "/metadata/uid", "another");
    assert_eq!(
        route(&Cluster::new(), POD, Some(&web()), Some(&next)),
        ["claim:team/shared", "claim:team/web-gpu-1", "pod:team/web"]
    );
}

#[test]
fn the_claim_of_extended_resources_is_woken_too() {
    let web = with(
        pod("web", &[]),
        "/status/extendedResourceClaimStatus",
        json!({"resourceClaimName": "extended"}),
    );
    let cluster = Cluster::new();
    assert_eq!(route(&cluster, POD, None, Some(&web)), Vec::<String>::new());
    let ended = with(web.clone(), "/status/phase", "Succeeded");
    assert_eq!(
        route(&cluster, POD, Some(&web), Some(&ended)),
        ["claim:team/extended"]
    );
}

#[test]
fn a_claim_wakes_itself_and_the_pods_that_use_it() {
    let cluster = Cluster::with([
        web(),
        pod("db", &[existing("shared")]),
        pod("other", &[existing("other")]),
        with(
            pod("elsewhere", &[existing("shared")]),
            "/metadata/namespace",
            "other",
        ),
    ]);
    let shared = claim("shared");
    assert_eq!(
        route(&cluster, CLAIM, None, Some(&shared)),
        ["claim:team/shared", "pod:team/db", "pod:team/web"]
    );
    assert_eq!(
        route(&cluster, CLAIM, Some(&shared), None),
        ["pod:team/db", "pod:team/web"]
    );
    let generated = claim("web-gpu-1");
    assert_eq!(
        route(&cluster, CLAIM, Some(&generated), None),
        ["pod:team/web"]
    );
}

#[test]
fn a_template_wakes_the_pods_that_name_it() {
    let cluster = Cluster::with([web(), pod("db", &[from_template("db")])]);
    assert_eq!(
        route(&cluster, TEMPLATE, None, Some(&plain("nic"))),
        ["pod:team/web"]
    );
}
