//! The desired state: the volumes that the pods of a node need.
//!
//! Upstream: pkg/controller/volume/attachdetach/cache/desired_state_of_world.go.
//! Upstream: pkg/controller/volume/attachdetach/util/util.go: DetermineVolumeAction, ProcessPodVolumes.
//! Upstream: pkg/controller/volume/attachdetach/populator/desired_state_of_world_populator.go:
//! findAndRemoveDeletedPods, findAndAddActivePods.
//! Upstream: pkg/controller/volume/attachdetach/metrics/metrics.go: getVolumeInUseCount.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;

use crate::disk::{Disk, Disks, Resolved, Unbound};
use crate::operations::Audience;
use crate::views::Pod;

/// The index of pods by the names of their nodes.
pub const BY_NODE: &str = "node";

/// A volume that pods of a node need.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub disk: Disk,
    pub pods: Vec<Meta>,
}

impl Wanted {
    /// Those who are told about the attachment of the volume.
    pub fn audience(&self) -> Audience {
        Audience {
            disk: self.disk.name.clone(),
            pods: self.pods.clone(),
        }
    }
}

/// The volumes that the pods of a node need.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// By unique name.
    pub volumes: BTreeMap<String, Wanted>,
    /// The claims of these pods that have lost their volumes, or have none yet.
    pub unbound: Vec<Unbound>,
    /// The number of volumes of all pods, also of those that have ended, by the name of the plugin in metrics.
    pub in_use: BTreeMap<String, u32>,
}

impl Desired {
    /// Reads the desired state of a node.
    ///
    /// # Errors
    /// A read failed, or an object is malformed.
    pub fn of_node(host: &Host, disks: &Disks, node: &str) -> Result<Self, Error> {
        let mut desired = Self::default();
        let pods = host.list::<Pod>().index(BY_NODE, node);
        pods.each(|pod| {
            let is_active = !pod.is_terminated();
            for entry in &pod.volumes {
                match disks.of_pod(&pod, entry)? {
                    Resolved::Disk(disk) => desired.add(disks, &pod, is_active, disk)?,
                    Resolved::Unbound(claim) if is_active => desired.unbound.push(claim),
                    Resolved::Unbound(_) | Resolved::Nothing => {}
                }
            }
            Ok(())
        })?;
        Ok(desired)
    }

    fn add(&mut self, disks: &Disks, pod: &Pod, is_active: bool, disk: Disk) -> Result<(), Error> {
        let Some(label) = disks.label(&disk) else {
            return Ok(());
        };
        *self.in_use.entry(label).or_default() += 1;
        if !is_active || !disks.must_be_attached(&disk)? {
            return Ok(());
        }
        let Some(name) = disks.unique_name(&disk) else {
            return Ok(());
        };
        let wanted = self.volumes.entry(name).or_insert_with(|| Wanted {
            disk,
            pods: Vec::new(),
        });
        // A pod may have a volume twice.
        if wanted.pods.iter().all(|known| known.uid != pod.meta.uid) {
            wanted.pods.push(pod.meta.clone());
        }
        Ok(())
    }
}
