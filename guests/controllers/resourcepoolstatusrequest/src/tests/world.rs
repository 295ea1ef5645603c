//! The objects of the tests, and the steps on them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::PoolStatus;

pub(super) const REQUEST: &str = "resource.k8s.io/v1alpha3/ResourcePoolStatusRequest";

/// An object with a field set.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// A request for all pools of the driver `gpu.example.com`.
pub(super) fn request() -> Value {
    json!({"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest",
           "metadata": {"name": "ask", "creationTimestamp": "2026-01-01T00:00:00Z"},
           "spec": {"driver": "gpu.example.com"}})
}

/// A slice of a pool at generation 1, which is the only one of the pool and has this many devices.
pub(super) fn slice(name: &str, pool: &str, devices: usize) -> Value {
    let devices: Vec<Value> = (0..devices)
        .map(|device| json!({"name": format!("gpu-{device}")}))
        .collect();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
           "spec": {"driver": "gpu.example.com", "devices": devices,
                    "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}}})
}

/// A claim with different devices of these pools of the driver.
pub(super) fn claim(name: &str, pools: &[&str]) -> Value {
    let device = |(at, pool): (usize, &&str)| json!({"driver": "gpu.example.com", "pool": pool, "device": format!("gpu-{at}")});
    let devices: Vec<Value> = pools.iter().enumerate().map(device).collect();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
           "metadata": {"name": name, "namespace": "team"},
           "status": {"allocation": {"devices": {"results": devices}}}})
}

pub(super) fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<PoolStatus>("ask")
}

/// Answers the request, and returns its status.
pub(super) fn answer(objects: impl IntoIterator<Item = Value>) -> Value {
    let cluster = Cluster::with(objects);
    reconcile(&cluster).unwrap();
    cluster.object(REQUEST, "", "ask").unwrap()["status"].clone()
}
