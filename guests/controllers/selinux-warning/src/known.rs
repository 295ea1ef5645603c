//! The pods that use each volume, as they were when they were last reconciled. They are kept in the memo: after it was
//! emptied, all pods are reconciled again.
//!
//! The entry `pod:KEY` lists the names of a pod's volumes, and `volume:NAME` the pods that use a volume.
//!
//! Upstream: pkg/controller/volume/selinuxwarning/cache/volumecache.go: AddVolume, DeletePod.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_sdk::prelude::*;
use serde::Serialize;

use crate::conflicts::{Conflict, User, between};
use crate::volumes::Use;

/// A pod's volumes, with all pods that use them.
pub(crate) struct Known {
    /// The key of the pod.
    pod: String,
    volumes: BTreeMap<String, Vec<User>>,
    /// The volumes that are to be written.
    changed: BTreeSet<String>,
}

impl Known {
    /// Reads the volumes that a pod is known to use, and those that it uses now.
    pub(crate) fn read(host: &Host, pod: &Key, uses: &[Use]) -> Self {
        let pod = pod.to_string();
        let mut names: BTreeSet<String> = host.memo().get(&pod_entry(&pod)).unwrap_or_default();
        names.extend(uses.iter().map(|usage| usage.volume.clone()));
        let users = |name: String| {
            let users = host.memo().get(&volume_entry(&name));
            (name, users.unwrap_or_default())
        };
        Self {
            pod,
            volumes: names.into_iter().map(users).collect(),
            changed: BTreeSet::new(),
        }
    }

    /// Returns all conflicts of the pod.
    pub(crate) fn conflicts(&self) -> BTreeSet<Conflict> {
        let of_volume = |users: &Vec<User>| self.conflicts_in(users);
        self.volumes.values().flat_map(of_volume).collect()
    }

    fn conflicts_in(&self, users: &[User]) -> Vec<Conflict> {
        let Some(own) = users.iter().find(|user| user.pod == self.pod) else {
            return Vec::new();
        };
        let others = users.iter().filter(|user| user.pod != self.pod);
        others.flat_map(|other| between(own, other)).collect()
    }

    /// Adds how the pod uses its volumes. Returns the conflicts in those volumes that the pod has not used before, or in
    /// another way.
    pub(crate) fn add(&mut self, uses: Vec<Use>) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        for Use {
            volume,
            label,
            policy,
        } in uses
        {
            let pod = self.pod.clone();
            let user = User { pod, label, policy };
            let users = self.volumes.entry(volume.clone()).or_default();
            if users.contains(&user) {
                continue;
            }
            users.retain(|other| other.pod != user.pod);
            users.push(user);
            conflicts.extend(self.conflicts_in(&self.volumes[&volume]));
            self.changed.insert(volume);
        }
        conflicts
    }

    /// Removes the pod from its volumes. Returns no conflicts.
    pub(crate) fn remove(&mut self) -> Vec<Conflict> {
        for (name, users) in &mut self.volumes {
            users.retain(|user| user.pod != self.pod);
            self.changed.insert(name.clone());
        }
        Vec::new()
    }

    /// Writes what has changed.
    ///
    /// # Errors
    /// The memo is full.
    pub(crate) fn write(&self, host: &Host) -> Result<(), Error> {
        for name in &self.changed {
            let users = &self.volumes[name];
            put(host, &volume_entry(name), users, users.is_empty())?;
        }
        if !self.changed.is_empty() {
            let is_user = |users: &Vec<User>| users.iter().any(|user| user.pod == self.pod);
            let own = self.volumes.iter().filter(|(_, users)| is_user(users));
            let names: Vec<&String> = own.map(|(name, _)| name).collect();
            put(host, &pod_entry(&self.pod), &names, names.is_empty())?;
        }
        Ok(())
    }
}

/// Writes an entry, or removes it if it is empty.
fn put(host: &Host, key: &str, value: &impl Serialize, is_empty: bool) -> Result<(), Error> {
    match is_empty {
        true => host.memo().remove(key),
        false => host.memo().put(key, value, "", Duration::ZERO)?,
    }
    Ok(())
}

fn pod_entry(pod: &str) -> String {
    format!("pod:{pod}")
}

fn volume_entry(name: &str) -> String {
    format!("volume:{name}")
}
