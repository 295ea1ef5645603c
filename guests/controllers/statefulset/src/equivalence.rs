//! Pod templates of old revisions, as the API server would write them today.
//!
//! An older API server or kube-controller-manager may have left out fields that are defaulted today,
//! or written nulls. Such a revision restores the same template nevertheless.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_control.go: setMatchesLatestExistingRevision.
//! Upstream: pkg/apis/apps/v1/defaults.go: SetDefaults_StatefulSet.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;

type Fields = Map<String, Value>;

/// Mode of the files of a volume, in decimal: 0644.
const FILE_MODE: i32 = 0o644;
/// Seconds until a projected token expires.
const TOKEN_EXPIRATION: i32 = 3600;

/// Returns the template with the API's defaults, without nulls and empty lists.
pub fn with_defaults(template: &Raw) -> Raw {
    let mut template = template.value();
    remove_empty(&mut template);
    if let Some(spec) = template.get_mut("spec").and_then(fields) {
        pod_spec(spec);
    }
    template.into()
}

/// Removes values that the API server would not write: nulls and empty lists.
fn remove_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(remove_empty);
            fields.retain(|_, value| {
                !value.is_null() && !value.as_array().is_some_and(Vec::is_empty)
            });
        }
        Value::Array(items) => items.iter_mut().for_each(remove_empty),
        _ => {}
    }
}

fn pod_spec(spec: &mut Fields) {
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "restartPolicy", "Always");
    set(spec, "securityContext", Map::new());
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "schedulerName", "default-scheduler");
    each(spec, "volumes", volume);
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, containers, container);
    }
}

fn container(container: &mut Fields) {
    let image = container.get("image").and_then(Value::as_str);
    let policy = pull_policy(image.unwrap_or_default());
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    each(container, "ports", |port| set(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        at(variable, "valueFrom", |source| {
            at(source, "fieldRef", field_selector);
            at(source, "fileKeyRef", |key| set(key, "optional", false));
        });
    });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        at(container, probe, self::probe);
    }
    at(container, "lifecycle", |lifecycle| {
        for hook in ["postStart", "preStop"] {
            at(lifecycle, hook, |hook| at(hook, "httpGet", http_get));
        }
    });
}

fn probe(probe: &mut Fields) {
    set(probe, "timeoutSeconds", 1);
    set(probe, "periodSeconds", 10);
    set(probe, "successThreshold", 1);
    set(probe, "failureThreshold", 3);
    at(probe, "httpGet", http_get);
    at(probe, "grpc", |grpc| set(grpc, "service", ""));
}

fn http_get(action: &mut Fields) {
    set(action, "path", "/");
    set(action, "scheme", "HTTP");
}

fn field_selector(selector: &mut Fields) {
    set(selector, "apiVersion", "v1");
}

fn volume(volume: &mut Fields) {
    if volume.keys().all(|field| field == "name") {
        set(volume, "emptyDir", Map::new());
    }
    at(volume, "image", |image| {
        let reference = image.get("reference").and_then(Value::as_str);
        let policy = pull_policy(reference.unwrap_or_default());
        set(image, "pullPolicy", policy);
    });
    at(volume, "hostPath", |path| set(path, "type", ""));
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        at(volume, source, |source| {
            set(source, "defaultMode", FILE_MODE)
        });
    }
    at(volume, "downwardAPI", downward_api);
    at(volume, "projected", |projected| {
        each(projected, "sources", |source| {
            at(source, "downwardAPI", downward_api);
            at(source, "serviceAccountToken", |token| {
                set(token, "expirationSeconds", TOKEN_EXPIRATION);
            });
        });
    });
    at(volume, "ephemeral", |ephemeral| {
        at(ephemeral, "volumeClaimTemplate", |template| {
            at(template, "spec", |spec| {
                set(spec, "volumeMode", "Filesystem")
            });
        });
    });
    at(volume, "iscsi", |iscsi| {
        set(iscsi, "iscsiInterface", "default")
    });
    at(volume, "rbd", |rbd| {
        set(rbd, "pool", "rbd");
        set(rbd, "user", "admin");
        set(rbd, "keyring", "/etc/ceph/keyring");
    });
    at(volume, "azureDisk", |disk| {
        set(disk, "cachingMode", "ReadWrite");
        set(disk, "fsType", "ext4");
        set(disk, "readOnly", false);
        set(disk, "kind", "Shared");
    });
    at(volume, "scaleIO", |scale_io| {
        set(scale_io, "storageMode", "ThinProvisioned");
        set(scale_io, "fsType", "xfs");
    });
}

fn downward_api(source: &mut Fields) {
    each(source, "items", |item| at(item, "fieldRef", field_selector));
}

/// Images with the tag `latest`, or without tag and digest, are always pulled.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to a port.
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        None if digest.is_none() => "Always",
        _ => "IfNotPresent",
    }
}

/// Sets a field that is absent.
fn set(fields: &mut Fields, name: &str, default: impl Into<Value>) {
    fields.entry(name).or_insert_with(|| default.into());
}

/// Applies `change` to the object in a field, if there is one.
fn at(of: &mut Fields, name: &str, change: impl FnOnce(&mut Fields)) {
    if let Some(found) = of.get_mut(name).and_then(fields) {
        change(found);
    }
}

/// Applies `change` to each object of the list in a field.
fn each(of: &mut Fields, name: &str, mut change: impl FnMut(&mut Fields)) {
    let items = of.get_mut(name).and_then(Value::as_array_mut);
    for item in items.into_iter().flatten().filter_map(fields) {
        change(item);
    }
}

fn fields(value: &mut Value) -> Option<&mut Fields> {
    value.as_object_mut()
}

#[cfg(test)]
mod tests;
