//! A process that ends between any two steps, and another one that takes over with an empty memory.

use std::rc::Rc;

use flyball_cloud::CloudError;
use flyball_cloud::testing::{FakeCloud, install};
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

/// The next leader: it has the same objects and the same cloud, and remembers nothing.
fn taken_over(cluster: &Cluster, cloud: &FakeCloud) -> Cluster {
    let objects = cluster.objects(SERVICE).into_iter();
    let next = Cluster::with(objects.chain(cluster.objects("v1/Node")));
    install(&next, Rc::new(cloud.clone()));
    next
}

/// Ends a process before the step with this number: the finalizer, the call, the response to it, and the status.
fn interrupted(step: usize) -> (Cluster, FakeCloud) {
    let (cluster, cloud) = world(service());
    match step {
        0 => cluster.fail("patch", STATUS, refusal(500, "InternalError")),
        1 => cloud.fail("EnsureLoadBalancer", CloudError::other("interrupted")),
        2 => {
            // The cloud creates the load balancer, and nobody gets the response.
            reconcile(&cluster).unwrap();
            cluster.edit(SERVICE, "team", "web", |service| {
                service["status"] = json!({})
            });
            return (taken_over(&cluster, &cloud), cloud);
        }
        _ => cluster.fail_nth("patch", STATUS, 2, refusal(500, "InternalError")),
    }
    reconcile(&cluster).unwrap_err();
    (taken_over(&cluster, &cloud), cloud)
}

#[test]
fn the_next_leader_completes_a_creation() {
    for step in 0..4 {
        let (next, cloud) = interrupted(step);
        reconcile(&next).unwrap();
        assert_eq!(cloud.load_balancers(), ["uid-web"], "{step}");
        let service = stored(&next);
        assert_eq!(
            service["metadata"]["finalizers"],
            json!([FINALIZER]),
            "{step}"
        );
        let ingress = &service["status"]["loadBalancer"]["ingress"];
        assert_eq!(ingress, &json!([{"ip": "192.0.2.1"}]), "{step}");
    }
}

#[test]
fn a_service_that_is_deleted_meanwhile_leaves_no_load_balancer() {
    for step in 0..4 {
        let (next, cloud) = interrupted(step);
        next.delete(SERVICE, "team", "web");
        reconcile(&next).unwrap();
        assert!(cloud.load_balancers().is_empty(), "{step}");
        assert!(next.object(SERVICE, "team", "web").is_none(), "{step}");
    }
}

#[test]
fn the_next_leader_completes_a_deletion() {
    for step in 0..3 {
        let (cluster, cloud) = settled();
        cluster.delete(SERVICE, "team", "web");
        match step {
            0 => cloud.fail("GetLoadBalancer", CloudError::other("interrupted")),
            1 => cloud.fail(
                "EnsureLoadBalancerDeleted",
                CloudError::other("interrupted"),
            ),
            _ => cluster.fail("patch", STATUS, refusal(500, "InternalError")),
        }
        reconcile(&cluster).unwrap_err();
        let next = taken_over(&cluster, &cloud);
        reconcile(&next).unwrap();
        assert!(cloud.load_balancers().is_empty(), "{step}");
        assert!(next.object(SERVICE, "team", "web").is_none(), "{step}");
    }
}
