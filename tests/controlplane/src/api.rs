//! A client of the API server for scenarios: any kind, with objects as JSON.

use anyhow::{Context, Result, bail};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::release::Release;

/// The namespaced kinds of the current release, with the paths of their group versions and their plurals.
const NAMESPACED: &[(&str, &str, &str)] = &[
    ("ConfigMap", "api/v1", "configmaps"),
    ("ControllerRevision", "apis/apps/v1", "controllerrevisions"),
    ("CronJob", "apis/batch/v1", "cronjobs"),
    ("DaemonSet", "apis/apps/v1", "daemonsets"),
    ("Deployment", "apis/apps/v1", "deployments"),
    (
        "EndpointSlice",
        "apis/discovery.k8s.io/v1",
        "endpointslices",
    ),
    ("Endpoints", "api/v1", "endpoints"),
    ("Event", "api/v1", "events"),
    ("Eviction", "apis/lifecycle.k8s.io/v1alpha1", "evictions"),
    (
        "EvictionRequest",
        "apis/lifecycle.k8s.io/v1alpha1",
        "evictionrequests",
    ),
    (
        "HorizontalPodAutoscaler",
        "apis/autoscaling/v2",
        "horizontalpodautoscalers",
    ),
    ("Job", "apis/batch/v1", "jobs"),
    ("Lease", "apis/coordination.k8s.io/v1", "leases"),
    ("PersistentVolumeClaim", "api/v1", "persistentvolumeclaims"),
    ("Pod", "api/v1", "pods"),
    (
        "PodDisruptionBudget",
        "apis/policy/v1",
        "poddisruptionbudgets",
    ),
    (
        "PodCertificateRequest",
        "apis/certificates.k8s.io/v1",
        "podcertificaterequests",
    ),
    ("PodGroup", "apis/scheduling.k8s.io/v1beta1", "podgroups"),
    ("PodTemplate", "api/v1", "podtemplates"),
    ("ReplicaSet", "apis/apps/v1", "replicasets"),
    ("ReplicationController", "api/v1", "replicationcontrollers"),
    ("ResourceClaim", "apis/resource.k8s.io/v1", "resourceclaims"),
    (
        "ResourceClaimTemplate",
        "apis/resource.k8s.io/v1",
        "resourceclaimtemplates",
    ),
    ("ResourceQuota", "api/v1", "resourcequotas"),
    ("Secret", "api/v1", "secrets"),
    ("Service", "api/v1", "services"),
    ("ServiceAccount", "api/v1", "serviceaccounts"),
    ("StatefulSet", "apis/apps/v1", "statefulsets"),
    ("Workload", "apis/scheduling.k8s.io/v1beta1", "workloads"),
];
/// The cluster-scoped kinds.
const CLUSTER_SCOPED: &[(&str, &str, &str)] = &[
    (
        "APIService",
        "apis/apiregistration.k8s.io/v1",
        "apiservices",
    ),
    ("CSIDriver", "apis/storage.k8s.io/v1", "csidrivers"),
    (
        "CertificateSigningRequest",
        "apis/certificates.k8s.io/v1",
        "certificatesigningrequests",
    ),
    (
        "ClusterRole",
        "apis/rbac.authorization.k8s.io/v1",
        "clusterroles",
    ),
    (
        "ClusterRoleBinding",
        "apis/rbac.authorization.k8s.io/v1",
        "clusterrolebindings",
    ),
    (
        "ClusterTrustBundle",
        "apis/certificates.k8s.io/v1",
        "clustertrustbundles",
    ),
    (
        "CustomResourceDefinition",
        "apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
    ),
    ("DeviceClass", "apis/resource.k8s.io/v1", "deviceclasses"),
    (
        "DeviceTaintRule",
        "apis/resource.k8s.io/v1",
        "devicetaintrules",
    ),
    ("IPAddress", "apis/networking.k8s.io/v1", "ipaddresses"),
    ("Namespace", "api/v1", "namespaces"),
    ("Node", "api/v1", "nodes"),
    ("PersistentVolume", "api/v1", "persistentvolumes"),
    (
        "PriorityClass",
        "apis/scheduling.k8s.io/v1",
        "priorityclasses",
    ),
    (
        "ResourcePoolStatusRequest",
        "apis/resource.k8s.io/v1alpha3",
        "resourcepoolstatusrequests",
    ),
    ("ResourceSlice", "apis/resource.k8s.io/v1", "resourceslices"),
    ("ServiceCIDR", "apis/networking.k8s.io/v1", "servicecidrs"),
    ("StorageClass", "apis/storage.k8s.io/v1", "storageclasses"),
    (
        "StorageVersion",
        "apis/internal.apiserver.k8s.io/v1alpha1",
        "storageversions",
    ),
    (
        "StorageVersionMigration",
        "apis/storagemigration.k8s.io/v1",
        "storageversionmigrations",
    ),
    (
        "ValidatingAdmissionPolicy",
        "apis/admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
    ),
    (
        "ValidatingAdmissionPolicyBinding",
        "apis/admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
    ),
    (
        "ValidatingWebhookConfiguration",
        "apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
    ),
    (
        "VolumeAttachment",
        "apis/storage.k8s.io/v1",
        "volumeattachments",
    ),
    (
        "VolumeAttributesClass",
        "apis/storage.k8s.io/v1",
        "volumeattributesclasses",
    ),
];

/// The path of a kind's objects, in a namespace if the kind is namespaced. A custom kind has its version and group, as
/// in `Widget.v1.example.com`. It must be namespaced, and its plural must be the lower-case kind with an s.
///
/// # Errors
/// The kind is missing from the tables of this module.
pub fn path(kind: &str, namespace: &str) -> Result<String> {
    let find = |kinds: &'static [(&str, &str, &str)]| kinds.iter().find(|(name, ..)| *name == kind);
    let release = Release::chosen()?;
    let root = |path: &str| match path.strip_prefix("apis/") {
        Some(version) => format!("apis/{}", release.group_version(kind, version)),
        None => path.to_owned(),
    };
    if let Some((_, version, plural)) = find(NAMESPACED) {
        let root = root(version);
        return Ok(format!("/{root}/namespaces/{namespace}/{plural}"));
    }
    if let Some((_, version, plural)) = find(CLUSTER_SCOPED) {
        return Ok(format!("/{}/{plural}", root(version)));
    }
    let mut custom = kind.splitn(3, '.');
    if let (Some(name), Some(version), Some(group)) = (custom.next(), custom.next(), custom.next())
    {
        return Ok(format!(
            "/apis/{group}/{version}/namespaces/{namespace}/{}s",
            name.to_lowercase()
        ));
    }
    bail!("the kind {kind} is unknown: add its path to tests/controlplane/src/api.rs")
}

/// The plural of a kind, with which its path ends.
///
/// # Errors
/// Fails as [`path`] does.
pub fn plural(kind: &str) -> Result<String> {
    let path = path(kind, "")?;
    Ok(path.rsplit('/').next().unwrap_or_default().to_owned())
}

pub fn is_namespaced(kind: &str) -> bool {
    CLUSTER_SCOPED.iter().all(|(name, ..)| *name != kind)
}

/// The kind of an object, in the form that [`path`] accepts.
///
/// # Errors
/// The object lacks its kind or apiVersion.
pub fn kind_of(object: &Value) -> Result<String> {
    let kind = object["kind"].as_str().context("an object has no kind")?;
    let version = object["apiVersion"]
        .as_str()
        .with_context(|| format!("a {kind} has no apiVersion"))?;
    let is_known = NAMESPACED
        .iter()
        .chain(CLUSTER_SCOPED)
        .any(|(name, ..)| *name == kind);
    Ok(match version.split_once('/') {
        Some((group, version)) if !is_known => format!("{kind}.{version}.{group}"),
        _ => kind.to_owned(),
    })
}

/// The `apiVersion` of a kind.
///
/// # Errors
/// Fails as [`path`] does.
pub fn api_version(kind: &str) -> Result<String> {
    let path = path(kind, "")?;
    let (version, _) = path
        .split_once("/namespaces/")
        .or_else(|| path.rsplit_once('/'))
        .context("a path has a version")?;
    let version = version
        .strip_prefix("/apis/")
        .or_else(|| version.strip_prefix("/api/"));
    Ok(version
        .context("a path begins with the API's root")?
        .to_owned())
}

/// All objects of a kind, sorted by name. Returns none if the kind is not served.
///
/// # Errors
/// Fails if the list fails.
pub async fn list(client: &Client, kind: &str, namespace: &str) -> Result<Vec<Value>> {
    let path = path(kind, namespace)?;
    let Some(mut list) = found(send(client, "GET", &path, None).await)? else {
        return Ok(Vec::new());
    };
    let Value::Array(items) = list["items"].take() else {
        bail!("the response to GET {path} is not a list")
    };
    Ok(items)
}

/// An object, if it exists.
///
/// # Errors
/// Fails if the read fails.
pub async fn get(
    client: &Client,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>> {
    let path = format!("{}/{name}", path(kind, namespace)?);
    found(send(client, "GET", &path, None).await)
}

/// Creates an object in its own namespace, or in the given one if it names none.
///
/// # Errors
/// The creation failed.
pub async fn create(client: &Client, namespace: &str, object: &Value) -> Result<Value> {
    let namespace = object["metadata"]["namespace"]
        .as_str()
        .unwrap_or(namespace);
    send(
        client,
        "POST",
        &path(&kind_of(object)?, namespace)?,
        Some(object),
    )
    .await
}

/// Lets the API server check whether an object could be created, and does not create it.
///
/// # Errors
/// The request is refused or fails.
pub async fn try_to_create(client: &Client, namespace: &str, object: &Value) -> Result<()> {
    let path = path(&kind_of(object)?, namespace)? + "?dryRun=All";
    let tried: Result<Value> = send(client, "POST", &path, Some(object)).await;
    tried.map(drop)
}

/// Creates an object as [`create`] does, as another user.
///
/// # Errors
/// The creation failed.
pub async fn create_as(
    client: &Client,
    user: &str,
    groups: &[String],
    namespace: &str,
    object: &Value,
) -> Result<()> {
    let path = path(&kind_of(object)?, namespace)?;
    let mut request = request("POST", &path).header("Impersonate-User", user);
    for group in groups {
        request = request.header("Impersonate-Group", group);
    }
    let body = object.to_string().into_bytes();
    let created: Result<Value, _> = client.request(request.body(body)?).await;
    created
        .map(drop)
        .with_context(|| format!("POST {path} as {user} failed"))
}

/// Whether the API server publishes the schema of a kind in OpenAPI.
///
/// # Errors
/// Fails if the read fails.
pub async fn publishes_schema(client: &Client, kind: &str) -> Result<bool> {
    let version = api_version(kind)?;
    let root = if version.contains('/') { "apis" } else { "api" };
    let path = format!("/openapi/v3/{root}/{version}");
    let document = found(send(client, "GET", &path, None).await)?.unwrap_or_default();
    let name = kind.split('.').next().unwrap_or_default();
    let is_of_kind = |schema: &Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|own| own["kind"] == name))
    };
    let schemas = document["components"]["schemas"].as_object();
    Ok(schemas.is_some_and(|schemas| schemas.values().any(is_of_kind)))
}

/// Changes an object by a merge patch.
///
/// # Errors
/// The patch failed.
pub async fn patch(
    client: &Client,
    kind: &str,
    namespace: &str,
    name: &str,
    patch: &Value,
) -> Result<()> {
    let path = format!("{}/{name}", path(kind, namespace)?);
    send(client, "PATCH", &path, Some(patch)).await.map(drop)
}

/// Changes a subresource of an object by a merge patch of the object.
///
/// # Errors
/// The patch failed.
pub async fn patch_on(
    client: &Client,
    kind: &str,
    namespace: &str,
    name: &str,
    subresource: &str,
    patch: &Value,
) -> Result<()> {
    let path = format!("{}/{name}/{subresource}", path(kind, namespace)?);
    send(client, "PATCH", &path, Some(patch)).await.map(drop)
}

/// Applies an object's status by server-side apply, as this manager of fields.
///
/// # Errors
/// The request failed, or another manager has one of the fields.
pub async fn apply_status(
    client: &Client,
    kind: &str,
    namespace: &str,
    name: &str,
    manager: &str,
    object: &Value,
) -> Result<()> {
    let path = path(kind, namespace)?;
    let path = format!("{path}/{name}/status?fieldManager={manager}");
    let request = Request::patch(&path)
        .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
        .body(object.to_string().into_bytes())
        .with_context(|| format!("can't build the request PATCH {path}"))?;
    let applied: Result<Value, _> = client.request(request).await;
    { applied.map(drop) }.with_context(|| format!("PATCH {path} failed"))
}

/// Deletes an object with background propagation.
///
/// # Errors
/// The deletion failed.
pub async fn delete(client: &Client, kind: &str, namespace: &str, name: &str) -> Result<()> {
    delete_with(
        client,
        kind,
        namespace,
        name,
        &json!({"propagationPolicy": "Background"}),
    )
    .await
}

/// Deletes an object with these options.
///
/// # Errors
/// The deletion failed.
pub async fn delete_with(
    client: &Client,
    kind: &str,
    namespace: &str,
    name: &str,
    options: &Value,
) -> Result<()> {
    let path = format!("{}/{name}", path(kind, namespace)?);
    send(client, "DELETE", &path, Some(options)).await.map(drop)
}

/// Whether a request failed with 404.
pub fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404)
}

/// Sends a request to the API server, and returns the body of the response.
///
/// # Errors
/// Fails if there is no response, or if the response is an error.
pub async fn send(
    client: &Client,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Value> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = request(method, path)
        .body(body.into_bytes())
        .with_context(|| format!("can't build the request {method} {path}"))?;
    client
        .request(request)
        .await
        .with_context(|| format!("{method} {path} failed"))
}

fn request(method: &str, path: &str) -> http::request::Builder {
    let content = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, content)
}

/// Whether a request failed because the user lacks a permission.
pub fn is_forbidden(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 403)
}

/// Whether a request failed because a ValidatingAdmissionPolicy denied it. The policy chooses the code.
pub fn is_denied_by_policy(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status))
        if status.message.contains("ValidatingAdmissionPolicy") && status.message.contains("denied request"))
}

/// Whether a request failed because an admission webhook could not be called.
pub fn lacks_webhook(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status))
        if status.code == 500 && status.message.contains("failed calling webhook"))
}

/// Whether a request failed because the object exists.
pub fn is_already_there(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.reason == "AlreadyExists")
}

/// Turns a 404 into `None`.
fn found(response: Result<Value>) -> Result<Option<Value>> {
    match response {
        Err(error) if is_not_found(&error) => Ok(None),
        response => response.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_path() {
        assert_eq!(path("Pod", "a").unwrap(), "/api/v1/namespaces/a/pods");
        assert_eq!(
            path("ClusterRole", "a").unwrap(),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        );
        assert_eq!(
            path("Widget.v1.b.example.com", "a").unwrap(),
            "/apis/b.example.com/v1/namespaces/a/widgets"
        );
        assert!(path("Widget", "a").is_err());
    }

    #[test]
    fn each_kind_has_its_version() {
        let versions = [
            "Pod",
            "CronJob",
            "Namespace",
            "ClusterRole",
            "Widget.v1.b.example.com",
        ]
        .map(|kind| api_version(kind).unwrap());
        assert_eq!(
            versions,
            [
                "v1",
                "batch/v1",
                "v1",
                "rbac.authorization.k8s.io/v1",
                "b.example.com/v1"
            ]
        );
    }

    #[test]
    fn the_kind_of_a_custom_object_has_its_version_and_group() {
        let kind = |version: &str, kind: &str| {
            kind_of(&json!({"apiVersion": version, "kind": kind})).unwrap()
        };
        assert_eq!(kind("apps/v1", "Deployment"), "Deployment");
        assert_eq!(
            kind("b.example.com/v1", "Widget"),
            "Widget.v1.b.example.com"
        );
    }
}
