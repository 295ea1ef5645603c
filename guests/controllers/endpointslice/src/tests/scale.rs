//! A reconcile of a Service with many endpoints, after one of them has changed.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

#[test]
fn one_changed_pod_of_a_thousand_updates_one_slice() {
    let cluster = Cluster::with([service(json!({}))]);
    for at in 0..64 {
        cluster.put(node(&format!("node-{at}"), "west"));
    }
    for at in 0..1000 {
        let name = format!("web-{at:04}");
        let mut pod = pod(&name, &format!("10.0.{}.{}", at / 250, at % 250));
        pod["spec"]["nodeName"] = format!("node-{}", at % 64).into();
        cluster.put(pod);
    }
    assert_eq!(reconcile(&cluster).len(), 10);
    edit_pod(&cluster, "web-0345", |pod| {
        pod["status"]["conditions"][0]["status"] = "False".into();
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    cluster.remove("v1/Pod", "a", "web-0345");
    assert_eq!(reconcile(&cluster), ["update"]);
    cluster.put(node("node", ""));
    cluster.put(pod("web-9999", "10.0.99.99"));
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(sizes(&cluster), [100; 10]);
}
