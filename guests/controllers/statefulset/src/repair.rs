//! Repairs of pods that lost their identity: labels and volumes.
//!
//! Upstream: pkg/controller/statefulset/stateful_pod_control.go: UpdateStatefulPod.
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: updateIdentity, updateStorage.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;

use crate::identity::{self, pod_name};
use crate::plan::Repair;
use crate::pod;
use crate::views::{LivePod, Pod, StatefulSet};

/// Returns the write that repairs a pod's labels and volumes; `None` if it needs no such repair. It
/// is based on a live read, because pods change often. It fails if the pod does not have the name of
/// its ordinal. The API server refuses to change volumes, which is then reported.
///
/// # Errors
/// The pod could not be read.
pub fn update(
    host: &Host,
    set: &StatefulSet,
    pod: &Pod,
    ordinal: i64,
    repair: Repair,
) -> Result<Option<Write>, Error> {
    if !repair.identity && !repair.storage {
        return Ok(None);
    }
    let name = pod_name(&set.meta.name, ordinal);
    let live = host.live().get::<LivePod>(&set.meta.namespace, &name)?;
    let live = live.filter(|live| live.meta.uid == pod.meta.uid);
    let LivePod { meta, volumes } = live.unwrap_or_else(|| LivePod {
        meta: Meta {
            name: name.clone(),
            namespace: set.meta.namespace.clone(),
            resource_version: pod.meta.resource_version.clone(),
            ..Meta::default()
        },
        volumes: Vec::new(),
    });
    let mut change = Map::new();
    if repair.identity {
        let labels: Map<String, Value> = identity::labels(&name, ordinal)
            .map(|(key, value)| (key.to_owned(), value.into()))
            .into_iter()
            .collect();
        change.insert("metadata".into(), json!({ "labels": labels }));
    }
    if repair.storage {
        let volumes = pod::volumes(set, volumes, ordinal);
        change.insert("spec".into(), json!({ "volumes": volumes }));
    }
    Ok(Some(Write::update(Pod::KIND, &meta, &change)))
}
