//! Discovery from the server's aggregated discovery documents.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use flyball_cache::source::Chunks;
use flyball_cache::{Discovery, DiscoveryError, Get, Source, SourceError};
use flyball_types::Kind;
use futures::StreamExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

struct Server {
    groups: Mutex<Value>,
    requests: AtomicUsize,
}

/// A connection to the server.
struct Connection(Arc<Server>);

impl Source for Connection {
    fn get(&self, request: Get) -> BoxFuture<'_, Result<Chunks, SourceError>> {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        assert!(request.accept.contains("as=APIGroupDiscoveryList"));
        let body = match &*request.path {
            "/api" => {
                json!({"items": [{"metadata": {}, "versions": [{"version": "v1", "freshness": "Current", "resources": [{
                    "resource": "pods", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}, "scope": "Namespaced",
                    "verbs": ["get", "list"],
                    "subresources": [{"subresource": "eviction", "verbs": ["create"],
                        "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}}],
                }]}]}]})
            }
            "/apis" => json!({"items": *self.0.groups.lock()}),
            path => panic!("{path}"),
        };
        Box::pin(
            async move { Ok(futures::stream::iter([Ok(Bytes::from(body.to_string()))]).boxed()) },
        )
    }
}

fn widgets() -> Value {
    json!([
        {"metadata": {"name": "example.com"}, "versions": [
            {"version": "v2", "freshness": "Current", "resources": [
                {"resource": "widgets", "responseKind": {"group": "example.com", "version": "v2", "kind": "Widget"}, "scope": "Cluster"}]},
            {"version": "v1", "freshness": "Current", "resources": [
                {"resource": "widgets", "responseKind": {"group": "", "version": "", "kind": "Widget"}, "scope": "Cluster"}]}]},
        {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]},
    ])
}

#[tokio::test(start_paused = true)]
async fn kinds_are_resolved_and_requested_again_if_one_is_unknown() {
    let server = Arc::new(Server {
        groups: Mutex::new(json!([])),
        requests: AtomicUsize::new(0),
    });
    let discovery = Discovery::new(Arc::new(Connection(Arc::clone(&server))));
    let pod = discovery
        .resolve(&Kind::new("", "v1", "Pod"))
        .await
        .unwrap();
    assert_eq!(
        (&*pod.plural, pod.namespaced, pod.preferred),
        ("pods", true, true)
    );
    assert_eq!(
        pod.subresources[0].kind.as_ref().unwrap().to_string(),
        "policy/v1/Eviction"
    );
    let widget = Kind::new("example.com", "v1", "Widget");
    for _ in 0..5 {
        assert!(matches!(
            discovery.resolve(&widget).await,
            Err(DiscoveryError::UnknownKind(_))
        ));
    }
    assert_eq!(
        server.requests.load(Ordering::Relaxed),
        2,
        "the two documents are requested once"
    );
    *server.groups.lock() = widgets();
    tokio::time::advance(Duration::from_secs(6)).await;
    let found = discovery.resolve(&widget).await.unwrap();
    assert_eq!(
        (found.collection("").unwrap().as_str(), found.preferred),
        ("/apis/example.com/v1/widgets", false)
    );
    assert!(
        discovery
            .cached(&Kind::new("example.com", "v2", "Widget"))
            .unwrap()
            .preferred
    );
    let catalogue = discovery.catalogue(Duration::from_secs(60)).await.unwrap();
    assert_eq!(catalogue.resources.len(), 3);
    let failed = (
        "metrics.k8s.io/v1beta1",
        "stale GroupVersion discovery: metrics.k8s.io/v1beta1",
    );
    assert_eq!(
        catalogue.failed,
        [(failed.0.to_owned(), failed.1.to_owned())]
    );
    assert_eq!(server.requests.load(Ordering::Relaxed), 4);
}

/// A server that never completes its responses.
struct Hanging;

impl Source for Hanging {
    fn get(&self, _: Get) -> BoxFuture<'_, Result<Chunks, SourceError>> {
        let begun = futures::stream::iter([Ok(Bytes::from("{"))]);
        Box::pin(async move { Ok(begun.chain(futures::stream::pending()).boxed()) })
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_times_out_if_the_server_hangs() {
    let discovery = Discovery::new(Arc::new(Hanging));
    let result = tokio::time::timeout(
        Duration::from_secs(3600),
        discovery.catalogue(Duration::ZERO),
    )
    .await;
    assert!(matches!(result, Ok(Err(DiscoveryError::Source(error))) if error.is_unreachable()));
}
