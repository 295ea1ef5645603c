//! The response to a delete, and the object that it is about.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::{pod, reading_plugin, status};

#[tokio::test(start_paused = true)]
async fn a_new_object_of_the_name_is_not_hidden_by_the_deletion_of_the_old_one() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    server.put("a", "x", pod(json!({})));
    let old = server.delete("a", "x").unwrap();
    server.put("a", "x", pod(json!({})));
    sleep(Duration::from_millis(1)).await;
    plugin.deleted("x", &status(&old));
    assert_eq!(plugin.contents(), ["a/x=103"]);
}

#[tokio::test(start_paused = true)]
async fn a_response_without_a_uid_is_about_the_object_of_the_name_and_namespace() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    server.inner().holding = true;
    for (namespace, name) in [("a", "x"), ("a", "y"), ("b", "x")] {
        plugin.wrote(&server.put(namespace, name, pod(json!({}))));
    }
    server.delete("a", "x").unwrap();
    plugin.deleted("x", &status(""));
    assert_eq!(plugin.contents(), ["a/y=102", "b/x=103"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_returned_without_a_deletion_timestamp_is_deleted() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    server.inner().holding = true;
    let object = server.put("a", "x", pod(json!({})));
    plugin.wrote(&object);
    plugin.deleted("x", &object);
    assert!(plugin.contents().is_empty());
}

#[tokio::test(start_paused = true)]
async fn metadata_without_finalizers_is_that_of_a_deleted_object() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    server.inner().holding = true;
    let mut object = server.put("a", "x", pod(json!({})));
    plugin.wrote(&object);
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object["apiVersion"] = "meta.k8s.io/v1".into();
    object["kind"] = "PartialObjectMetadata".into();
    plugin.deleted("x", &object);
    assert!(plugin.contents().is_empty());
}
