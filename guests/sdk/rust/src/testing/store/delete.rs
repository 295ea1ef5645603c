//! Deletions of objects: finalizers, grace periods and preconditions.

use std::collections::btree_map::Entry;

use flyball_types::ApiError;
use serde_json::{Value, json};

use crate::testing::{namespace, patch};
use crate::write::Propagation;

use super::{Id, Store, conflict, has_finalizers, text};

/// The delete options that the fake supports.
#[derive(Default)]
pub(in crate::testing) struct DeleteOptions {
    pub(in crate::testing) uid: Option<String>,
    pub(in crate::testing) resource_version: Option<String>,
    pub(in crate::testing) grace_seconds: Option<i64>,
    pub(in crate::testing) propagation: Option<Propagation>,
}

impl Store {
    /// Deletes an object, or marks it as being deleted if it has finalizers or a grace period. A
    /// pod on a node has a grace period (30 s by default).
    pub(in crate::testing) fn delete(
        &mut self,
        id: &Id,
        options: &DeleteOptions,
    ) -> Result<Value, ApiError> {
        let mut object = self.found(id)?.clone();
        let preconditions = [
            ("/metadata/uid", &options.uid),
            ("/metadata/resourceVersion", &options.resource_version),
        ];
        for (path, wanted) in preconditions {
            if wanted
                .as_ref()
                .is_some_and(|wanted| wanted != text(&object, path))
            {
                return Err(conflict(id, &format!("the precondition on {path} failed")));
            }
        }
        let finalizer = match options.propagation {
            Some(Propagation::Foreground) => Some("foregroundDeletion"),
            Some(Propagation::Orphan) => Some("orphan"),
            _ => None,
        };
        if let Some(finalizer) = finalizer {
            patch::strategic(
                &mut object,
                &json!({"metadata": {"finalizers": [finalizer]}}),
            );
        }
        let on_node = id.kind == "v1/Pod" && !text(&object, "/spec/nodeName").is_empty();
        let default = object
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(30);
        let is_deleting = !object["metadata"]["deletionTimestamp"].is_null();
        let pending = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
        let grace = match (on_node, options.grace_seconds) {
            (false, _) => 0,
            // A deletion that has begun can only be shortened.
            (true, wanted) if is_deleting => {
                let pending = pending.unwrap_or(0);
                wanted.map_or(pending, |wanted| wanted.min(pending))
            }
            (true, wanted) => wanted.unwrap_or(default),
        };
        if grace == 0 && !has_finalizers(&object) && !namespace::is_held(id, &object) {
            self.remove(id);
            return Ok(object);
        }
        if !is_deleting {
            let at = self.now + std::time::Duration::from_secs(grace.unsigned_abs());
            object["metadata"]["deletionTimestamp"] = at.to_string().into();
            object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            namespace::terminate(id, &mut object);
            self.touch(&mut object);
        } else if pending.is_some_and(|pending| grace < pending) {
            object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            self.touch(&mut object);
        }
        if let Entry::Occupied(mut entry) = self.objects.entry(id.clone()) {
            entry.insert(object.clone());
        }
        Ok(object)
    }
}
