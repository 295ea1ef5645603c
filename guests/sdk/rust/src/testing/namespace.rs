//! Special rules of Namespaces: their spec has finalizers, which only the subresource `finalize`
//! changes, and their phase tells whether they are being deleted (Kubernetes's
//! `pkg/registry/core/namespace`).

use serde_json::Value;

use super::store::Id;

const KIND: &str = "v1/Namespace";

/// Whether finalizers in the spec keep a namespace that is being deleted.
pub(super) fn is_held(id: &Id, object: &Value) -> bool {
    let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array);
    id.kind == KIND && finalizers.is_some_and(|all| !all.is_empty())
}

/// Sets the phase of a namespace whose deletion begins.
pub(super) fn terminate(id: &Id, object: &mut Value) {
    if id.kind == KIND {
        object["status"]["phase"] = "Terminating".into();
    }
}

/// Reverts changes of a namespace's finalizers, unless the write goes to `finalize`.
pub(super) fn keep_finalizers(id: &Id, subresource: &str, old: &Value, new: &mut Value) {
    if id.kind == KIND
        && subresource != "finalize"
        && let Some(finalizers) = old.pointer("/spec/finalizers")
    {
        new["spec"]["finalizers"] = finalizers.clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::meta::Meta;
    use crate::testing::Cluster;
    use crate::write::Write;

    #[test]
    fn only_finalize_removes_a_namespaces_finalizers() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"},
                               "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let cluster = Cluster::with([namespace]);
        let host = cluster.host();
        let object = || cluster.object("v1/Namespace", "", "a");
        let meta =
            || serde_json::from_value::<Meta>(object().unwrap()["metadata"].clone()).unwrap();
        host.delete("v1/Namespace", &meta()).unwrap();
        assert_eq!(object().unwrap()["status"]["phase"], "Terminating");
        let change = json!({"spec": {"finalizers": []}, "metadata": {"labels": {"a": "b"}}});
        host.update("v1/Namespace", &meta(), &change).unwrap();
        assert_eq!(
            object().unwrap()["spec"]["finalizers"],
            json!(["kubernetes"])
        );
        host.write(Write::update("v1/Namespace", &meta(), &change).on("finalize"))
            .unwrap();
        assert_eq!(object(), None);
    }
}
