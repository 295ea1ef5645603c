//! The PersistentVolumeClaims of a StatefulSet's pods.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: getPersistentVolumeClaims, getPersistentVolumeClaimName.
//! Upstream: pkg/controller/statefulset/stateful_pod_control.go: createPersistentVolumeClaims.

use std::collections::HashMap;

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;

use crate::identity::claim_name;
use crate::retention::Owners;
use crate::views::{Claim, ClaimTemplate, Owner, StatefulSet};

/// Up to this number of claims are read one by one; for more, all of the namespace are listed.
const FEW: usize = 8;

/// The existing claims of a set's pods.
#[derive(Debug, Default)]
pub struct Claims(HashMap<String, Claim>);

impl Claims {
    /// Reads the claims of the pods with these ordinals.
    ///
    /// # Errors
    /// As [`Host::get`].
    pub fn read(
        host: &Host,
        set: &StatefulSet,
        ordinals: impl IntoIterator<Item = i64>,
    ) -> Result<Self, Error> {
        if set.claim_templates.is_empty() {
            return Ok(Self::default());
        }
        let namespace = &set.meta.namespace;
        let names: Vec<String> = ordinals
            .into_iter()
            .flat_map(|ordinal| names(set, ordinal))
            .collect();
        let mut found = HashMap::new();
        if names.len() <= FEW {
            for name in names {
                if let Some(claim) = host.get::<Claim>(namespace, &name)? {
                    found.insert(name, claim);
                }
            }
            return Ok(Self(found));
        }
        host.list::<Claim>().namespace(namespace).each(|claim| {
            found.insert(claim.meta.name.clone(), claim);
            Ok(())
        })?;
        Ok(Self(found))
    }

    pub fn get(&self, name: &str) -> Option<&Claim> {
        self.0.get(name)
    }

    /// The existing claims of the pod with this ordinal.
    pub fn of(&self, set: &StatefulSet, ordinal: i64) -> impl Iterator<Item = &Claim> {
        names(set, ordinal).filter_map(|name| self.get(&name))
    }
}

/// The names of the claims of the pod with this ordinal.
pub fn names(set: &StatefulSet, ordinal: i64) -> impl Iterator<Item = String> {
    set.claim_templates
        .iter()
        .map(move |template| claim_name(template.name(), &set.meta.name, ordinal))
}

impl ClaimTemplate {
    /// The name of the template, which is also the name of the pods' volume.
    pub fn name(&self) -> &str {
        self.metadata
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The write that creates the claim of the pod with this ordinal. The claim is created with its owners.
    pub fn creation(&self, set: &StatefulSet, ordinal: i64, owners: &Owners) -> Write {
        let name = claim_name(self.name(), &set.meta.name, ordinal);
        let mut metadata = self.metadata.clone();
        metadata.insert("name".into(), name.into());
        metadata.insert("namespace".into(), set.meta.namespace.clone().into());
        let labels = metadata
            .entry("labels")
            .or_insert_with(|| Map::new().into());
        if let Some(labels) = labels.as_object_mut() {
            labels.extend(set.match_labels());
        }
        let own = metadata.get("ownerReferences").cloned();
        let own: Option<Vec<Owner>> = Raw::from(own.unwrap_or_default()).parse().ok().flatten();
        let own = own.unwrap_or_default();
        if !owners.match_those(&own) {
            let applied = Raw::of(&owners.applied(&own)).value();
            metadata.insert("ownerReferences".into(), applied);
        }
        let claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": self.spec,
        });
        Write::create(Claim::KIND, &set.meta.namespace, &claim)
    }
}
