//! The Secrets that pods reference.
//!
//! Upstream: pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go: getMountedSecretNames.
//! Upstream: pkg/api/v1/pod/util.go: VisitPodSecretNames.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use flyball_sdk::serde_json::Value;
use flyball_sdk::{Error, FieldPath, Host, View};
use serde::Deserialize;

/// A pod with all fields that can name a Secret. Secrets named by PersistentVolumes of its claims
/// are not included.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Pod(Value);

impl View for Pod {
    const KIND: &'static str = "v1/Pod";
    const FIELDS: &'static [&'static str] = &[
        "spec.imagePullSecrets[*].name",
        "spec.initContainers[*].env[*].valueFrom.secretKeyRef.name",
        "spec.initContainers[*].envFrom[*].secretRef.name",
        "spec.containers[*].env[*].valueFrom.secretKeyRef.name",
        "spec.containers[*].envFrom[*].secretRef.name",
        "spec.ephemeralContainers[*].env[*].valueFrom.secretKeyRef.name",
        "spec.ephemeralContainers[*].envFrom[*].secretRef.name",
        "spec.volumes[*].azureFile.secretName",
        "spec.volumes[*].cephfs.secretRef.name",
        "spec.volumes[*].cinder.secretRef.name",
        "spec.volumes[*].csi.nodePublishSecretRef.name",
        "spec.volumes[*].flexVolume.secretRef.name",
        "spec.volumes[*].iscsi.secretRef.name",
        "spec.volumes[*].projected.sources[*].secret.name",
        "spec.volumes[*].rbd.secretRef.name",
        "spec.volumes[*].scaleIO.secretRef.name",
        "spec.volumes[*].secret.secretName",
        "spec.volumes[*].storageos.secretRef.name",
    ];
}

/// The Secrets that pods reference, by namespace. A namespace's pods are listed on first use.
pub struct Referenced<'a> {
    host: Host<'a>,
    paths: Vec<FieldPath>,
    namespaces: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> Referenced<'a> {
    /// Starts with no namespace listed.
    pub fn new(host: &Host<'a>) -> Self {
        let path = |path: &&str| path.parse().unwrap_or_else(|error| panic!("{error}"));
        Self {
            host: *host,
            paths: Pod::FIELDS.iter().map(path).collect(),
            namespaces: BTreeMap::new(),
        }
    }

    /// Whether a pod of this namespace references this Secret.
    ///
    /// # Errors
    /// The pods can't be read.
    pub fn has(&mut self, namespace: &str, secret: &str) -> Result<bool, Error> {
        let names = match self.namespaces.entry(namespace.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let mut names = BTreeSet::new();
                self.host
                    .list::<Pod>()
                    .namespace(namespace)
                    .each(|Pod(pod)| {
                        let named = self.paths.iter().flat_map(|path| path.lookup(&pod));
                        names.extend(named.map(str::to_owned));
                        Ok(())
                    })?;
                unknown.insert(names)
            }
        };
        Ok(names.contains(secret))
    }
}
