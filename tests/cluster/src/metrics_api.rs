//! A server of the three metrics APIs, registered with the aggregator. It reads its values from the ConfigMap `metrics`
//! in the requested namespace, so that a test sets them like any object.
//!
//! | key of the ConfigMap | value, as JSON |
//! |---|---|
//! | `resource` | usage by pod and container: `{"*": {"app": {"cpu": "100m"}}, "web-1": null}`; `*` for other pods, null for none |
//! | `pods.METRIC` | a quantity by pod, as above |
//! | `object.RESOURCE.NAME.METRIC` | a list of quantities |
//! | `namespace.METRIC` | a list of quantities, of the namespace itself |
//! | `external.METRIC` | a list of quantities |
//! | `answer.KEY` | a status code and plain text, as of a proxy: `503 service unavailable`. Requests for KEY get this answer |
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

/// The groups and versions, those that the API server prefers first. No controller knows the version `v1beta3`.
const VERSIONS: [(&str, &str); 5] = [
    ("metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta2"),
    ("custom.metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta3"),
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
            let answer = respond(&client, uri.path(), query).await;
            let answer = answer
                .unwrap_or_else(|error| Answer::refusal(500, "InternalError", &error.to_string()));
            let response = Response::builder()
                .status(answer.code)
                .header("Content-Type", answer.content_type)
                .body(Full::new(Bytes::from(answer.body)));
            Ok::<_, std::convert::Infallible>(response.expect("a valid response"))
        }
    });
    let served = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    served.map_err(anyhow::Error::from_boxed)
}

/// A response.
struct Answer {
    code: u16,
    content_type: &'static str,
    body: String,
}

impl Answer {
    fn json(code: u16, body: &Value) -> Self {
        Self {
            code,
            content_type: "application/json",
            body: body.to_string(),
        }
    }

    fn refusal(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure",
            "code": code, "reason": reason, "message": message,
        });
        Self::json(code, &status)
    }

    fn not_found() -> Self {
        Self::refusal(404, "NotFound", "the metric does not exist")
    }

    /// Parses a status code and a text.
    fn plain(text: &str) -> Result<Self> {
        let (code, body) = text
            .split_once(' ')
            .with_context(|| format!("`{text}` is not a status code and a text"))?;
        let code = code
            .parse()
            .with_context(|| format!("`{text}` does not begin with a status code"))?;
        Ok(Self {
            code,
            content_type: "text/plain; charset=utf-8",
            body: body.to_owned(),
        })
    }
}

/// Returns the response to a GET.
async fn respond(client: &Client, path: &str, query: &str) -> Result<Answer> {
    let decoded = decode(path);
    let segments: Vec<&str> = decoded.split('/').skip(1).collect();
    let (group, version, namespace, rest) = match segments[..] {
        ["apis", group, version] => {
            let found = resources(group, version);
            return Ok(found.map_or_else(Answer::not_found, |found| Answer::json(200, &found)));
        }
        [
            "apis",
            group,
            version,
            "namespaces",
            namespace,
            ref rest @ ..,
        ] => (group, version, namespace, rest),
        _ => return Ok(Answer::not_found()),
    };
    let key = match (group, rest) {
        ("metrics.k8s.io", ["pods"]) => "resource".to_owned(),
        ("custom.metrics.k8s.io", ["pods", "*", metric]) => format!("pods.{metric}"),
        ("custom.metrics.k8s.io", ["metrics", metric]) => format!("namespace.{metric}"),
        ("custom.metrics.k8s.io", [resource, name, metric]) => {
            format!("object.{resource}.{name}.{metric}")
        }
        ("external.metrics.k8s.io", [metric]) => format!("external.{metric}"),
        _ => return Ok(Answer::not_found()),
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let key = key.replace(|c: char| !is_allowed(c), "_");
    let values: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let Some(values) = values.get_opt(VALUES).await? else {
        return Ok(Answer::not_found());
    };
    let values = values.data.unwrap_or_default();
    if let Some(message) = values.get("error") {
        bail!("{message}");
    }
    if let Some(answer) = values.get(&format!("answer.{key}")) {
        return Answer::plain(answer);
    }
    let value = match values.get(&key) {
        Some(text) => serde_json::from_str(text)?,
        None if key == "resource" => json!({}),
        None => return Ok(Answer::not_found()),
    };
    let items = match rest {
        ["pods"] => {
            let pods = pods(client, namespace, query).await?;
            pods.iter()
                .filter_map(|pod| pod_usage(pod, &value))
                .collect()
        }
        ["pods", "*", metric] => {
            let pods = pods(client, namespace, query).await?;
            let item = |pod: &String| {
                let value = of_pod(&value, pod)?;
                Some(custom(version, "Pod", pod, metric, value))
            };
            pods.iter().filter_map(item).collect()
        }
        ["metrics", metric] => values_of(&value)
            .map(|value| custom(version, "Namespace", namespace, metric, value))
            .collect(),
        [resource, name, metric] => values_of(&value)
            .map(|value| custom(version, resource, name, metric, value))
            .collect(),
        [metric] => values_of(&value)
            .map(|value| json!({"metricName": metric, "metricLabels": {}, "timestamp": now(), "value": value}))
            .collect(),
        _ => Vec::new(),
    };
    Ok(Answer::json(200, &list(group, version, items)))
}

/// The values of a metric that is not of pods.
fn values_of(values: &Value) -> impl Iterator<Item = &Value> {
    values.as_array().into_iter().flatten()
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
