use super::*;

fn defaulted(template: Value) -> Value {
    with_defaults(&Raw::from(template)).value()
}

/// The defaulted spec of a template with this one.
fn spec(spec: Value) -> Value {
    defaulted(json!({ "spec": spec }))["spec"].take()
}

#[test]
fn a_pod_gets_its_defaults() {
    assert_eq!(
        spec(json!({})),
        json!({"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {},
               "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler"})
    );
    let own = json!({"dnsPolicy": "None", "restartPolicy": "Never", "securityContext": {"runAsUser": 1},
                     "terminationGracePeriodSeconds": 0, "schedulerName": "mine"});
    assert_eq!(spec(own.clone()), own);
}

#[test]
fn containers_get_their_defaults() {
    for containers in ["containers", "initContainers", "ephemeralContainers"] {
        let container = json!({
            "name": "c", "image": "web:1",
            "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
            "env": [{"name": "A", "value": "b"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "C", "valueFrom": {"fileKeyRef": {"key": "k"}}}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 7},
            "startupProbe": {"exec": {"command": ["true"]}},
            "lifecycle": {"postStart": {"httpGet": {"port": 1, "path": "/x"}}, "preStop": {"httpGet": {"port": 1}}},
        });
        let probe = |handler: Value, period: i32| {
            let mut probe = handler;
            let times = [
                ("timeoutSeconds", 1),
                ("periodSeconds", period),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ];
            for (field, value) in times {
                probe[field] = value.into();
            }
            probe
        };
        assert_eq!(
            spec(json!({containers: [container]}))[containers][0],
            json!({
                "name": "c", "image": "web:1", "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}],
                "env": [{"name": "A", "value": "b"},
                        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}},
                        {"name": "C", "valueFrom": {"fileKeyRef": {"key": "k", "optional": false}}}],
                "livenessProbe": probe(json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}}), 10),
                "readinessProbe": probe(json!({"grpc": {"port": 1, "service": ""}}), 7),
                "startupProbe": probe(json!({"exec": {"command": ["true"]}}), 10),
                "lifecycle": {"postStart": {"httpGet": {"port": 1, "path": "/x", "scheme": "HTTP"}},
                              "preStop": {"httpGet": {"port": 1, "path": "/", "scheme": "HTTP"}}},
            }),
            "{containers}"
        );
    }
}

#[test]
fn volumes_get_their_defaults() {
    let field = |version: Option<&str>| {
        let mut field = json!({"fieldRef": {"fieldPath": "metadata.name"}});
        if let Some(version) = version {
            field["fieldRef"]["apiVersion"] = version.into();
        }
        json!({ "items": [field] })
    };
    for (volume, expected) in [
        (json!({}), json!({"emptyDir": {}})),
        (
            json!({"emptyDir": {"medium": "Memory"}}),
            json!({"emptyDir": {"medium": "Memory"}}),
        ),
        (
            json!({"hostPath": {"path": "/"}}),
            json!({"hostPath": {"path": "/", "type": ""}}),
        ),
        (
            json!({"secret": {}}),
            json!({"secret": {"defaultMode": 420}}),
        ),
        (
            json!({"configMap": {"defaultMode": 1}}),
            json!({"configMap": {"defaultMode": 1}}),
        ),
        (
            json!({"image": {"reference": "a"}}),
            json!({"image": {"reference": "a", "pullPolicy": "Always"}}),
        ),
        (
            json!({"projected": {"sources": [{"serviceAccountToken": {}}, {"downwardAPI": field(None)}]}}),
            json!({"projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3600}}, {"downwardAPI": field(Some("v1"))}]}}),
        ),
        (
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}}}),
        ),
        (
            json!({"iscsi": {}}),
            json!({"iscsi": {"iscsiInterface": "default"}}),
        ),
        (
            json!({"rbd": {}}),
            json!({"rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}}),
        ),
        (
            json!({"azureDisk": {}}),
            json!({"azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": false, "kind": "Shared"}}),
        ),
        (
            json!({"scaleIO": {}}),
            json!({"scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"}}),
        ),
    ] {
        let named = |mut volume: Value| {
            volume["name"] = "v".into();
            volume
        };
        let found = spec(json!({"volumes": [named(volume)]}))["volumes"][0].take();
        assert_eq!(found, named(expected));
    }
    let mut expected = field(Some("v1"));
    expected["defaultMode"] = 420.into();
    let found = spec(json!({"volumes": [{"name": "v", "downwardAPI": field(None)}]}));
    assert_eq!(found["volumes"][0]["downwardAPI"], expected);
}

#[test]
fn the_pull_policy_follows_from_the_tag() {
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("registry:5000/nginx", "Always"),
        ("registry:5000/nginx:latest", "Always"),
        ("nginx:latest@sha256:0", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("registry:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0", "IfNotPresent"),
    ] {
        assert_eq!(pull_policy(image), policy, "{image}");
    }
}

#[test]
fn nulls_and_empty_lists_are_removed() {
    let template = defaulted(
        json!({"metadata": {"creationTimestamp": null, "labels": {"a": "b"}},
                                    "spec": {"containers": [{"resources": {}, "env": [], "args": [""]}]}}),
    );
    assert_eq!(template["metadata"], json!({"labels": {"a": "b"}}));
    let container = template["spec"]["containers"][0].as_object().unwrap();
    assert_eq!(
        (&container["resources"], &container["args"]),
        (&json!({}), &json!([""]))
    );
    assert!(!container.contains_key("env"));
}

#[test]
fn what_is_not_an_object_is_left_alone() {
    assert_eq!(defaulted(json!(1)), json!(1));
    assert_eq!(defaulted(json!({"spec": "x"})), json!({"spec": "x"}));
}
