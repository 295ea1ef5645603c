//! Native tests of the whole controller.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal};
use storageversion_garbage_collector_controller::StorageVersions;

const VERSION: &str = "internal.apiserver.k8s.io/v1alpha1/StorageVersion";
const LEASE: &str = "coordination.k8s.io/v1/Lease";

fn version(name: &str, servers: &[(&str, &str)]) -> Value {
    let entries: Vec<_> = servers
        .iter()
        .map(|(server, encoding)| {
            json!({"apiServerID": server, "encodingVersion": encoding,
                   "decodableVersions": ["v1", "v2"], "servedVersions": ["v1"]})
        })
        .collect();
    json!({"apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion",
           "metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": {}, "status": {"storageVersions": entries}})
}

fn lease(name: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name,
           "namespace": "kube-system", "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"}}})
}

fn reconcile(cluster: &Cluster, queue: &str, key: &str) -> Result<Outcome, Error> {
    let queue = format!("storage_version_garbage_collector_{queue}");
    cluster.reconcile_request::<StorageVersions>(&Request::new(&queue, key))
}

fn servers(cluster: &Cluster, name: &str) -> Option<Vec<String>> {
    let version = cluster.object(VERSION, "", name)?;
    let entries = version["status"]["storageVersions"].as_array().unwrap();
    let server = |entry: &Value| entry["apiServerID"].as_str().unwrap().to_owned();
    Some(entries.iter().map(server).collect())
}

#[test]
fn an_api_server_whose_lease_was_deleted_is_removed_everywhere() {
    let cluster = Cluster::with([
        version("both", &[("a", "v1"), ("b", "v2")]),
        version("only", &[("a", "v1")]),
        version("other", &[("b", "v1")]),
        lease("b"),
    ]);
    reconcile(&cluster, "leases", "kube-system/a").unwrap();
    assert_eq!(servers(&cluster, "both").unwrap(), ["b"]);
    assert_eq!(servers(&cluster, "only"), None);
    assert_eq!(
        cluster.written(),
        [
            format!("update {VERSION}/status both"),
            format!("delete {VERSION} only")
        ]
    );
    let status = &cluster.object(VERSION, "", "both").unwrap()["status"];
    assert_eq!(status["commonEncodingVersion"], "v2");
    assert_eq!(
        status["conditions"][0]["reason"],
        "CommonEncodingVersionSet"
    );
    assert_eq!(
        status["storageVersions"][0],
        json!({"apiServerID": "b", "encodingVersion": "v2", "decodableVersions": ["v1", "v2"], "servedVersions": ["v1"]})
    );
    reconcile(&cluster, "leases", "kube-system/a").unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_lease_that_exists_again_keeps_its_entries() {
    let cluster = Cluster::with([version("one", &[("a", "v1")]), lease("a")]);
    reconcile(&cluster, "leases", "kube-system/a").unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_storage_version_with_unknown_servers_loses_them() {
    let mut foreign = lease("c");
    foreign["metadata"]["labels"] = json!({"apiserver.kubernetes.io/identity": "other"});
    let cluster = Cluster::with([
        version("one", &[("a", "v1"), ("b", "v1"), ("c", "v1")]),
        lease("b"),
        foreign,
    ]);
    reconcile(&cluster, "storageversions", "one").unwrap();
    assert_eq!(servers(&cluster, "one").unwrap(), ["b"]);
    assert_eq!(cluster.written(), [format!("update {VERSION}/status one")]);
}

#[test]
fn a_storage_version_is_read_live_only_if_a_lease_is_missing() {
    let cluster = Cluster::with([version("one", &[("a", "v1")]), lease("a")]);
    reconcile(&cluster, "storageversions", "one").unwrap();
    assert!(cluster.live_reads().is_empty() && cluster.written().is_empty());

    let cluster = Cluster::with([version("one", &[("a", "v1")])]);
    cluster.put_live(lease("a"));
    reconcile(&cluster, "storageversions", "one").unwrap();
    assert!(cluster.written().is_empty());
    assert_eq!(cluster.live_reads().len(), 2);
    reconcile(&cluster, "storageversions", "gone").unwrap();
}

#[test]
fn a_lease_that_cant_be_read_keeps_its_entries_and_is_retried() {
    let cluster = Cluster::with([version("one", &[("a", "v1")])]);
    cluster.fail("get", LEASE, refusal(500, "InternalError"));
    assert!(
        !reconcile(&cluster, "storageversions", "one")
            .unwrap_err()
            .is_terminal()
    );
    cluster.fail("get", LEASE, refusal(500, "InternalError"));
    assert!(
        !reconcile(&cluster, "leases", "kube-system/a")
            .unwrap_err()
            .is_terminal()
    );
    assert!(cluster.written().is_empty());
    reconcile(&cluster, "storageversions", "one").unwrap();
    assert_eq!(servers(&cluster, "one"), None);
}

#[test]
fn one_failure_does_not_keep_the_others() {
    let cluster = Cluster::with([version("x", &[("a", "v1")]), version("y", &[("a", "v1")])]);
    cluster.fail("delete", VERSION, refusal(500, "InternalError"));
    assert!(reconcile(&cluster, "leases", "kube-system/a").is_err());
    assert_eq!(
        (servers(&cluster, "x").is_some(), servers(&cluster, "y")),
        (true, None)
    );
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = StorageVersions::describe();
    description.check().unwrap();
    let names: Vec<_> = description
        .queues
        .iter()
        .map(|queue| &*queue.name)
        .collect();
    assert_eq!(
        names,
        [
            "storage_version_garbage_collector_leases",
            "storage_version_garbage_collector_storageversions"
        ]
    );
    assert_eq!(
        permissions(&description),
        [
            format!("{LEASE}  get"),
            format!("{VERSION}  delete,get,list"),
            format!("{VERSION} status update")
        ]
    );
}
