//! The target of an eviction: the pod that it names, and the pod of that name.
//!
//! Upstream: pkg/controller/evictionrequest/target_info.go.

use flyball_sdk::prelude::*;

use crate::views::{ContainerStatus, Pod, PodReference, Responder};

/// The responder that evicts pods by their subresource `eviction`, once the others have ended.
pub const IMPERATIVE: &str = "imperative-eviction.k8s.io/evictor";
const IMPERATIVE_PRIORITY: i64 = 100;

/// A target. Its pod is `None` if there is no pod of that name.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub reference: PodReference,
    pub pod: Option<Pod>,
}

impl Target {
    /// Reads the pod of that name.
    ///
    /// # Errors
    /// The read failed.
    pub fn read(host: &Host, namespace: &str, reference: &PodReference) -> Result<Self, Error> {
        Ok(Self {
            reference: reference.clone(),
            pod: host.get(namespace, &reference.name)?,
        })
    }

    /// Whether the pod no longer exists. Another pod may have its name.
    pub fn is_gone(&self) -> bool {
        self.present().is_none()
    }

    /// The pod, if it exists.
    fn present(&self) -> Option<&Pod> {
        { self.pod.as_ref() }.filter(|pod| pod.meta.uid == self.reference.uid)
    }

    /// Whether the pod is scheduled in a group. Such pods can't be evicted yet.
    pub fn has_group(&self) -> bool {
        self.present().is_some_and(|pod| pod.group.is_some())
    }

    /// Whether the pod exists and has ended.
    pub fn is_terminal(&self) -> bool {
        self.present().is_some_and(Pod::is_terminal)
    }

    /// When the pod ended, or is or was to end because of its deletion, whichever is later; `None` if it goes on or no longer
    /// exists.
    pub fn terminal_time(&self) -> Option<Time> {
        let pod = self.present()?;
        let finished = Some(pod)
            .filter(|pod| pod.is_terminal())
            .and_then(finish_time);
        finished.max(pod.meta.deletion_timestamp)
    }

    /// The responders of the pod, with the one that all pods have; none if the pod no longer exists.
    pub fn responders(&self) -> Vec<Responder> {
        let Some(pod) = self.present() else {
            return Vec::new();
        };
        let imperative = Responder {
            name: IMPERATIVE.into(),
            priority: Some(IMPERATIVE_PRIORITY),
        };
        { pod.responders.iter().cloned() }
            .chain([imperative])
            .collect()
    }
}

/// When the last container of a pod ended; `None` if one has not, or its time is unknown. Sidecars end after the others.
fn finish_time(pod: &Pod) -> Option<Time> {
    let is_sidecar = |status: &&ContainerStatus| {
        pod.init_containers.iter().any(|container| {
            container.name == status.name && container.restart_policy.as_deref() == Some("Always")
        })
    };
    let latest = |from: Option<Time>, statuses: &[&ContainerStatus]| {
        let times: Option<Vec<Time>> = statuses.iter().map(|status| status.finished()).collect();
        times?.into_iter().chain(from).max()
    };
    let containers: Vec<&ContainerStatus> = pod.statuses.iter().collect();
    let sidecars: Vec<&ContainerStatus> = pod.init_statuses.iter().filter(is_sidecar).collect();
    // As in stock, sidecars alone give a time, too.
    latest(latest(None, &containers), &sidecars)
}
