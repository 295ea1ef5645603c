//! Informers for tests: their objects come from a list that never changes.

use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::source::Chunks;
use flyball_cache::{ApiResource, Get, Informer, InformerFactory, Interest, Source, SourceError};
use flyball_types::Mask;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};

/// Serves the kind `v1/Pod` with these objects, at version 10.
pub struct FakeSource(pub Vec<Value>);

impl Source for FakeSource {
    fn get(&self, request: Get) -> BoxFuture<'_, Result<Chunks, SourceError>> {
        let pods = json!({
            "resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced",
            "subresources": [
                {"subresource": "eviction"},
                {"subresource": "resize", "responseKind": {"kind": "Pod"}},
                {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}},
            ],
        });
        let body = match request.path.split('?').next().unwrap_or_default() {
            "/api" => {
                json!({"items": [{"versions": [{"version": "v1", "resources": [pods]}]}]})
            }
            "/apis" => json!({"items": []}),
            _ if request.path.contains("sendInitialEvents") => {
                return async {
                    Err(SourceError::Refused {
                        code: 422,
                        reason: "Invalid".into(),
                        message: "sendInitialEvents is forbidden".into(),
                        causes: Vec::new(),
                        retry_after: None,
                    })
                }
                .boxed();
            }
            _ if request.path.contains("watch=") => {
                return async { Ok(stream::pending().boxed()) }.boxed();
            }
            _ => json!({
                "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": self.0,
            }),
        };
        let body = Ok(Bytes::from(body.to_string()));
        async { Ok(stream::iter([body]).boxed()) }.boxed()
    }
}

/// Returns a synced informer of pods with these fields, and the source of its objects.
pub async fn informer(pods: Vec<Value>, fields: &[&str]) -> (Informer, Arc<dyn Source>) {
    let ([informer], source) = informers(pods, [fields]).await;
    (informer, source)
}

/// Returns synced informers that share one cache of pods, each with its own fields, and the source of the objects.
pub async fn informers<const N: usize>(
    pods: Vec<Value>,
    fields: [&[&str]; N],
) -> ([Informer; N], Arc<dyn Source>) {
    let source: Arc<dyn Source> = Arc::new(FakeSource(pods));
    let factory = InformerFactory::new(source.clone());
    let informers = fields.map(|fields| {
        let kind = "v1/Pod".parse().expect("a kind");
        factory.informer(Interest {
            resource: Arc::new(ApiResource::new(kind, "pods", true)),
            scope: flyball_cache::Scope::default(),
            metadata_only: false,
            mask: Mask::parse(fields).expect("paths"),
            indexes: Vec::new(),
            selectors: Vec::new(),
        })
    });
    factory.start();
    for informer in &informers {
        informer.synced().await;
    }
    (informers, source)
}
