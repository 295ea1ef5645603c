//! Recycler pods, which empty a volume for the next claim.
//!
//! Upstream: pkg/volume/plugins.go: NewPersistentVolumeRecyclerPodTemplate, ValidateRecyclerPodTemplate.
//! Upstream: pkg/volume/util/util.go: CalculateTimeoutForVolume.
//! Upstream: pkg/volume/util/recyclerclient/recycler_client.go: internalRecycleVolumeByWatchingPodUntilCompletion,
//! waitForPod.
//! Upstream: cmd/kube-controller-manager/app/plugins.go: AttemptToLoadRecycler.

use std::fmt;

use flyball_sdk::describe::Description;
use flyball_sdk::{Error, Host, Quantity};
use serde_json::{Value, json};

use crate::volume::Volume;

/// Configuration keys: the seconds that a recycler pod of each plugin has at least.
const MINIMUM: [(&str, &str); 2] = [
    ("hostpath-recycler-minimum-timeout", "60"),
    ("nfs-recycler-minimum-timeout", "300"),
];
/// Configuration keys: the seconds that it has for each GiB.
const INCREMENT: [(&str, &str); 2] = [
    ("hostpath-recycler-timeout-increment", "30"),
    ("nfs-recycler-timeout-increment", "30"),
];
/// Configuration keys: the pod template, as JSON.
const TEMPLATE: [&str; 2] = ["hostpath-recycler-pod", "nfs-recycler-pod"];
const GIB: i64 = 1 << 30;

/// The configuration keys with their defaults and descriptions.
const KEYS: &[(&str, Option<&str>, &str)] = &[
    (
        MINIMUM[0].0,
        Some(MINIMUM[0].1),
        "Seconds that a pod has at least to recycle a hostPath volume.",
    ),
    (
        INCREMENT[0].0,
        Some(INCREMENT[0].1),
        "Seconds that a pod has to recycle each GiB of a hostPath volume.",
    ),
    (
        TEMPLATE[0],
        None,
        "The pod, in JSON, that recycles a hostPath volume, which replaces its first volume.",
    ),
    (
        MINIMUM[1].0,
        Some(MINIMUM[1].1),
        "Seconds that a pod has at least to recycle an NFS volume.",
    ),
    (
        INCREMENT[1].0,
        Some(INCREMENT[1].1),
        "Seconds that a pod has to recycle each GiB of an NFS volume.",
    ),
    (
        TEMPLATE[1],
        None,
        "The pod, in JSON, that recycles an NFS volume, which replaces its first volume.",
    ),
];

/// Declares the configuration of recyclers.
pub fn declare(description: Description) -> Description {
    KEYS.iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, *default, help)
        })
}

/// A plugin whose volumes are recycled by pods.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recycled {
    HostPath,
    Nfs,
}

/// The recycler pods of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct Recycler {
    /// The seconds that a pod has at least.
    pub minimum_timeout: i64,
    /// The seconds that it has for each whole GiB.
    pub timeout_increment: i64,
    /// The pod. Its name, its deadline and its first volume are replaced.
    pub template: Value,
}

impl Recycler {
    pub(crate) fn of(plugin: Recycled) -> Self {
        let seconds = |(_, default): (&str, &str)| default.parse().expect("it is a number");
        Self {
            minimum_timeout: seconds(MINIMUM[plugin as usize]),
            timeout_increment: seconds(INCREMENT[plugin as usize]),
            template: default_template(),
        }
    }

    /// Reads the configuration.
    ///
    /// # Errors
    /// A number is invalid, or the template is not a pod with a volume. The error is terminal.
    pub(crate) fn read(host: &Host, plugin: Recycled) -> Result<Self, Error> {
        let default = Self::of(plugin);
        let number = |(key, _), default| host.config_number(key, default, i64::MIN..);
        Ok(Self {
            minimum_timeout: number(MINIMUM[plugin as usize], default.minimum_timeout)?,
            timeout_increment: number(INCREMENT[plugin as usize], default.timeout_increment)?,
            template: match host.config(TEMPLATE[plugin as usize]) {
                Some(text) => template(TEMPLATE[plugin as usize], &text)?,
                None => default.template,
            },
        })
    }

    /// Returns the pod that recycles a PersistentVolume. `source` is the only field of its first volume besides the name.
    pub(crate) fn pod(&self, volume: Volume, (field, source): (&str, Value)) -> Value {
        let mut pod = self.template.clone();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        if let Some(metadata) = pod["metadata"].as_object_mut() {
            metadata.remove("generateName");
        }
        pod["metadata"]["name"] = pod_name(volume.name()).into();
        pod["spec"]["activeDeadlineSeconds"] = self.timeout(volume.capacity()).into();
        let first = &mut pod["spec"]["volumes"][0];
        *first = json!({"name": first["name"], field: source});
        pod
    }

    /// The seconds that a pod has for a volume of this size.
    fn timeout(&self, capacity: &str) -> i64 {
        let bytes = capacity.parse().map_or(0, Quantity::units);
        (bytes / GIB)
            .saturating_mul(self.timeout_increment)
            .max(self.minimum_timeout)
    }
}

/// Returns the name of the pod that recycles a PersistentVolume. It is the same in each attempt, so that a pod of an
/// earlier one is found.
pub fn pod_name(volume: &str) -> String {
    format!("recycler-for-{volume}")
}

/// How a pod ended, given the phase and the message in its status. `None` while it runs.
pub fn outcome(phase: &str, message: &str) -> Option<Result<(), Failure>> {
    match (phase, message) {
        ("Succeeded", _) => Some(Ok(())),
        ("Failed", "") => {
            let unknown = "pod failed, pod.Status.Message unknown";
            Some(Err(Failure::PodFailed(unknown.into())))
        }
        ("Failed", message) => Some(Err(Failure::PodFailed(message.into()))),
        _ => None,
    }
}

/// Why a volume was not recycled. The texts follow "Recycle failed: " in events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A pod with the name existed. It may be anybody's, so it was deleted, and recycling starts anew.
    OldPod,
    /// That pod, as NAMESPACE/NAME, could not be deleted, with this error.
    OldPodStays(String, String),
    /// The pod could not be created.
    NotCreated(String),
    /// The pod was deleted by somebody else.
    PodDeleted,
    /// The pod failed, for this reason.
    PodFailed(String),
    /// The volume is empty, but the pod could not be deleted.
    NotDeleted(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::OldPod => "old recycler pod found, will retry later".into(),
            Self::OldPodStays(pod, error) => {
                format!("failed to delete old recycler pod {pod}: {error}")
            }
            // Stock has two spaces here, too.
            Self::NotCreated(error) => format!("unexpected error creating recycler pod:  {error}"),
            Self::PodDeleted => "failed to recycle volume: recycler pod was deleted".into(),
            Self::PodFailed(reason) => format!("failed to recycle volume: {reason}"),
            Self::NotDeleted(error) => format!("failed to delete recycler pod: {error}"),
        })
    }
}

fn template(key: &str, text: &str) -> Result<Value, Error> {
    let pod: Result<Value, _> = serde_json::from_str(text);
    pod.ok()
        .filter(|pod| pod["metadata"].is_object() && pod["spec"]["volumes"][0].is_object())
        .ok_or_else(|| Error::invalid_config(key, text))
}

/// The pod of kube-controller-manager: it deletes everything below a folder, and fails if something is left.
fn default_template() -> Value {
    let script = "test -e /scrub && find /scrub -mindepth 1 -delete && test -z \"$(ls -A /scrub)\" || exit 1";
    json!({
        "metadata": {"namespace": "default"},
        "spec": {
            "activeDeadlineSeconds": 60,
            "restartPolicy": "Never",
            "volumes": [{"name": "vol"}],
            "containers": [{
                "name": "pv-recycler",
                "image": "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6",
                "command": ["/bin/sh"],
                "args": ["-c", script],
                "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
            }],
        },
    })
}
