//! Computes the replicas that a metric of an autoscaler asks for.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: computeReplicasForMetric, computeStatusForObjectMetric,
//! computeStatusForPodsMetric, computeStatusForResourceMetricGeneric, computeStatusForResourceMetric,
//! computeStatusForContainerResourceMetric, computeStatusForExternalMetric, tolerancesForHpa, buildQuantity.
//! Upstream: pkg/controller/podautoscaler/replica_calculator.go: GetMetricReplicas, GetObjectMetricReplicas,
//! GetObjectPerPodMetricReplicas, GetExternalMetricReplicas, GetExternalPerPodMetricReplicas.

use flyball_sdk::LabelSelector;
use flyball_sdk::prelude::*;
use flyball_sdk::quantity::Format;

use crate::calculator::{self, Grouped, PodMetrics, Tolerances};
use crate::pods;
use crate::settings::Settings;
use crate::sources;
use crate::views::{
    Autoscaler, Current, Identifier, MetricSource, MetricSpec, MetricStatus, MetricValue,
    ObjectName, Pod, ResourceSource, ResourceValue,
};

/// The inputs that all metrics of an autoscaler have in common.
pub struct Inputs<'a> {
    pub host: &'a Host<'a>,
    pub settings: &'a Settings,
    pub namespace: &'a str,
    /// The replicas that the target wants.
    pub wanted: i32,
    /// The replicas that the target has.
    pub existing: i32,
    pub selector: &'a LabelSelector,
    /// The pods of the selector.
    pub pods: &'a [Pod],
    pub tolerances: Tolerances,
    pub now: Time,
}

/// The replicas that a metric asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    pub replicas: i32,
    /// Describes the metric in conditions and events.
    pub metric: String,
    pub status: MetricStatus,
}

/// Why a metric yields nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The reason of the event and the condition.
    pub reason: &'static str,
    /// The message of the event. The message of the condition ends with it.
    pub message: String,
    /// The error with the metric that it is about.
    pub error: String,
    /// Whether the autoscaler itself is wrong.
    pub is_spec: bool,
}

/// The result for a metric before the metric is named in its errors.
type Computed = Result<Proposal, String>;

/// The tolerances of an autoscaler: its own, if the feature gate allows them, or else the flag's.
pub fn tolerances(autoscaler: &Autoscaler, settings: &Settings) -> Tolerances {
    let behavior = autoscaler.spec.behavior.as_ref();
    let behavior = behavior.filter(|_| settings.configurable_tolerance);
    let own = |tolerance: Option<Quantity>| tolerance.map_or(settings.tolerance, Quantity::as_f64);
    Tolerances {
        down: own(behavior.and_then(|own| own.scale_down.tolerance)),
        up: own(behavior.and_then(|own| own.scale_up.tolerance)),
    }
}

impl Inputs<'_> {
    /// Computes the replicas that a metric asks for.
    ///
    /// # Errors
    /// The value of the metric can't be read, or yields no number.
    pub fn evaluate(&self, spec: &MetricSpec) -> Result<Proposal, Invalid> {
        let resource = spec.resource.clone().unwrap_or_default();
        let container = spec.container_resource.clone().unwrap_or_default();
        let source = |source: &Option<MetricSource>| source.clone().unwrap_or_default();
        let (reason, computed, context) = match spec.source.as_str() {
            "Resource" => (
                "FailedGetResourceMetric",
                self.resource(&resource, false),
                format!("failed to get {} resource metric value", resource.name),
            ),
            "ContainerResource" => (
                "FailedGetContainerResourceMetric",
                self.resource(&container, true),
                format!(
                    "failed to get {} container metric value",
                    container.container
                ),
            ),
            "Pods" => (
                "FailedGetPodsMetric",
                self.of_pods(&source(&spec.pods)),
                "failed to get pods metric value".to_owned(),
            ),
            "Object" => {
                let object = source(&spec.object);
                let name = &object.metric.name;
                let is_average = object.target.target_type == "AverageValue"
                    && object.target.average_value.is_some();
                let is_read = series(&object.metric).is_ok();
                let context = if is_average && is_read {
                    format!("failed to get object metric value: failed to get {name} object metric")
                } else {
                    "failed to get object metric value".to_owned()
                };
                ("FailedGetObjectMetric", self.of_object(&object), context)
            }
            "External" => {
                let external = source(&spec.external);
                let name = &external.metric.name;
                let target = &external.target;
                let context = if target.average_value.is_some() {
                    format!(
                        "failed to get {name} external metric value: failed to get {name} external metric"
                    )
                } else if target.value.is_some() {
                    format!(
                        "failed to get {name} external metric value: failed to get external metric {name}"
                    )
                } else {
                    format!("failed to get {name} external metric value")
                };
                ("FailedGetExternalMetric", self.external(&external), context)
            }
            other => {
                let message = format!("unknown metric source type {other:?}");
                return Err(Invalid {
                    reason: "InvalidMetricSourceType",
                    error: message.clone(),
                    message,
                    is_spec: true,
                });
            }
        };
        computed.map_err(|message| Invalid {
            reason,
            error: format!("{context}: {message}"),
            message,
            is_spec: false,
        })
    }

    fn resource(&self, source: &ResourceSource, of_container: bool) -> Computed {
        let ResourceSource {
            name,
            container,
            target,
        } = source;
        let (replicas, current, metric) = if let Some(target) = target.average_value {
            let (replicas, average) = self
                .resource_usage(source, target.millis())
                .map_err(|error| format!("failed to get {name} usage: {error}"))?;
            let current = Current {
                average_value: Some(resource_quantity(name, average)),
                ..Current::default()
            };
            (replicas, current, format!("{name} resource"))
        } else if let Some(target) = target.average_utilization {
            let found = self
                .resource_utilization(source, target)
                .map_err(|error| format!("failed to get {name} utilization: {error}"))?;
            let current = Current {
                average_utilization: Some(found.percent),
                average_value: Some(resource_quantity(name, found.average)),
                ..Current::default()
            };
            let of = if of_container { " container" } else { "" };
            let metric = format!("{name}{of} resource utilization (percentage of request)");
            (found.replicas, current, metric)
        } else {
            return Err("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set".to_owned());
        };
        let value = ResourceValue {
            name: name.clone(),
            container: container.clone(),
            current,
        };
        let status = if of_container {
            MetricStatus {
                source: "ContainerResource".into(),
                container_resource: Some(value),
                ..MetricStatus::default()
            }
        } else {
            MetricStatus {
                source: "Resource".into(),
                resource: Some(value),
                ..MetricStatus::default()
            }
        };
        Ok(Proposal {
            replicas,
            metric,
            status,
        })
    }

    fn read_resource(&self, source: &ResourceSource) -> Result<PodMetrics, String> {
        let ResourceSource {
            name, container, ..
        } = source;
        sources::resource(self.host, self.namespace, self.selector, name, container)
            .map_err(|error| format!("unable to get metrics for resource {name}: {error}"))
    }

    fn resource_usage(&self, source: &ResourceSource, target: i64) -> Result<(i32, i64), String> {
        let metrics = self.read_resource(source)?;
        let grouped = self.grouped(&metrics, &source.name)?;
        calculator::by_value(self.wanted, target, metrics, &grouped, self.tolerances)
    }

    fn resource_utilization(
        &self,
        source: &ResourceSource,
        target: i32,
    ) -> Result<calculator::Utilization, String> {
        let ResourceSource {
            name, container, ..
        } = source;
        let metrics = self.read_resource(source)?;
        let grouped = self.grouped(&metrics, name)?;
        let metrics = calculator::counted(metrics, &grouped)?;
        let pod_level = self.settings.pod_level_resources;
        let requests = pods::requests(self.pods, container, name, pod_level)?;
        calculator::by_utilization(
            self.wanted,
            target,
            metrics,
            &requests,
            &grouped,
            self.tolerances,
        )
    }

    fn grouped(&self, metrics: &PodMetrics, resource: &str) -> Result<Grouped, String> {
        pods::require(self.pods)?;
        let readiness = self.settings.readiness;
        Ok(pods::group(
            self.pods, metrics, resource, readiness, self.now,
        ))
    }

    fn of_pods(&self, source: &MetricSource) -> Computed {
        let name = &source.metric.name;
        let target = source.target.average_value.unwrap_or_default().millis();
        let series = series(&source.metric)?;
        let metrics = sources::of_pods(self.host, self.namespace, self.selector, name, &series)
            .map_err(|error| format!("unable to get metric {name}: {error}"))?;
        let grouped = self.grouped(&metrics, "")?;
        let (replicas, average) =
            calculator::by_value(self.wanted, target, metrics, &grouped, self.tolerances)?;
        let value = MetricValue {
            metric: source.metric.clone(),
            current: average_value(average),
            described_object: None,
        };
        Ok(Proposal {
            replicas,
            metric: format!("pods metric {name}"),
            status: MetricStatus {
                source: "Pods".into(),
                pods: Some(value),
                ..MetricStatus::default()
            },
        })
    }

    fn of_object(&self, source: &MetricSource) -> Computed {
        let MetricSource {
            described_object: object,
            metric: Identifier { name, .. },
            target,
        } = source;
        let read = || {
            let series = series(&source.metric)?;
            let found = sources::of_object(self.host, self.namespace, object, name, &series);
            found.map_err(|error| {
                let ObjectName { kind, name: of, .. } = object;
                match self.settings.since_1_37 {
                    true => format!(
                        "unable to get metric {name} on {kind} {}/{of}: {error}",
                        self.namespace
                    ),
                    // The mistake was kube-controller-manager's.
                    false => format!(
                        "unable to get metric {name}: {kind} on {} {of}/{error}",
                        self.namespace
                    ),
                }
            })
        };
        let (replicas, current, metric) = match (
            target.target_type.as_str(),
            target.value,
            target.average_value,
        ) {
            ("Value", Some(target), _) => {
                let usage = read()?;
                let replicas = self.by_ratio(usage, target)?;
                let metric = format!("{} metric {name}", object.kind);
                (replicas, value(usage), metric)
            }
            ("AverageValue", _, Some(target)) => {
                let (replicas, share) = self.by_share(read()?, target);
                (replicas, average_value(share), described(&source.metric))
            }
            _ => {
                return Err("invalid object metric source: neither a value target nor an average value target was set".to_owned());
            }
        };
        let value = MetricValue {
            metric: source.metric.clone(),
            current,
            described_object: Some(object.clone()),
        };
        Ok(Proposal {
            replicas,
            metric,
            status: MetricStatus {
                source: "Object".into(),
                object: Some(value),
                ..MetricStatus::default()
            },
        })
    }

    fn external(&self, source: &MetricSource) -> Computed {
        let MetricSource { metric, target, .. } = source;
        let read = || {
            let series = series(metric)?;
            let values = sources::external(self.host, self.namespace, &metric.name, &series);
            values.map(calculator::sum).map_err(|error| {
                format!(
                    "unable to get external metric {}/{}/{}: {error}",
                    self.namespace,
                    metric.name,
                    selector_text(metric)
                )
            })
        };
        let (replicas, current) = match (target.average_value, target.value) {
            (Some(target), _) => {
                let (replicas, share) = self.by_share(read()?, target);
                (replicas, average_value(share))
            }
            (None, Some(target)) => {
                let usage = read()?;
                (self.by_ratio(usage, target)?, value(usage))
            }
            (None, None) => {
                return Err("invalid external metric source: neither a value target nor an average value target was set".to_owned());
            }
        };
        let value = MetricValue {
            metric: metric.clone(),
            current,
            described_object: None,
        };
        Ok(Proposal {
            replicas,
            metric: described(metric),
            status: MetricStatus {
                source: "External".into(),
                external: Some(value),
                ..MetricStatus::default()
            },
        })
    }

    fn by_ratio(&self, usage: i64, target: Quantity) -> Result<i32, String> {
        let ratio = usage as f64 / target.millis() as f64;
        let ready = || pods::ready(self.pods);
        calculator::by_ratio(self.wanted, ratio, self.tolerances, ready)
    }

    fn by_share(&self, usage: i64, target: Quantity) -> (i32, i64) {
        calculator::by_share(self.existing, target.millis(), usage, self.tolerances)
    }
}

/// The label selector of a metric's series, as a parameter. A metric without one has all series.
fn series(metric: &Identifier) -> Result<String, String> {
    let Some(selector) = &metric.selector else {
        return Ok(String::new());
    };
    if let Some(error) = flyball_go_format::label_selector_error(&Raw::of(selector)) {
        return Err(error);
    }
    LabelSelector::of_json(selector.to_string().as_bytes())
        .map(|selector| selector.to_string())
        .map_err(|error| error.to_string())
}

fn selector_text(metric: &Identifier) -> String {
    flyball_go_format::label_selector(&Raw::of(&metric.selector))
}

/// The name of a metric of all pods together. Like kube-controller-manager, it also calls metrics of objects external.
fn described(metric: &Identifier) -> String {
    format!("external metric {}({})", metric.name, selector_text(metric))
}

/// History is in bytes, as metrics-server writes it.
fn resource_quantity(resource: &str, millis: i64) -> Quantity {
    let format = if resource == "memory" {
        Format::Binary
    } else {
        Format::Decimal
    };
    Quantity::of_millis(millis).in_format(format)
}

fn value(millis: i64) -> Current {
    Current {
        value: Some(Quantity::of_millis(millis)),
        ..Current::default()
    }
}

fn average_value(millis: i64) -> Current {
    Current {
        average_value: Some(Quantity::of_millis(millis)),
        ..Current::default()
    }
}
