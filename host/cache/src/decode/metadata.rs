//! The metadata of an object: collected as JSON, then decoded into an [`Object`].

use std::sync::Arc;

use flyball_types::{Mask, MetadataSink, Text};
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::intern::Interner;
use crate::{Object, Uid};

/// The fields of `metadata` that an [`Object`] has, as JSON.
#[derive(Default)]
pub(super) struct Metadata<'a> {
    name: Option<&'a RawValue>,
    namespace: Option<&'a RawValue>,
    uid: Option<&'a RawValue>,
    resource_version: Option<&'a RawValue>,
    generation: Option<&'a RawValue>,
    labels: Option<&'a RawValue>,
    owners: Option<&'a RawValue>,
    finalizers: Option<&'a RawValue>,
    deletion: Option<&'a RawValue>,
    grace: Option<&'a RawValue>,
}

impl<'a> Metadata<'a> {
    /// Whether a field of `metadata` is collected.
    pub(super) fn collects(field: &str) -> bool {
        Self::default().slot(field).is_some()
    }

    fn slot(&mut self, field: &str) -> Option<&mut Option<&'a RawValue>> {
        Some(match field {
            "name" => &mut self.name,
            "namespace" => &mut self.namespace,
            "uid" => &mut self.uid,
            "resourceVersion" => &mut self.resource_version,
            "generation" => &mut self.generation,
            "labels" => &mut self.labels,
            "ownerReferences" => &mut self.owners,
            "finalizers" => &mut self.finalizers,
            "deletionTimestamp" => &mut self.deletion,
            "deletionGracePeriodSeconds" => &mut self.grace,
            _ => return None,
        })
    }

    pub(super) fn into_object(
        self,
        interner: &Mutex<Interner>,
        mask: &Arc<Mask>,
        json: &[u8],
    ) -> Result<Object, String> {
        let text = |raw: Option<&'a RawValue>| raw.and_then(Text::of_raw);
        let name = text(self.name)
            .filter(|name| !name.is_empty())
            .ok_or("metadata.name is missing")?;
        let namespace = text(self.namespace);
        let namespace = namespace.as_deref().unwrap_or("");
        let uid = match text(self.uid) {
            Some(uid) if !uid.is_empty() => Uid::new(&uid),
            // Some aggregated servers assign no UIDs: then the name is the identity.
            _ => Uid::new(&format!("{namespace}/{}", &*name)),
        };
        let version = text(self.resource_version).ok_or("metadata.resourceVersion is missing")?;
        let resource_version = version
            .parse()
            .map_err(|_| format!("the resource version {:?} is not a number", &*version))?;
        let finalizers = match self.finalizers {
            None => 0,
            Some(raw) => serde_json::from_str::<Option<Vec<IgnoredAny>>>(raw.get())
                .map_err(|error| format!("finalizers: {error}"))?
                .map_or(0, |list| u16::try_from(list.len()).unwrap_or(u16::MAX)),
        };
        let number = |raw: Option<&RawValue>| {
            raw.and_then(|raw| raw.get().parse::<i64>().ok())
                .unwrap_or(0)
        };
        let mut interner = interner.lock();
        Ok(Object {
            namespace: interner.text(namespace),
            name: (&*name).into(),
            uid,
            resource_version,
            generation: number(self.generation),
            labels: interner.labels(self.labels)?,
            owners: interner.owners(self.owners)?,
            finalizers,
            deleting: self.deletion.is_some_and(|raw| raw.get() != "null"),
            grace: number(self.grace) > 0,
            mask: Arc::clone(mask),
            json: json.into(),
            row: Mutex::default(),
        })
    }
}

impl<'a> MetadataSink<'a> for Metadata<'a> {
    fn wants(&self, field: &str) -> bool {
        Metadata::collects(field)
    }

    fn take(&mut self, field: &str, value: &'a RawValue) -> Result<(), String> {
        if let Some(slot) = self.slot(field) {
            *slot = Some(value);
        }
        Ok(())
    }
}
