//! selinux-warning-controller: warns about pods that use a volume with different SELinux labels.
//!
//! A volume can be mounted with one SELinux label only, unless its files are relabeled one by one. So of two pods that
//! use a volume on one node with different labels, one does not start. The controller compares all pods that use a
//! volume, on whichever nodes they are, and writes nothing but events.
//!
//! - `labels.rs` has the label of each mount, from the security contexts of the pod and of its containers.
//! - `volumes.rs` finds the volume behind a mount, which may have several PersistentVolumes.
//! - `conflicts.rs` compares two pods.
//! - `known.rs` keeps, in the memo, the pods of each volume, as they were when they were last reconciled. A conflict is
//!   reported when one of its pods is new or has changed. After a restart, all conflicts are reported again, as by
//!   kube-controller-manager.
//!
//! Upstream: pkg/controller/volume/selinuxwarning/selinux_warning_controller.go: NewController, sync, syncPod,
//! syncPodDelete, reportConflictEvents.

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

mod conflicts;
mod known;
mod labels;
mod route;
#[cfg(test)]
mod tests;
mod views;
mod volumes;

use conflicts::{CONFLICTS, Conflict};
use known::Known;
use labels::Mount;
use views::{BY_CLAIM, Claim, Driver, PersistentVolume, Pod, PodState};

/// The controller. Keys name pods, or, without a namespace, CSI drivers.
pub struct SelinuxWarnings;

export!(SelinuxWarnings);

impl Controller for SelinuxWarnings {
    fn describe() -> Description {
        let changed = [DeltaType::Added, DeltaType::Modified];
        describe("selinux-warning-controller", env!("CARGO_PKG_VERSION"))
            .watch(
                // What the labels depend on can't change.
                watch::<Pod>()
                    .when_at(&["metadata.uid", "status.phase"])
                    .enqueue(Mapping::route()),
            )
            .watch(
                watch::<Claim>()
                    .when_at(&["metadata.uid", "spec.volumeName", "status.phase"])
                    .enqueue(Mapping::route().on(changed)),
            )
            .watch(
                watch::<PersistentVolume>()
                    .when_at(&["metadata.uid", "spec.claimRef.uid"])
                    .enqueue(Mapping::route().on(changed)),
            )
            .watch(
                watch::<Driver>()
                    .when_at(&["spec.seLinuxMount"])
                    .enqueue(Mapping::route()),
            )
            .index(
                BY_CLAIM,
                Pod::KIND,
                "spec.volumes[*].persistentVolumeClaim.claimName",
            )
            .queue("selinux_warning")
            .event_source("selinux_warning")
            .metric(
                MetricType::Gauge,
                CONFLICTS,
                &[
                    "property",
                    "pod1_namespace",
                    "pod1_name",
                    "pod1_value",
                    "pod2_namespace",
                    "pod2_name",
                    "pod2_value",
                ],
                "Conflict between two Pods using the same volume",
            )
            .memo_schema(1)
            .concurrency(1)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        if request.key.namespace.is_empty() {
            wake_pods_of_driver(host, &request.key.name)?;
            return Ok(Outcome::Done);
        }
        let pod = host
            .get_by_key::<Pod>(&request.key)?
            .filter(|pod| !pod.is_done());
        let mounts = pod.as_ref().map(Pod::mounts).unwrap_or_default();
        let mut uses = Vec::new();
        if let Some(pod) = &pod {
            for mount in &mounts {
                uses.extend(volumes::of_mount(host, pod, mount)?);
            }
        }
        let mut known = Known::read(host, &request.key, &uses);
        let before = known.conflicts();
        let new = match pod.is_some() {
            true => known.add(uses),
            false => known.remove(),
        };
        known.write(host)?;
        conflicts::count(host, &before, &known.conflicts());
        report(host, &new)?;
        pod.map_or(Ok(()), |pod| check_labels(host, &pod, &mounts))?;
        Ok(Outcome::Done)
    }

    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        route::route(host, deltas)
    }
}

/// Emits an event about each pod that conflicts with another one, if it still exists.
fn report(host: &Host, conflicts: &[Conflict]) -> Result<(), Error> {
    for conflict in conflicts {
        if let Some(pod) = host.get_by_key::<PodState>(&conflict.pod)? {
            let about = pod.meta.reference(Pod::KIND);
            let message = conflict.message();
            host.emit(Event::normal(&about, conflict.reason(), &message));
        }
    }
    Ok(())
}

/// Warns about volumes that containers of a pod mount with different labels.
///
/// # Errors
/// There are such volumes. The warning is repeated with each attempt, as by kube-controller-manager.
fn check_labels(host: &Host, pod: &Pod, mounts: &[Mount]) -> Result<(), Error> {
    let mut failures = Vec::new();
    for Mount { volume, labels } in mounts.iter().filter(|mount| mount.labels.len() > 1) {
        let warning = format!(
            "Volume {volume:?} is mounted twice with different SELinux labels inside this pod"
        );
        let about = pod.meta.reference(Pod::KIND);
        host.emit(Event::warning(&about, "MultipleSELinuxLabels", &warning));
        failures.push(Error::failed(format!(
            "the volume {volume:?} has several SELinux labels: {labels:?}"
        )));
    }
    Error::join(failures).map_or(Ok(()), Err)
}

/// Enqueues the pods that use volumes of a CSI driver.
fn wake_pods_of_driver(host: &Host, driver: &str) -> Result<(), Error> {
    host.list::<Pod>().each(|pod| {
        if !pod.is_done() && volumes::uses_driver(host, &pod, driver)? {
            host.queue().add("", &pod.meta.key())?;
        }
        Ok(())
    })
}
