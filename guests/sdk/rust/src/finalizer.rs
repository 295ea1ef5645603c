//! Finalizers that a controller adds to objects and removes by updates.

use serde_json::{Value, json};

use crate::meta::Meta;
use crate::write::Write;

/// Whether an object has this finalizer.
pub fn has(meta: &Meta, finalizer: &str) -> bool {
    meta.finalizers.iter().any(|own| own == finalizer)
}

/// Whether an object is being deleted and this finalizer keeps it.
pub fn is_held(meta: &Meta, finalizer: &str) -> bool {
    meta.is_deleting() && has(meta, finalizer)
}

/// Whether an object is not being deleted and lacks this finalizer.
pub fn is_missing(meta: &Meta, finalizer: &str) -> bool {
    !meta.is_deleting() && !has(meta, finalizer)
}

/// The update that appends a finalizer. Fails with `Conflict` if the object has changed since it was read.
pub fn add(kind: &str, meta: &Meta, finalizer: &str) -> Write {
    let all = meta.finalizers.iter().map(String::as_str);
    Write::update(kind, meta, &finalizers(all.chain([finalizer])))
}

/// The update that removes a finalizer and keeps others. Fails with `Conflict` if the object has changed since it was
/// read.
pub fn remove(kind: &str, meta: &Meta, finalizer: &str) -> Write {
    let all = meta.finalizers.iter().map(String::as_str);
    Write::update(kind, meta, &finalizers(all.filter(|own| *own != finalizer)))
}

fn finalizers<'a>(all: impl Iterator<Item = &'a str>) -> Value {
    json!({"metadata": {"finalizers": all.collect::<Vec<_>>()}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cluster;

    const KIND: &str = "v1/ConfigMap";

    fn stored(cluster: &Cluster) -> Meta {
        let object = cluster.object(KIND, "default", "a").unwrap();
        serde_json::from_value(object["metadata"].clone()).unwrap()
    }

    #[test]
    fn a_finalizer_is_added_last_and_removed_alone() {
        let cluster = Cluster::with([json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "default", "finalizers": ["x.io/other"]},
        })]);
        let meta = stored(&cluster);
        assert!(is_missing(&meta, "x.io/ours") && !is_held(&meta, "x.io/other"));
        cluster.host().write(add(KIND, &meta, "x.io/ours")).unwrap();
        let held = stored(&cluster);
        assert_eq!(held.finalizers, ["x.io/other", "x.io/ours"]);
        let stale = cluster.host().write(remove(KIND, &meta, "x.io/ours"));
        assert!(stale.unwrap_err().is_conflict());
        cluster
            .host()
            .write(remove(KIND, &held, "x.io/ours"))
            .unwrap();
        assert_eq!(stored(&cluster).finalizers, ["x.io/other"]);
    }

    #[test]
    fn an_object_that_is_being_deleted_is_held_by_its_finalizers() {
        let meta = Meta {
            deletion_timestamp: Some("2026-01-01T00:00:00Z".parse().unwrap()),
            finalizers: vec!["x.io/ours".into()],
            ..Meta::default()
        };
        assert!(is_held(&meta, "x.io/ours") && !is_held(&meta, "x.io/other"));
        assert!(!is_missing(&meta, "x.io/other"));
    }
}
