//! Reads metrics from the three metrics APIs.
//!
//! Upstream: pkg/controller/podautoscaler/metrics/client.go: GetResourceMetric, getContainerMetrics, getPodMetrics,
//! GetRawMetric, GetObjectMetric, GetExternalMetric.

use std::time::Duration;

use flyball_sdk::LabelSelector;
use flyball_sdk::live::push_parameter;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::calculator::{PodMetric, PodMetrics};
use crate::failure;
use crate::resources::{self, Resource, push_segments};
use crate::views::{ObjectName, Resources};

/// The group of custom metrics.
pub const CUSTOM: &str = "custom.metrics.k8s.io";
/// The group of external metrics.
pub const EXTERNAL: &str = "external.metrics.k8s.io";
/// The group of resource metrics.
pub const RESOURCE: &str = "metrics.k8s.io";
/// The versions of custom metrics that are understood, the newest first.
const CUSTOM_VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// How long the version of custom metrics is reused.
const VERSION_PERIOD: Duration = Duration::from_secs(15);
/// The window of a custom metric that names none.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct List<T> {
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodUsage {
    metadata: Named,
    timestamp: Option<Time>,
    /// A duration as Go prints it: `30s`.
    window: String,
    #[serde(deserialize_with = "null_is_default")]
    containers: Vec<ContainerUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerUsage {
    name: String,
    #[serde(deserialize_with = "null_is_default")]
    usage: Resources,
}

/// A value of a custom metric in either version.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CustomValue {
    described_object: Named,
    timestamp: Option<Time>,
    /// The window in v1beta2.
    window_seconds: Option<i64>,
    /// The window in v1beta1.
    window: Option<i64>,
    value: Quantity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ExternalValue {
    value: Quantity,
}

/// Reads the usage of a resource by pods: by one container of each pod, or by all if the name is empty. Pods that don't
/// report the resource are left out.
///
/// # Errors
/// The request failed, or there is no value.
pub fn resource(
    host: &Host,
    namespace: &str,
    pods: &LabelSelector,
    resource: &str,
    container: &str,
) -> Result<PodMetrics, String> {
    let mut path = format!("/apis/{RESOURCE}/v1beta1/namespaces");
    push_segments(&mut path, &[namespace, "pods"]);
    push_parameter(&mut path, "labelSelector", &pods.to_string());
    let items = read_list::<PodUsage>(host, &path, &format!("pods.{RESOURCE}"), "");
    let items = items
        .map_err(|error| format!("unable to fetch metrics from resource metrics API: {error}"))?;
    if items.is_empty() {
        return Err("no metrics returned from resource metrics API".to_owned());
    }
    let metric = |pod: PodUsage| {
        let value = usage(&pod.containers, resource, container)?;
        let metric = PodMetric {
            timestamp: pod.timestamp.unwrap_or_default(),
            window: flyball_sdk::duration::parse(&pod.window).unwrap_or_default(),
            value,
        };
        Some((pod.metadata.name, metric))
    };
    Ok(items.into_iter().filter_map(metric).collect())
}

/// The usage of a container, or of all; `None` if one of them reports nothing.
fn usage(containers: &[ContainerUsage], resource: &str, container: &str) -> Option<i64> {
    let of = |own: &ContainerUsage| own.usage.get(resource).map(|usage| usage.millis());
    if !container.is_empty() {
        return of(containers.iter().find(|own| own.name == container)?);
    }
    if containers.is_empty() {
        return None;
    }
    containers
        .iter()
        .try_fold(0i64, |sum, own| Some(sum.wrapping_add(of(own)?)))
}

/// Reads a metric of each pod.
///
/// # Errors
/// The request failed, or there is no value.
pub fn of_pods(
    host: &Host,
    namespace: &str,
    pods: &LabelSelector,
    metric: &str,
    series: &str,
) -> Result<PodMetrics, String> {
    let read = || {
        let version = custom_version(host)?;
        let resource = custom_resource(host, "", "Pod")?;
        let mut path = format!("/apis/{CUSTOM}/{version}/namespaces");
        push_segments(&mut path, &[namespace, &resource, "*", metric]);
        push_parameter(&mut path, "labelSelector", &pods.to_string());
        push_parameter(&mut path, "metricLabelSelector", series);
        read_list::<CustomValue>(host, &path, &format!("{resource}.{CUSTOM}"), "*")
    };
    let items = read()
        .map_err(|error| format!("unable to fetch metrics from custom metrics API: {error}"))?;
    if items.is_empty() {
        return Err("no metrics returned from custom metrics API".to_owned());
    }
    let metric = |value: CustomValue| {
        let window = value.window_seconds.or(value.window);
        let metric = PodMetric {
            timestamp: value.timestamp.unwrap_or_default(),
            window: window.map_or(DEFAULT_WINDOW, |seconds| {
                Duration::from_secs(seconds.max(0).unsigned_abs())
            }),
            value: value.value.millis(),
        };
        (value.described_object.name, metric)
    };
    Ok(items.into_iter().map(metric).collect())
}

/// Reads a metric of an object, in thousandths. An object of the kind `Namespace` is always the autoscaler's own
/// namespace; its name is ignored.
///
/// # Errors
/// The request failed, or there is not exactly one value.
pub fn of_object(
    host: &Host,
    namespace: &str,
    object: &ObjectName,
    metric: &str,
    series: &str,
) -> Result<i64, String> {
    let read = || {
        let version = custom_version(host)?;
        let mut path = format!("/apis/{CUSTOM}/{version}/namespaces");
        // An invalid version has no group either, as in client-go.
        let group = resources::group_of(&object.api_version).unwrap_or_default();
        let (resource, name) = if (group, object.kind.as_str()) == ("", "Namespace") {
            push_segments(&mut path, &[namespace, "metrics", metric]);
            ("metrics".to_owned(), metric)
        } else {
            let resource = custom_resource(host, group, &object.kind)?;
            push_segments(&mut path, &[namespace, &resource, &object.name, metric]);
            (resource, object.name.as_str())
        };
        push_parameter(&mut path, "metricLabelSelector", series);
        let found = read_list::<CustomValue>(host, &path, &format!("{resource}.{CUSTOM}"), name)?;
        match <[CustomValue; 1]>::try_from(found) {
            Ok([value]) => Ok(value.value.millis()),
            Err(other) => Err(format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                other.len()
            )),
        }
    };
    read().map_err(|error| format!("unable to fetch metrics from custom metrics API: {error}"))
}

/// Reads the values of an external metric, in thousandths.
///
/// # Errors
/// The request failed, or there is no value.
pub fn external(
    host: &Host,
    namespace: &str,
    metric: &str,
    series: &str,
) -> Result<Vec<i64>, String> {
    let mut path = format!("/apis/{EXTERNAL}/v1beta1/namespaces");
    push_segments(&mut path, &[namespace, metric]);
    push_parameter(&mut path, "labelSelector", series);
    let items = read_list::<ExternalValue>(host, &path, &format!("{metric}.{EXTERNAL}"), "");
    let items = items
        .map_err(|error| format!("unable to fetch metrics from external metrics API: {error}"))?;
    if items.is_empty() {
        return Err("no metrics returned from external metrics API".to_owned());
    }
    Ok(items.iter().map(|item| item.value.millis()).collect())
}

/// The name of a kind's resource in paths of custom metrics: `deployments.apps`.
fn custom_resource(host: &Host, group: &str, kind: &str) -> Result<String, String> {
    let found = resources::of_kind(host, group, kind);
    let found = found.map_err(|error| {
        let dot = if group.is_empty() { "" } else { "." };
        let error = error.message();
        format!("unable to map kind {kind}{dot}{group} to resource: {error}")
    })?;
    Ok(found.first().map(Resource::qualified).unwrap_or_default())
}

/// The group of custom metrics as the server describes it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ApiGroup {
    preferred_version: ApiVersion,
    versions: Vec<ApiVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ApiVersion {
    version: String,
}

/// Returns the version in which custom metrics are read: the server's preferred one, or else the first one that is
/// understood. It is reused for a while.
fn custom_version(host: &Host) -> Result<String, String> {
    const KEY: &str = "custom-metrics-version";
    if let Some(known) = host.memo().get(KEY) {
        return Ok(known);
    }
    let version = discover_custom_version(host)?;
    // If the memo is full, the version is read again.
    let _ = host.memo().put(KEY, &version, "", VERSION_PERIOD);
    Ok(version)
}

fn discover_custom_version(host: &Host) -> Result<String, String> {
    let path = format!("/apis/{CUSTOM}");
    let group: ApiGroup = match host.live().raw(&path) {
        Err(error) if error.api().is_some_and(ApiError::is_not_found) => {
            return Err(format!("no custom metrics API ({CUSTOM}) registered"));
        }
        found => found.map_err(|error| error.message())?,
    };
    let mut versions = std::iter::once(group.preferred_version).chain(group.versions);
    let known = versions.find(|own| CUSTOM_VERSIONS.contains(&own.version.as_str()));
    let known = known.ok_or("no known available metric versions found")?;
    Ok(known.version)
}

fn read_list<T: DeserializeOwned>(
    host: &Host,
    path: &str,
    resource: &str,
    name: &str,
) -> Result<Vec<T>, String> {
    let list: Result<List<T>, _> = host.live().raw(path);
    list.map(|list| list.items.unwrap_or_default())
        .map_err(|error| failure::of_read(&error, resource, name))
}
