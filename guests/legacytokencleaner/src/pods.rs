//! Which Secrets the pods of a namespace name: wherever a pod can.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use flyball_sdk::serde_json::Value;
use flyball_sdk::{Error, FieldPath, Host, View};
use serde::Deserialize;

/// A pod: the names of Secrets in it, where they stand. Secrets that a volume of its claims names
/// are not among them.
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

/// The Secrets that pods name, by namespace. A namespace is read when it is first asked for.
pub struct Mounted<'a> {
    host: Host<'a>,
    paths: Vec<FieldPath>,
    namespaces: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> Mounted<'a> {
    /// None is read yet.
    pub fn new(host: &Host<'a>) -> Self {
        let path = |path: &&str| path.parse().unwrap_or_else(|error| panic!("{error}"));
        Self {
            host: *host,
            paths: Pod::FIELDS.iter().map(path).collect(),
            namespaces: BTreeMap::new(),
        }
    }

    /// Whether a pod of this namespace names this Secret.
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
