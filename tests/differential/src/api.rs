//! The API server as scenarios need it: any kind, and objects as JSON.

use anyhow::{Context, Result, bail};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

/// The path of a kind's objects, in a namespace if it has such.
///
/// # Errors
/// No scenario has needed the kind yet, so it isn't known.
pub fn path(kind: &str, namespace: &str) -> Result<String> {
    let (group, plural) = match kind {
        "Deployment" => ("apis/apps/v1", "deployments"),
        "ReplicaSet" => ("apis/apps/v1", "replicasets"),
        "Pod" => ("api/v1", "pods"),
        "ReplicationController" => ("api/v1", "replicationcontrollers"),
        "ConfigMap" => ("api/v1", "configmaps"),
        "Job" => ("apis/batch/v1", "jobs"),
        "Event" => ("api/v1", "events"),
        "ServiceAccount" => ("api/v1", "serviceaccounts"),
        "Namespace" => return Ok("/api/v1/namespaces".into()),
        "Node" => return Ok("/api/v1/nodes".into()),
        _ => bail!("the kind {kind} isn't known here: add its path"),
    };
    Ok(format!("/{group}/namespaces/{namespace}/{plural}"))
}

/// All objects of a kind, in the order of their names.
///
/// # Errors
/// The API server didn't answer a list.
pub async fn list(client: &Client, kind: &str, namespace: &str) -> Result<Vec<Value>> {
    let path = path(kind, namespace)?;
    let mut list: Value = send(client, "GET", &path, None).await?;
    let Value::Array(items) = list["items"].take() else { bail!("{path} answered no list") };
    Ok(items)
}

/// Creates an object.
///
/// # Errors
/// It wasn't created.
pub async fn create(client: &Client, namespace: &str, object: &Value) -> Result<()> {
    let kind = object["kind"].as_str().context("an object has no kind")?;
    send(client, "POST", &path(kind, namespace)?, Some(object)).await.map(drop)
}

/// Changes an object by a merge patch.
///
/// # Errors
/// It wasn't changed.
pub async fn patch(client: &Client, kind: &str, namespace: &str, name: &str, patch: &Value) -> Result<()> {
    let path = format!("{}/{name}", path(kind, namespace)?);
    send(client, "PATCH", &path, Some(patch)).await.map(drop)
}

/// Deletes an object; its dependents are nobody's concern where no garbage collector runs.
///
/// # Errors
/// It wasn't deleted.
pub async fn delete(client: &Client, kind: &str, namespace: &str, name: &str) -> Result<()> {
    let path = format!("{}/{name}", path(kind, namespace)?);
    send(client, "DELETE", &path, Some(&json!({"propagationPolicy": "Background"}))).await.map(drop)
}

async fn send(client: &Client, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, content);
    let request = request.body(body.into_bytes()).with_context(|| format!("can't ask {method} {path}"))?;
    client.request(request).await.with_context(|| format!("{method} {path} failed"))
}
