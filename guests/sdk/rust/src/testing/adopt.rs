//! A cluster over another API server: objects of that one are taken over when they are needed, and writes can be taken
//! back. `flyball plan` uses it.

use serde_json::Value;

use super::Cluster;
use super::store::Id;
pub use super::store::Saved;

impl Cluster {
    /// Stores an object that another API server has stored. It is neither checked nor defaulted. The managers in its
    /// `metadata.managedFields` own its fields, and the field itself is removed. A CustomResourceDefinition applies to
    /// all later writes of its kind.
    pub fn adopt(&self, object: Value) {
        self.state.borrow_mut().store.adopt(object);
    }

    /// Replaces an object as it stands. The owners of its fields stay.
    pub fn overwrite(&self, object: Value) {
        self.state.borrow_mut().store.overwrite(object);
    }

    /// Returns the object with the owners of its fields, for [`restore`](Self::restore).
    pub fn save(&self, kind: &str, namespace: &str, name: &str) -> Saved {
        let id = Id::new(kind, namespace, name);
        self.state.borrow().store.save(id)
    }

    /// Makes an object again what it was when it was saved: an object that did not exist is removed.
    pub fn restore(&self, saved: Saved) {
        self.state.borrow_mut().store.restore(saved);
    }

    /// Numbers the UIDs of objects that are created later from here on, so that they differ from those of adopted ones.
    pub fn skip_uids(&self, number: u64) {
        self.state.borrow_mut().store.skip_uids(number);
    }

    /// Makes the resource versions of later writes greater than this one.
    pub fn skip_versions(&self, version: u64) {
        self.state.borrow_mut().store.skip_versions(version);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::prelude::*;
    use crate::testing::Cluster;
    use crate::write::Write;

    const KIND: &str = "v1/ConfigMap";

    fn map() -> Value {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:team": {}}, "f:finalizers": {".": {}, "v:\"a/b\"": {}}},
            "f:data": {".": {}, "f:a": {}, "f:b": {}},
        });
        let managed = json!([{"manager": "operator", "operation": "Apply", "fieldsV1": fields}]);
        let metadata = json!({
            "name": "m", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"team": "x"},
            "finalizers": ["a/b"], "managedFields": managed,
        });
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1", "b": "2", "c": "3"}})
    }

    fn apply(cluster: &Cluster, manager: &str, body: &Value) -> bool {
        let applied = Write::patch(KIND, "n", "m", PatchType::Apply, body);
        cluster.host().write(applied.field_manager(manager)).is_ok()
    }

    #[test]
    fn the_managers_of_an_adopted_object_own_its_fields() {
        let cluster = Cluster::new();
        cluster.skip_versions(1000);
        cluster.adopt(map());
        let object = || cluster.object(KIND, "n", "m").expect("it exists");
        assert!(object()["metadata"].get("managedFields").is_none());
        assert_eq!(object()["metadata"]["resourceVersion"], "7");
        // The field belongs to the operator.
        assert!(!apply(&cluster, "other", &json!({"data": {"a": "9"}})));
        assert!(apply(&cluster, "operator", &json!({"data": {"a": "2"}})));
        let (now, metadata) = (object(), &object()["metadata"]);
        // What the operator no longer applies is removed, and what nobody owned stays.
        assert_eq!(now["data"], json!({"a": "2", "c": "3"}));
        assert!(metadata.get("labels").is_none() && metadata.get("finalizers").is_none());
        assert_eq!(metadata["resourceVersion"], "1001");
    }

    #[test]
    fn a_restored_object_has_its_fields_and_owners_of_before() {
        let cluster = Cluster::new();
        cluster.adopt(map());
        let (saved, absent) = (cluster.save(KIND, "n", "m"), cluster.save(KIND, "n", "x"));
        assert!(apply(&cluster, "operator", &json!({"data": {"a": "2"}})));
        cluster.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "n"}}));
        cluster.restore(saved);
        cluster.restore(absent);
        assert_eq!(cluster.object(KIND, "n", "x"), None);
        assert_eq!(
            cluster.object(KIND, "n", "m").expect("it exists")["data"]["b"],
            "2"
        );
        assert!(apply(&cluster, "operator", &json!({"data": {"b": "2"}})));
        let data = cluster.object(KIND, "n", "m").expect("it exists")["data"].clone();
        assert_eq!(data, json!({"b": "2", "c": "3"}));
    }
}
