//! The objects of the tests, and the results of the controller.

use flyball_sdk::Error;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use crate::EndpointSliceMirroringController;

pub(super) const SLICE: &str = "discovery.k8s.io/v1/EndpointSlice";

pub(super) fn service(selector: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "a"},
           "spec": {"selector": selector}})
}

pub(super) fn endpoints(subsets: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Endpoints",
           "metadata": {"name": "web", "namespace": "a", "uid": "endpoints"}, "subsets": subsets})
}

/// A subset with these ready addresses and one port.
pub(super) fn subset(addresses: &[&str], port: u32) -> Value {
    let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"addresses": addresses, "ports": [{"name": "http", "port": port, "protocol": "TCP"}]})
}

/// A cluster with a Service without a selector and its Endpoints.
pub(super) fn cluster(subsets: Value) -> Cluster {
    Cluster::with([service(json!(null)), endpoints(subsets)])
}

pub(super) fn try_reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<EndpointSliceMirroringController>("a/web")
}

/// Reconciles, and returns the verbs of the writes.
pub(super) fn reconcile(cluster: &Cluster) -> Vec<String> {
    try_reconcile(cluster).expect("it succeeds");
    cluster
        .writes()
        .into_iter()
        .map(|write| write.verb)
        .collect()
}

pub(super) fn slices(cluster: &Cluster) -> Vec<Value> {
    cluster.objects(SLICE)
}

/// The address type and the addresses of each slice, sorted.
pub(super) fn mirrored(cluster: &Cluster) -> Vec<String> {
    let mut mirrored: Vec<String> = slices(cluster)
        .iter()
        .map(|slice| {
            let endpoints = slice["endpoints"].as_array().unwrap().iter();
            let addresses: Vec<&str> = endpoints
                .map(|endpoint| endpoint["addresses"][0].as_str().unwrap())
                .collect();
            format!(
                "{} {}: {}",
                slice["addressType"].as_str().unwrap(),
                slice["ports"][0]["port"],
                addresses.join(" ")
            )
        })
        .collect();
    mirrored.sort();
    mirrored
}

pub(super) fn edit(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster.edit("v1/Endpoints", "a", "web", change);
}
