//! Measures what the cache costs: `cargo run --release -p flyball-cache --example measure [pods]`. It serves a big cluster
//! from memory and prints how fast objects are pruned, and how much memory and time they take in the cache.

use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::source::Chunks;
use flyball_cache::{
    ApiResource, Get, InformerFactory, Interest, ListQuery, Lister, OverlayWriter, Scope, Source, SourceError, Uid,
    View,
};
use flyball_types::{FieldPath, Kind, Mask};
use futures::StreamExt;
use futures::future::BoxFuture;

/// Streams pods made on the fly, 30 to a ReplicaSet, then nothing more.
struct Pods(usize);

fn pod(number: usize) -> String {
    let set = number / 30;
    let namespace = format!("team-{}", set % 200);
    let container = |name: &str| {
        format!(
            r#"{{"name":"{name}","image":"registry.example.com/{namespace}/{name}:v1.2.3","resources":{{"limits":{{"cpu":"500m","memory":"256Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},"env":[{{"name":"A","value":"some value"}},{{"name":"POD_IP","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"status.podIP"}}}}}}],"volumeMounts":[{{"name":"token","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}}"#
        )
    };
    let managed = r#"{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"x\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{}}}}"#;
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"app-{set}-7d4b9c6f5-{number:05x}","generateName":"app-{set}-7d4b9c6f5-","namespace":"{namespace}","uid":"{number:08x}-1111-4222-8333-444455556666","resourceVersion":"{version}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"app-{set}","app.kubernetes.io/managed-by":"helm","pod-template-hash":"7d4b9c6f5","tier":"backend"}},"annotations":{{"example.com/checksum":"0123456789abcdef0123456789abcdef","example.com/note":"some text that nobody reads"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-{set}-7d4b9c6f5","uid":"{set:08x}-aaaa-4bbb-8ccc-ddddeeeeffff","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{managed},{managed}]}},"spec":{{"volumes":[{{"name":"token","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}}],"defaultMode":420}}}}],"containers":[{main},{side}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","nodeName":"node-{node}","schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0}},"status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:05Z"}},{{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:01Z"}}],"hostIP":"10.0.0.1","podIP":"10.1.2.3","startTime":"2026-01-01T00:00:01Z","containerStatuses":[{{"name":"main","state":{{"running":{{"startedAt":"2026-01-01T00:00:04Z"}}}},"ready":true,"restartCount":0,"image":"i","imageID":"sha256:0123","containerID":"containerd://0123"}}]}}}}"#,
        version = 1000 + number,
        main = container("main"),
        side = container("side"),
        node = number % 5000,
    )
}

impl Source for Pods {
    fn get(&self, request: Get) -> BoxFuture<'_, Result<Chunks, SourceError>> {
        let count = self.0;
        assert!(request.path.contains("sendInitialEvents"));
        let lines = futures::stream::iter((0..count).step_by(20)).map(move |first| {
            let event = |number| format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", pod(number));
            Ok(Bytes::from((first..count.min(first + 20)).map(event).collect::<String>()))
        });
        let end = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n",
            1000 + count
        );
        let end = futures::stream::once(async { Ok(Bytes::from(end)) });
        Box::pin(async { Ok(lines.chain(end).chain(futures::stream::pending()).boxed()) })
    }
}

/// The process's memory in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// How long this process has computed, in seconds: other processes' work does not count.
fn computed() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn prune(name: &str, mask: &Mask) {
    let object = pod(77);
    let mut out = Vec::new();
    let began = computed();
    let rounds = 50_000;
    for _ in 0..rounds {
        out.clear();
        mask.prune(object.as_bytes(), &mut out).expect("a pod is an object");
    }
    let speed = (object.len() * rounds) as f64 / (computed() - began) / 1e6;
    println!("prune to {name}: {speed:.0} MB/s, {} to {} bytes", object.len(), out.len());
}

fn time<T>(what: &str, rounds: u32, mut each: impl FnMut() -> T) {
    let began = computed();
    (0..rounds).for_each(|_| drop(std::hint::black_box(each())));
    println!("{what}: {:.1} µs", (computed() - began) * 1e6 / f64::from(rounds));
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(150_000);
    let node: FieldPath = "spec.nodeName".parse().expect("a path");
    let small = Mask::parse(["spec.nodeName", "status.phase"]).expect("paths");
    let usual = Mask::parse([
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.deletionTimestamp",
        "spec.nodeName",
        "status.phase",
        "status.conditions[*].type",
        "status.conditions[*].status",
    ]);
    let usual = usual.expect("paths");
    prune("the identity", &Mask::default());
    prune("a small mask", &small);
    prune("a usual mask", &usual);
    prune("the whole", &Mask::whole());
    for (name, mask) in [("small", small), ("usual", usual)] {
        let before = memory();
        let began = computed();
        let factory = InformerFactory::new(Arc::new(Pods(count)));
        let informer = factory.informer(Interest {
            resource: Arc::new(ApiResource::new(Kind::new("", "v1", "Pod"), "pods", true)),
            scope: Scope::all(),
            metadata_only: false,
            mask,
            indexes: vec![node.clone()],
            selectors: Vec::new(),
        });
        factory.start();
        informer.synced().await;
        let (seconds, status) = (computed() - began, informer.status());
        let grown = (memory() - before) / 1_000_000;
        println!(
            "{count} pods, {name} mask: {seconds:.1} s, {} MB counted, {grown} MB grown",
            status.bytes / 1_000_000
        );
        let view = View { mask: informer.mask().clone(), namespaces: None };
        let lister = Lister::new(informer.clone(), OverlayWriter::new().reader(), view);
        let owner = Uid::new("00000007-aaaa-4bbb-8ccc-ddddeeeeffff");
        time("get", 100_000, || lister.get("team-7", "app-7-7d4b9c6f5-000d3"));
        time("list of an owner's 30", 10_000, || {
            lister.list(&ListQuery { controller: Some(owner.clone()), ..ListQuery::namespace("team-7") })
        });
        time("list of a label's 30", 10_000, || {
            lister
                .list(&ListQuery { labels: "app=app-7".parse().expect("a selector"), ..ListQuery::namespace("team-7") })
        });
        time("list of a node's 30", 10_000, || {
            lister.list(&ListQuery { fields: vec![(node.clone(), "node-7".into())], ..ListQuery::default() })
        });
        time("list of all", 3, || lister.list(&ListQuery::default()));
        factory.shutdown().await;
    }
}
