//! Repairs of pods that lost their identity: labels and volumes.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;

use crate::identity::{self, pod_name};
use crate::plan::Repair;
use crate::pod;
use crate::views::{Pod, PodVolumes, StatefulSet};

/// Returns the patch that repairs a pod; `None` if it needs none. It fails if the name belongs to
/// another pod. The API server refuses to change volumes, which is then reported.
///
/// # Errors
/// The pod's volumes could not be read.
pub fn patch(
    host: &Host,
    set: &StatefulSet,
    pod: &Pod,
    ordinal: i64,
    repair: Repair,
) -> Result<Option<Write>, Error> {
    let name = pod_name(&set.meta.name, ordinal);
    let mut patch = Map::new();
    if repair.identity {
        let labels: Map<String, Value> = identity::labels(&name, ordinal)
            .map(|(key, value)| (key.to_owned(), value.into()))
            .into_iter()
            .collect();
        patch.insert(
            "metadata".into(),
            json!({"uid": pod.meta.uid, "labels": labels}),
        );
    }
    if repair.storage {
        let live = host
            .reader()
            .get::<PodVolumes>(&set.meta.namespace, &pod.meta.name)?;
        let volumes = pod::volumes(set, live.unwrap_or_default().volumes, ordinal);
        patch.insert("spec".into(), json!({"volumes": volumes}));
        patch
            .entry("metadata")
            .or_insert_with(|| json!({"uid": pod.meta.uid}));
    }
    if patch.is_empty() {
        return Ok(None);
    }
    let namespace = &set.meta.namespace;
    Ok(Some(Write::patch(
        Pod::KIND,
        namespace,
        &name,
        PatchType::Merge,
        &patch,
    )))
}
