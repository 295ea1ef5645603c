//! ephemeral-volume-controller: creates the PersistentVolumeClaims of pods' ephemeral volumes (KEP-1698).
//!
//! The claim of a volume has the names of the pod and of the volume as its name, and the pod as its
//! controller. The garbage collector deletes it after the pod. A deleted claim is created again as long as the pod is
//! not being deleted.
//!
//! Upstream: pkg/controller/volume/ephemeral/controller.go: NewController, enqueuePod, onPVCDelete, syncHandler,
//! handleVolume.
//! Upstream: staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go: VolumeClaimName, VolumeIsForPod.

use flyball_sdk::describe::MetricType;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};
use flyball_sdk::{StringMap, serde_json::Map};
use serde::Deserialize;

/// The counter of creations.
const CREATED: &str = "ephemeral_volume_controller_create_total";
/// The counter of claims that could not be created.
const FAILED: &str = "ephemeral_volume_controller_create_failures_total";

/// A field that each ephemeral volume has, because the API server defaults it, and its values.
const MODE: &str = "spec.volumes[*].ephemeral.volumeClaimTemplate.spec.volumeMode";
const MODES: [&str; 2] = ["Filesystem", "Block"];

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
struct Pod {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    meta: Meta,
    #[view(path = "spec.volumes", fields("[*].name", "[*].ephemeral"))]
    volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Volume {
    name: String,
    ephemeral: Option<Ephemeral>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ephemeral {
    volume_claim_template: Template,
}

/// The template of a claim. Its spec is copied as it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    #[serde(deserialize_with = "null_is_default")]
    metadata: TemplateMeta,
    spec: Raw,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateMeta {
    labels: Option<StringMap>,
    annotations: Option<StringMap>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
struct Claim {
    #[view(path = "metadata", fields("ownerReferences"))]
    meta: Meta,
}

/// The controller. Keys name pods.
pub struct EphemeralVolumes;

export!(EphemeralVolumes);

impl Controller for EphemeralVolumes {
    fn describe() -> Description {
        let pods = MODES.iter().fold(
            // A pod's volumes never change.
            watch::<Pod>().when_at(&["metadata.uid"]),
            |pods, mode| {
                pods.enqueue(
                    Mapping::itself()
                        .on([DeltaType::Added, DeltaType::Modified])
                        .having(MODE, mode),
                )
            },
        );
        describe("ephemeral-volume-controller", env!("CARGO_PKG_VERSION"))
            .watch(pods)
            .watch(watch::<Claim>().enqueue(Mapping::route().on([DeltaType::Deleted])))
            .queue("ephemeral_volume")
            .permission(Claim::KIND, ["create"])
            // The admission plugin OwnerReferencesPermissionEnforcement requires this permission, because the claims
            // block the deletion of their pods.
            .permission_on(Pod::KIND, "finalizers", ["update"])
            .metric(
                MetricType::Counter,
                CREATED,
                &[],
                "Number of PersistentVolumeClaim creation requests",
            )
            .metric(
                MetricType::Counter,
                FAILED,
                &[],
                "Number of PersistentVolumeClaim creation requests",
            )
            .event_source("ephemeral_volume")
            .concurrency(5)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(pod) = host
            .get_by_key::<Pod>(&request.key)?
            .filter(|pod| !pod.meta.is_deleting())
        else {
            return Ok(Outcome::Done);
        };
        for volume in &pod.volumes {
            if let Some(Ephemeral {
                volume_claim_template,
            }) = &volume.ephemeral
                && let Err(problem) = provide(host, &pod, &volume.name, volume_claim_template)
            {
                let problem = format!("ephemeral volume {}: {problem}", volume.name);
                let about = pod.meta.reference(Pod::KIND);
                host.emit(Event::warning(&about, "FailedBinding", &problem));
                return Err(Error::failed(format!("pod {}, {problem}", request.key)));
            }
        }
        Ok(Outcome::Done)
    }

    /// Enqueues the pods for which a deleted claim may have been created. A claim that took the name of a pod's own
    /// claim does not name the pod as its owner, so the pod is found by the claim's name.
    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let mut routed = Vec::new();
        for delta in deltas {
            let Some(Claim { meta }) = delta.before()? else {
                continue;
            };
            for (at, _) in meta.name.match_indices('-') {
                let (pod, volume) = (&meta.name[..at], &meta.name[at + 1..]);
                let pod = host.get::<Pod>(&meta.namespace, pod)?;
                let is_missing_it =
                    |pod: &Pod| !pod.meta.is_deleting() && pod.has_ephemeral(volume);
                routed.extend(
                    pod.filter(is_missing_it)
                        .map(|pod| RoutedKey::now(pod.meta.key())),
                );
            }
        }
        Ok(routed)
    }
}

impl Pod {
    fn has_ephemeral(&self, name: &str) -> bool {
        let is_it = |volume: &Volume| volume.name == name && volume.ephemeral.is_some();
        self.volumes.iter().any(is_it)
    }
}

/// Creates the claim of a volume if it does not exist. Returns why the pod has no claim, for people.
fn provide(host: &Host, pod: &Pod, volume: &str, template: &Template) -> Result<(), String> {
    let namespace = &pod.meta.namespace;
    let name = format!("{}-{volume}", pod.meta.name);
    let found: Option<Claim> = host
        .get(namespace, &name)
        .map_err(|error| error.to_string())?;
    if let Some(claim) = found {
        return check_owner(&claim, pod);
    }
    host.metrics().add(CREATED, &[], 1.0);
    match host.create(Claim::KIND, namespace, &new_claim(&name, pod, template)) {
        Ok(_) => Ok(()),
        Err(error) => {
            host.metrics().add(FAILED, &[], 1.0);
            Err(format!("create PVC {name}: {}", error.message))
        }
    }
}

/// Fails if a claim was not created for the pod, which must then not use it.
fn check_owner(claim: &Claim, pod: &Pod) -> Result<(), String> {
    if claim.meta.is_controlled_by(&pod.meta.uid) {
        return Ok(());
    }
    let (claim, pod) = (claim.meta.key(), pod.meta.key());
    Err(format!(
        "PVC {claim} was not created for pod {pod} (pod is not owner)"
    ))
}

fn new_claim(name: &str, pod: &Pod, template: &Template) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".into(), name.into());
    metadata.insert(
        "ownerReferences".into(),
        json!([pod.meta.controller_reference(Pod::KIND)]),
    );
    let TemplateMeta {
        labels,
        annotations,
    } = &template.metadata;
    for (field, values) in [("labels", labels), ("annotations", annotations)] {
        if let Some(values) = values {
            metadata.insert(field.into(), json!(values));
        }
    }
    json!({"metadata": metadata, "spec": template.spec})
}
