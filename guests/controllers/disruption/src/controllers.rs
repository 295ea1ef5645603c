//! The controllers of pods and their replicas. Percentages and `maxUnavailable` refer to the sum of the replicas.
//!
//! Upstream: pkg/controller/disruption/disruption.go: finders, getPodReplicaSet, getPodStatefulSet, getPodDeployment,
//! getPodReplicationController, getExpectedScale, verifyGroupKind.

use std::collections::{BTreeMap, BTreeSet};

use flyball_sdk::prelude::*;

use crate::scale::{self, Scale};
use crate::settings::Settings;
use crate::views::{Deployment, Pod, ReplicaSet, ReplicationController, StatefulSet};

/// The expected pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    pub replicas: i32,
    /// Names of pods without a controller. They are not among the replicas.
    pub unmanaged: Vec<String>,
}

impl Total {
    /// Expects the present number of pods, without regard to their controllers.
    pub fn of_pods(pods: &[Pod]) -> Self {
        Self {
            replicas: i32::try_from(pods.len()).unwrap_or(i32::MAX),
            unmanaged: Vec::new(),
        }
    }
}

/// Sums the replicas of the controllers of pods. The scales that are not cached are read concurrently.
///
/// # Errors
/// The controller of a pod does not exist or has no scale.
pub fn total(
    host: &Host,
    namespace: &str,
    pods: &[Pod],
    settings: &Settings,
) -> Result<Total, Error> {
    let mut scales = BTreeMap::new();
    let (mut unmanaged, mut seen, mut live) = (Vec::new(), BTreeSet::new(), Vec::new());
    for pod in pods {
        let Some(owner) = pod.controller() else {
            unmanaged.push(pod.name.clone());
            continue;
        };
        if !seen.insert(&owner.uid) {
            continue;
        }
        match cached(host, namespace, owner)? {
            Some(scale) => drop(scales.insert(scale.uid, scale.replicas)),
            None => live.push((owner, pod)),
        }
    }
    let owners: Vec<&OwnerReference> = live.iter().map(|(owner, _)| *owner).collect();
    let found = scale::read(host, namespace, &owners, settings.discovery_period)?;
    for ((_, pod), scale) in live.into_iter().zip(found) {
        let missing = || Error::failed(format!("found no controllers for pod {:?}", pod.name));
        let scale = scale.ok_or_else(missing)?;
        scales.insert(scale.uid, scale.replicas);
    }
    Ok(Total {
        replicas: scales.into_values().fold(0, i32::saturating_add),
        unmanaged,
    })
}

/// Returns the scale of a controller of a kind that is cached, under the UID that its pods name.
fn cached(host: &Host, namespace: &str, owner: &OwnerReference) -> Result<Option<Scale>, Error> {
    let name = &owner.name;
    let scale = if owner.is_of(ReplicationController::KIND) {
        host.get::<ReplicationController>(namespace, name)?
            .map(|found| Scale::of(&found.meta, found.replicas))
    } else if owner.is_of(StatefulSet::KIND) {
        host.get::<StatefulSet>(namespace, name)?
            .map(|found| Scale::of(&found.meta, found.replicas))
    } else if is_of_apps(owner, "ReplicaSet") {
        return of_replica_set(host, namespace, owner);
    } else {
        None
    };
    Ok(scale.filter(|scale| scale.uid == owner.uid))
}

/// Returns the scale of a ReplicaSet, or of the Deployment that controls it: during a rollout, a Deployment has several
/// ReplicaSets with some of its replicas each.
fn of_replica_set(
    host: &Host,
    namespace: &str,
    owner: &OwnerReference,
) -> Result<Option<Scale>, Error> {
    let Some(set) = host
        .get::<ReplicaSet>(namespace, &owner.name)?
        .filter(|set| set.meta.uid == owner.uid)
    else {
        return Ok(None);
    };
    match set.meta.controller() {
        Some(above) if is_of_apps(above, "Deployment") => {
            let deployment = host.get::<Deployment>(namespace, &above.name)?;
            Ok(deployment
                .filter(|deployment| deployment.meta.uid == above.uid)
                .map(|deployment| Scale::of(&deployment.meta, deployment.replicas)))
        }
        // A Deployment of another group is unknown here. The scale of its ReplicaSet is read live.
        Some(above) if above.kind == "Deployment" => Ok(None),
        _ => Ok(Some(Scale::of(&set.meta, set.replicas))),
    }
}

/// Whether a reference names this kind of the group `apps` or, as old objects do, `extensions`.
fn is_of_apps(owner: &OwnerReference, kind: &str) -> bool {
    ["apps/v1", "extensions/v1beta1"]
        .iter()
        .any(|group_version| owner.is_of(&format!("{group_version}/{kind}")))
}
