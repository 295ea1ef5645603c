//! A server of the three metrics APIs, registered with the aggregator. It reads its values from the ConfigMap `metrics`
//! in the requested namespace, so that a test sets them like any object.
//!
//! | key of the ConfigMap | value, as JSON |
//! |---|---|
//! | `resource` | usage by pod and container: `{"*": {"app": {"cpu": "100m"}}, "web-1": null}`; `*` for other pods, null for none |
//! | `pods.METRIC` | a quantity by pod, as above |
//! | `object.RESOURCE.NAME.METRIC` | a list of quantities |
//! | `external.METRIC` | a list of quantities |
//! | `error` | a message: each request fails with 500 |
//!
//! In keys, `_` stands for characters that a ConfigMap does not allow. A metric that the ConfigMap does not name is not
//! found.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Map, Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::{Cluster, until};

/// The groups and versions, those that the API server prefers first.
const VERSIONS: [(&str, &str); 4] = [
    ("metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta2"),
    ("custom.metrics.k8s.io", "v1beta1"),
    ("external.metrics.k8s.io", "v1beta1"),
];
/// The ConfigMap with the values.
const VALUES: &str = "metrics";

/// A running server. Dropping it stops it.
pub struct MetricsApi(JoinHandle<()>);

impl MetricsApi {
    /// Starts a server, and waits until the API server routes the groups to it.
    ///
    /// # Errors
    /// It can't be registered, or does not become available.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("can't listen on 127.0.0.1")?;
        let port = listener.local_addr()?.port();
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])
            .context("can't generate a certificate")?;
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der())
            .map_err(anyhow::Error::msg)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let client = cluster.client.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, client) = (acceptor.clone(), client.clone());
                tokio::spawn(async move { serve(stream, &acceptor, client).await.ok() });
            }
        });
        let this = Self(task);
        register(cluster, port).await?;
        Ok(this)
    }
}

impl Drop for MetricsApi {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Registers the groups. Without a network of services, the API server reaches the server by an external name.
async fn register(cluster: &Cluster, port: u16) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "metrics", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let of_version = |(index, (group, version)): (usize, &(&str, &str))| {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group, "version": version, "insecureSkipTLSVerify": true,
                "groupPriorityMinimum": 100, "versionPriority": 100 - index,
                "service": {"name": "metrics", "namespace": "default", "port": port},
            },
        })
    };
    let versions = VERSIONS.iter().enumerate().map(of_version);
    let items: Vec<Value> = std::iter::once(service).chain(versions).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.apply(&list.to_string()).await?;
    for (group, version) in VERSIONS {
        let name = format!("{version}.{group}");
        until(&format!("{name} is available"), async || {
            let path = format!("/apis/{group}/{version}");
            let request = hyper::Request::get(path).body(Vec::new())?;
            Ok(cluster
                .client
                .request::<Value>(request)
                .await
                .map(drop)
                .map_err(|error| error.to_string()))
        })
        .await?;
    }
    Ok(())
}

async fn serve(stream: TcpStream, acceptor: &TlsAcceptor, client: Client) -> Result<()> {
    let stream = acceptor.accept(stream).await?;
    let service = service_fn(move |request: Request<Incoming>| {
        let client = client.clone();
        async move {
            let uri = request.uri();
            let query = uri.query().unwrap_or_default();
            let (code, body) = match respond(&client, uri.path(), query).await {
                Ok(Some(body)) => (200, body),
                Ok(None) => (404, refusal(404, "NotFound", "the metric does not exist")),
                Err(error) => (500, refusal(500, "InternalError", &error.to_string())),
            };
            let response = Response::builder()
                .status(code)
                .header("Content-Type", "application/json")
                .body(Full::new(Bytes::from(body.to_string())));
            Ok::<_, std::convert::Infallible>(response.expect("a valid response"))
        }
    });
    let served = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    served.map_err(anyhow::Error::from_boxed)
}

fn refusal(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}

/// Returns the response to a GET; `None` if the path doesn't exist.
async fn respond(client: &Client, path: &str, query: &str) -> Result<Option<Value>> {
    let decoded = decode(path);
    let segments: Vec<&str> = decoded.split('/').skip(1).collect();
    match segments[..] {
        ["apis", group, version] => Ok(resources(group, version)),
        [
            "apis",
            group,
            version,
            "namespaces",
            namespace,
            ref rest @ ..,
        ] => {
            let values: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
            let Some(values) = values.get_opt(VALUES).await? else {
                return Ok(None);
            };
            let values = values.data.unwrap_or_default();
            if let Some(message) = values.get("error") {
                bail!("{message}");
            }
            let value = |key: String| -> Result<Option<Value>> {
                let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
                let key = key.replace(|c: char| !is_allowed(c), "_");
                let text = values.get(&key);
                Ok(text.map(|text| serde_json::from_str(text)).transpose()?)
            };
            let items = match (group, rest) {
                ("metrics.k8s.io", ["pods"]) => {
                    let Some(usage) = value("resource".into())? else {
                        return Ok(Some(list(group, version, Vec::new())));
                    };
                    let pods = pods(client, namespace, query).await?;
                    pods.iter()
                        .filter_map(|pod| pod_usage(pod, &usage))
                        .collect()
                }
                ("custom.metrics.k8s.io", ["pods", "*", metric]) => {
                    let Some(by_pod) = value(format!("pods.{metric}"))? else {
                        return Ok(None);
                    };
                    let pods = pods(client, namespace, query).await?;
                    let item = |pod: &String| {
                        let value = of_pod(&by_pod, pod)?;
                        Some(custom(version, "Pod", pod, metric, value))
                    };
                    pods.iter().filter_map(item).collect()
                }
                ("custom.metrics.k8s.io", [resource, name, metric]) => {
                    let Some(found) = value(format!("object.{resource}.{name}.{metric}"))? else {
                        return Ok(None);
                    };
                    let found = found.as_array().cloned().unwrap_or_default();
                    let item = |value: &Value| custom(version, resource, name, metric, value);
                    found.iter().map(item).collect()
                }
                ("external.metrics.k8s.io", [metric]) => {
                    let Some(found) = value(format!("external.{metric}"))? else {
                        return Ok(None);
                    };
                    let found = found.as_array().cloned().unwrap_or_default();
                    let item = |value: &Value| json!({"metricName": metric, "metricLabels": {}, "timestamp": now(), "value": value});
                    found.iter().map(item).collect()
                }
                _ => return Ok(None),
            };
            Ok(Some(list(group, version, items)))
        }
        _ => Ok(None),
    }
}

fn resources(group: &str, version: &str) -> Option<Value> {
    VERSIONS.contains(&(group, version)).then_some(())?;
    let resources = match group {
        "metrics.k8s.io" => json!([
            {"name": "pods", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"], "singularName": ""}
        ]),
        _ => json!([]),
    };
    Some(json!({
        "apiVersion": "v1", "kind": "APIResourceList",
        "groupVersion": format!("{group}/{version}"), "resources": resources,
    }))
}

fn list(group: &str, version: &str, items: Vec<Value>) -> Value {
    let kind = match group {
        "metrics.k8s.io" => "PodMetricsList",
        "custom.metrics.k8s.io" => "MetricValueList",
        _ => "ExternalMetricValueList",
    };
    json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": {}, "items": items})
}

/// The names of the pods that the query selects.
async fn pods(client: &Client, namespace: &str, query: &str) -> Result<Vec<String>> {
    let selector = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("labelSelector="));
    let selector = decode(selector.unwrap_or_default());
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = api.list(&ListParams::default().labels(&selector)).await?;
    Ok(pods.iter().map(ResourceExt::name_any).collect())
}

fn of_pod<'a>(by_pod: &'a Value, pod: &str) -> Option<&'a Value> {
    by_pod
        .get(pod)
        .or_else(|| by_pod.get("*"))
        .filter(|value| !value.is_null())
}

fn pod_usage(pod: &str, usage: &Value) -> Option<Value> {
    let empty = Map::new();
    let containers = of_pod(usage, pod)?.as_object().unwrap_or(&empty);
    let containers: Vec<Value> = containers
        .iter()
        .map(|(name, usage)| json!({"name": name, "usage": usage}))
        .collect();
    Some(json!({
        "metadata": {"name": pod}, "timestamp": now(), "window": "0s", "containers": containers,
    }))
}

fn custom(version: &str, kind: &str, name: &str, metric: &str, value: &Value) -> Value {
    let mut item = json!({
        "describedObject": {"kind": kind, "name": name}, "timestamp": now(), "value": value,
    });
    if version == "v1beta1" {
        item["metricName"] = metric.into();
    } else {
        item["metric"] = json!({"name": metric});
    }
    item
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Decodes the escapes of a path or of a parameter.
fn decode(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes: Vec<u8> = parts.next().unwrap_or_default().bytes().collect();
    for part in parts {
        let digits = part
            .get(..2)
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        match digits {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(part[2..].bytes());
            }
            None => bytes.extend(part.bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).replace('+', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_its_own_value_or_that_of_all() {
        let values = json!({"*": "1", "a": "2", "b": null});
        let of = |pod| of_pod(&values, pod).and_then(Value::as_str);
        assert_eq!([of("a"), of("b"), of("c")], [Some("2"), None, Some("1")]);
    }

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(decode("a%3Db%2Cc+in+%28d%29%"), "a=b,c in (d)");
        assert_eq!(decode("sqs%7Cdepth"), "sqs|depth");
    }
}
