//! The fields that the kubelet reads of a pod.

use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::status::{ContainerStatus, PodStatus, SCHEDULED};

/// A pod that is bound to a node.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(
        path = "metadata",
        fields(
            "annotations",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "finalizers",
            "generation",
        )
    )]
    pub meta: Meta,
    #[view(path = "spec.nodeName")]
    pub node: String,
    /// Whether the pod uses the node's address.
    #[view(path = "spec.hostNetwork")]
    pub host_network: bool,
    /// `Always` (the API's default), `OnFailure` or `Never`.
    #[view(path = "spec.restartPolicy")]
    pub restart_policy: String,
    #[view(path = "spec.containers", fields("[*].name", "[*].image"))]
    pub containers: Vec<Container>,
    #[view(
        path = "spec.initContainers",
        fields("[*].name", "[*].image", "[*].restartPolicy")
    )]
    pub init_containers: Vec<Container>,
    /// The last status, usually written by this controller.
    #[view(
        path = "status",
        fields(
            "observedGeneration",
            "phase",
            "startTime",
            "podIP",
            "conditions",
            "containerStatuses",
            "initContainerStatuses",
        )
    )]
    pub status: PodStatus,
}

/// A container of the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub image: String,
    /// For an init container: `Always` makes it a sidecar.
    pub restart_policy: Option<String>,
}

impl Pod {
    /// When the pod was bound to its node, to the second; approximated by its creation.
    pub fn bound_at(&self) -> Option<Time> {
        let scheduled = self
            .status
            .condition(SCHEDULED)
            .and_then(|condition| condition.last_transition_time);
        scheduled.or(self.meta.creation_timestamp)
    }

    /// Whether a container that exited with this code is restarted.
    pub fn restarts(&self, exit_code: i32) -> bool {
        match self.restart_policy.as_str() {
            "Never" => false,
            "OnFailure" => exit_code != 0,
            _ => true,
        }
    }

    /// When the deletion was requested, and the grace period; `None` if the pod is not being
    /// deleted.
    pub fn deletion(&self) -> Option<(Time, std::time::Duration)> {
        let end = self.meta.deletion_timestamp?;
        let grace = self.meta.deletion_grace_period_seconds.unwrap_or(0);
        let grace = std::time::Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        Some((end - grace, grace))
    }
}

impl Container {
    /// The status before the container starts.
    pub fn initial_status(&self) -> ContainerStatus {
        ContainerStatus {
            name: self.name.clone(),
            image: self.image.clone(),
            image_id: format!("fake://{}", self.image),
            started: Some(false),
            ..ContainerStatus::default()
        }
    }

    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}
