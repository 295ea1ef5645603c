//! Live reads: the requests, and the part of the response that a plugin gets.

use std::path::Path;
use std::time::Duration;

use flyball_api::fence::Fence;
use flyball_cache::{Discovery, KubeSource, Source};
use flyball_fakes::server::{Log, Reply, serve};
use flyball_policy::Policy;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;

const POLICY: &str = "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"get\", \"list\"]\n\
                          namespaces = [\"demo\"]\nfields = [\"metadata.name\", \"spec\"]\n";

/// The reads of a plugin on a server that has one pod, ten per second; and the requests that they sent.
fn reads() -> (LiveReads, Log) {
    let (reads, log, _) = reads_by(POLICY);
    (reads, log)
}

/// Like [`reads`], with another policy. Also returns the requests of discovery.
fn reads_by(policy: &str) -> (LiveReads, Log, Log) {
    let pod = || json!({"metadata": {"name": "web", "uid": "1", "labels": {"a": "b"}}, "spec": {"nodeName": "n"}, "status": {}});
    let served = json!({"items": [{"versions": [{"version": "v1", "resources": [
        {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced", "verbs": ["get", "list"]},
    ]}]}]});
    let (server, discovered) = serve(move |request| match &*request.path {
        "/api" => Reply::Json(200, served.clone()),
        _ => Reply::Json(200, json!({"items": []})),
    });
    let source: Arc<dyn Source> = Arc::new(KubeSource::new(server));
    let (connection, log) = serve(move |request| match &*request.path {
        "/api/v1/namespaces/demo/pods/web" => Reply::Json(200, pod()),
        _ => Reply::Json(200, json!({"items": [pod()]})),
    });
    let policy = Policy::parse(Path::new("policy.toml"), policy).expect("a policy");
    let reads = LiveReads::new(
        ApiClient::new(connection, None, "test", Arc::new(Fence::closed())),
        Arc::new(PluginDiscovery::new(
            Arc::new(Discovery::new(source)),
            RateLimiter::new(0.0, 1),
            None,
        )),
        Arc::new(policy.plugins["a"].clone()),
        RateLimiter::new(10.0, 1),
        1 << 20,
        Budget::new(1 << 20),
    );
    (reads, log, discovered)
}

/// The part of the pod that the policy lets the plugin read. An object always keeps its identity.
fn granted() -> Value {
    json!({"metadata": {"name": "web", "uid": "1"}, "spec": {"nodeName": "n"}})
}

fn json_of(answer: Fetched) -> Value {
    let reduced = answer.reduce(&Allowance::of_host()).expect("JSON");
    serde_json::from_slice(&reduced.bytes).expect("JSON")
}

fn get(kind: &str, namespace: &str, name: &str, fields: &[&str]) -> GuestRead {
    GuestRead::Get {
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
        fields: fields.iter().map(|&field| field.into()).collect(),
    }
}

fn list(namespace: &str, parameters: &[(&str, &str)]) -> GuestRead {
    let pair = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    GuestRead::List {
        kind: "v1/Pod".into(),
        namespace: namespace.into(),
        parameters: parameters.iter().map(pair).collect(),
        fields: Vec::new(),
    }
}

async fn read(reads: &LiveReads, read: GuestRead) -> Result<Fetched, ApiError> {
    reads.fetch(reads.prepare(read)?).await
}

#[tokio::test]
async fn an_object_has_the_fields_that_are_both_granted_and_asked_for() {
    let (reads, _) = reads();
    for fields in [&[][..], &["status", "metadata.labels", "spec"]] {
        let found = read(&reads, get("v1/Pod", "demo", "web", fields)).await;
        assert_eq!(json_of(found.unwrap()), granted());
    }
}

#[tokio::test]
async fn the_objects_of_a_list_have_the_fields_that_are_granted() {
    let (reads, log) = reads();
    let found = read(&reads, list("demo", &[("limit", "5")])).await;
    assert_eq!(json_of(found.unwrap())["items"], json!([granted()]));
    assert_eq!(log.take(), ["GET /api/v1/namespaces/demo/pods?limit=5"]);
}

#[tokio::test]
async fn a_read_that_is_not_granted_sends_nothing() {
    let (reads, log) = reads();
    for (denied, reason) in [
        (get("v1/Pod", "other", "web", &[]), "Denied"),
        (get("v1/Secret", "demo", "web", &[]), "Denied"),
        (list("", &[]), "Denied"),
        (raw("/metrics"), "Denied"),
        (list("demo", &[("watch", "1")]), "Invalid"),
        (get("v1/Pod", "demo", "../secrets/a", &[]), "NotFound"),
        (get("v1/Pod", "demo", "", &[]), "NotFound"),
    ] {
        let error = read(&reads, denied).await.map(drop).unwrap_err();
        assert_eq!(error.reason, reason);
    }
    assert!(log.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn reads_wait_for_a_rate_limiter_of_their_own() {
    let (reads, start) = (reads().0, Instant::now());
    for _ in 0..6 {
        let found = read(&reads, get("v1/Pod", "demo", "web", &[])).await;
        found.map(drop).unwrap();
    }
    let took = start.elapsed().as_millis();
    assert!((499..=520).contains(&took), "{took} ms");
}

fn raw(path: &str) -> GuestRead {
    GuestRead::Raw { path: path.into() }
}

#[tokio::test(start_paused = true)]
async fn raw_reads_of_unlisted_resources_are_refused_at_once_and_share_one_discovery_a_second() {
    let policy = "[plugins.a]\nimports = [\"raw\"]\n\
                      [[plugins.a.allow]]\nkinds = [\"x.example/v1/Foo\"]\nverbs = [\"*\"]\n";
    let (reads, log, discovered) = reads_by(policy);
    let start = Instant::now();
    for _ in 0..2 {
        let found = read(&reads, raw("/apis/x.example/v1/foo")).await;
        assert_eq!(found.map(drop).unwrap_err().reason, "UnknownKind");
    }
    assert!(start.elapsed() < Duration::from_millis(200));
    assert_eq!(discovered.take().len(), 2, "of /api and /apis");
    assert!(log.take().is_empty());
}

#[tokio::test]
async fn a_rule_for_a_group_grants_raw_reads_of_its_unlisted_resources_without_discovery() {
    let policy = "[plugins.a]\nimports = [\"raw\"]\n\
                      [[plugins.a.allow]]\nkinds = [\"x.example/*\"]\nsubresource = \"*\"\nverbs = [\"get\"]\n\
                      namespaces = [\"demo\"]\n";
    let (reads, log, discovered) = reads_by(policy);
    let metric = "/apis/x.example/v1/namespaces/demo/pods/*/a%7Cb";
    let query = "?labelSelector=a%3Db&metricLabelSelector=c";
    read(&reads, raw(&format!("{metric}{query}")))
        .await
        .unwrap();
    assert_eq!(log.take(), [format!("GET {metric}{query}")]);
    assert!(discovered.take().is_empty());
    for other in [
        "/apis/x.example/v1/namespaces/demo/pods",
        "/apis/x.example/v1/namespaces/other/pods/*/rate",
        "/apis/x.example/v1/pods/*/rate",
        "/apis/other.example/v1/namespaces/demo/pods/*/rate",
        "/api/v1/namespaces/demo/things/a",
    ] {
        let found = read(&reads, raw(other)).await;
        assert_eq!(
            found.map(drop).unwrap_err().reason,
            "UnknownKind",
            "{other}"
        );
    }
    let listed = read(&reads, raw("/api/v1/namespaces/demo/pods/web")).await;
    assert_eq!(listed.map(drop).unwrap_err().reason, "Denied");
    assert!(log.take().is_empty());
}

#[test]
fn the_parameters_of_a_list_are_known_and_escaped() {
    let path = |name: &str, value: &str| {
        let parameters = [(name.into(), value.into())];
        with_parameters("/api/v1/pods".into(), &parameters, &LIST_PARAMETERS)
    };
    assert_eq!(
        path("labelSelector", "a=b&watch=true").unwrap(),
        "/api/v1/pods?labelSelector=a%3Db%26watch%3Dtrue"
    );
    for name in ["watch", "follow", "limit&watch", "Limit", ""] {
        let error = path(name, "1").unwrap_err();
        assert_eq!(error.reason, "Invalid", "{name}");
    }
}
