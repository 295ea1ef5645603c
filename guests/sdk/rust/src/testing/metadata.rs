//! The effect of writes on metadata: the generation, and by kind, the changes with a status. Most kinds accept changes of
//! labels, annotations, finalizers and owner references with a status, some do not (see their `strategy.go` in
//! Kubernetes's `pkg/registry`).

use serde_json::Value;

use super::kind_of;

/// The metadata fields that clients can change.
const FIELDS: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// The built-in kinds whose status writes leave metadata unchanged.
const UNCHANGED: [&str; 15] = [
    "CustomResourceDefinition",
    "DeviceTaintRule",
    "Eviction",
    "EvictionRequest",
    "FlowSchema",
    "PodCertificateRequest",
    "PodGroup",
    "PriorityLevelConfiguration",
    "ResourceClaim",
    "ResourcePoolStatusRequest",
    "ServiceCIDR",
    "StorageVersion",
    "StorageVersionMigration",
    "ValidatingAdmissionPolicy",
    "VolumeAttachment",
];

/// Applies the metadata changes of a status write.
pub(super) fn of_status_write(kind: &str, metadata: &mut Value, written: &Value) {
    for field in FIELDS.iter().filter(|field| is_accepted(kind, field)) {
        match written.get(field) {
            Some(value) => metadata[field] = value.clone(),
            None => drop(
                metadata
                    .as_object_mut()
                    .and_then(|fields| fields.remove(*field)),
            ),
        }
    }
}

/// Sets the generation of a new object that has none. A server sets it for custom resources and for kinds with a spec.
pub(super) fn begin_generation(kind: &str, object: &mut Value) {
    let has_generation = object.get("spec").is_some() || is_custom(kind);
    if has_generation && object["metadata"]["generation"].is_null() {
        object["metadata"]["generation"] = 1.into();
    }
}

/// Whether a kind is that of a custom resource, by its group.
pub(super) fn is_custom(kind: &str) -> bool {
    let parsed = kind_of(kind);
    parsed.group.contains('.') && !parsed.group.ends_with(".k8s.io")
}

/// Raises the generation of an object whose spec changes.
pub(super) fn raise_generation(old: &Value, new: &mut Value) {
    if new.get("spec") != old.get("spec") {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = (generation + 1).into();
    }
}

fn is_accepted(kind: &str, field: &str) -> bool {
    match kind {
        _ if is_custom(kind) || UNCHANGED.contains(&&*kind_of(kind).kind) => false,
        "apps/v1/Deployment" => field != "labels",
        "v1/Pod" => field != "ownerReferences",
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The metadata after a status write that changes each field from 1 to 2.
    fn after(kind: &str) -> Value {
        let mut metadata = json!({"name": "a", "labels": 1, "annotations": 1, "finalizers": 1});
        let written = json!({"name": "b", "labels": 2, "annotations": 2, "ownerReferences": 2});
        of_status_write(kind, &mut metadata, &written);
        metadata
    }

    #[test]
    fn most_kinds_accept_metadata_changes_with_a_status() {
        let taken = json!({"name": "a", "labels": 2, "annotations": 2, "ownerReferences": 2});
        for kind in [
            "apps/v1/ReplicaSet",
            "batch/v1/Job",
            "v1/Namespace",
            "certificates.k8s.io/v1/CertificateSigningRequest",
        ] {
            assert_eq!(after(kind), taken, "{kind}");
        }
        assert_eq!(after("apps/v1/Deployment")["labels"], 1);
        assert_eq!(after("v1/Pod").get("ownerReferences"), None);
    }

    #[test]
    fn custom_resources_and_some_newer_kinds_accept_none() {
        for kind in ["example.com/v1/Widget", "resource.k8s.io/v1/ResourceClaim"] {
            assert_eq!(
                after(kind),
                json!({"name": "a", "labels": 1, "annotations": 1, "finalizers": 1}),
                "{kind}"
            );
        }
    }
}
