//! A big cluster that is served from memory.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each benchmark or example uses only a part of this module"
)]

use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::SourceError;
use flyball_cache::source::Chunks;
use flyball_cache::{ApiResource, Get, Informer, InformerFactory, Interest, Scope, Source};
use flyball_types::{FieldPath, Kind, Mask};
use futures::StreamExt;
use futures::future::BoxFuture;

/// Streams generated pods, then no more events.
pub struct Pods {
    pub count: usize,
    /// The number of pods of each ReplicaSet.
    pub each: usize,
}

/// The default number of pods of a ReplicaSet.
pub const EACH: usize = 30;

/// The UID of a ReplicaSet.
pub fn owner(set: usize) -> String {
    format!("{set:08x}-aaaa-4bbb-8ccc-ddddeeeeffff")
}

/// The JSON of a pod of a ReplicaSet, about 5 kB.
pub fn pod(number: usize, set: usize) -> String {
    let namespace = format!("team-{}", set % 200);
    let container = |name: &str| {
        format!(
            r#"{{"name":"{name}","image":"registry.example.com/{namespace}/{name}:v1.2.3","resources":{{"limits":{{"cpu":"500m","memory":"256Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},"env":[{{"name":"A","value":"some value"}},{{"name":"POD_IP","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"status.podIP"}}}}}}],"volumeMounts":[{{"name":"token","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}}"#
        )
    };
    let managed = r#"{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"x\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{}}}}"#;
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"app-{set}-7d4b9c6f5-{number:05x}","generateName":"app-{set}-7d4b9c6f5-","namespace":"{namespace}","uid":"{number:08x}-1111-4222-8333-444455556666","resourceVersion":"{version}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"app-{set}","app.kubernetes.io/managed-by":"helm","pod-template-hash":"7d4b9c6f5","tier":"backend"}},"annotations":{{"example.com/checksum":"0123456789abcdef0123456789abcdef","example.com/note":"some text that nobody reads"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-{set}-7d4b9c6f5","uid":"{owner}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{managed},{managed}]}},"spec":{{"volumes":[{{"name":"token","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}}],"defaultMode":420}}}}],"containers":[{main},{side}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","nodeName":"node-{node}","schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0}},"status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:05Z"}},{{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:01Z"}}],"hostIP":"10.0.0.1","podIP":"10.1.2.3","startTime":"2026-01-01T00:00:01Z","containerStatuses":[{{"name":"main","state":{{"running":{{"startedAt":"2026-01-01T00:00:04Z"}}}},"ready":true,"restartCount":0,"image":"i","imageID":"sha256:0123","containerID":"containerd://0123"}}]}}}}"#,
        owner = owner(set),
        version = 1000 + number,
        main = container("main"),
        side = container("side"),
        node = number % 5000,
    )
}

impl Source for Pods {
    fn get(&self, request: Get) -> BoxFuture<'_, Result<Chunks, SourceError>> {
        let Self { count, each } = *self;
        assert!(request.path.contains("sendInitialEvents"));
        let lines = futures::stream::iter((0..count).step_by(20)).map(move |first| {
            let event = |number| {
                format!(
                    "{{\"type\":\"ADDED\",\"object\":{}}}\n",
                    pod(number, number / each)
                )
            };
            Ok(Bytes::from(
                (first..count.min(first + 20))
                    .map(event)
                    .collect::<String>(),
            ))
        });
        let end = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n",
            1000 + count
        );
        let end = futures::stream::once(async { Ok(Bytes::from(end)) });
        Box::pin(async { Ok(lines.chain(end).chain(futures::stream::pending()).boxed()) })
    }
}

/// The path of a pod's node, which is indexed.
pub fn node() -> FieldPath {
    "spec.nodeName".parse().expect("a path")
}

/// The measured masks: one for a controller that reads few fields, and a typical one.
pub fn masks() -> [(&'static str, Mask); 2] {
    let usual = [
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.deletionTimestamp",
        "spec.nodeName",
        "status.phase",
        "status.conditions[*].type",
        "status.conditions[*].status",
    ];
    let mask = |paths: &[&str]| Mask::parse(paths).expect("paths");
    [
        ("small", mask(&["spec.nodeName", "status.phase"])),
        ("usual", mask(&usual)),
    ]
}

/// A synced informer of the pods.
pub async fn synced(pods: Pods, mask: Mask) -> (InformerFactory, Informer) {
    let factory = InformerFactory::new(Arc::new(pods));
    let informer = factory.informer(Interest {
        resource: Arc::new(ApiResource::new(Kind::new("", "v1", "Pod"), "pods", true)),
        scope: Scope::all(),
        metadata_only: false,
        mask,
        indexes: vec![node()],
        selectors: Vec::new(),
    });
    factory.start();
    informer.synced().await;
    (factory, informer)
}
