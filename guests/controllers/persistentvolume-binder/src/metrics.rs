//! The metrics of operations and of the numbers of volumes and claims.
//!
//! Upstream: pkg/controller/volume/persistentvolume/metrics/metrics.go.
//! Upstream: pkg/volume/util/metrics.go: OperationCompleteHook, RecordOperationLatencyMetric.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_sdk::MicroTime;
use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;
use flyball_volume_plugins::{NOT_AVAILABLE, Plugins, Volume as PluginVolume, qualified_name};
use serde::{Deserialize, Serialize};

use crate::settings;
use crate::views::{claim_phase, volume_phase};

const SECONDS: &str = "volume_operation_total_seconds";
const ERRORS: &str = "volume_operation_errors_total";
/// The former name of [`ERRORS`], which is still counted.
const FORMER_ERRORS: &str = "volume_operation_total_errors";
const STEP_SECONDS: &str = "storage_operation_duration_seconds";
const ASSIGNMENTS: &str = "retroactive_storageclass_total";
const ASSIGNMENT_ERRORS: &str = "retroactive_storageclass_errors_total";
const TOTAL_VOLUMES: &str = "pv_collector_total_pv_count";
const BOUND_VOLUMES: &str = "pv_collector_bound_pv_count";
const UNBOUND_VOLUMES: &str = "pv_collector_unbound_pv_count";
const BOUND_CLAIMS: &str = "pv_collector_bound_pvc_count";
const UNBOUND_CLAIMS: &str = "pv_collector_unbound_pvc_count";

/// The upper bounds of the buckets of durations, in seconds.
const BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];
/// The memo's key of the series that had volumes or claims when they were last counted.
const COUNTED: &str = "counted";

/// An operation that takes several reconciles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Provision,
    Delete,
}

impl Operation {
    /// The value of the label `operation_name`.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Delete => "delete",
        }
    }
}

/// An operation whose duration is measured: the provisioning of a volume until it is bound, or the deletion of a volume
/// until its object is gone. Only the memo knows when it began.
pub(crate) struct Started<'a> {
    operation: Operation,
    key: String,
    /// The object with which the measurement ends; empty if it ends with the deletion of the object.
    uid: &'a str,
}

/// The beginning of an operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Beginning {
    plugin: String,
    at: MicroTime,
}

impl<'a> Started<'a> {
    pub(crate) fn new(operation: Operation, object: &Key, uid: &'a str) -> Self {
        let key = format!("started/{}/{object}", operation.label());
        Self {
            operation,
            key,
            uid,
        }
    }

    /// Notes the beginning, unless the operation has begun before.
    ///
    /// # Errors
    /// The error of `plugin`.
    pub(crate) fn begin(
        &self,
        host: &Host,
        plugin: impl FnOnce() -> Result<String, Error>,
    ) -> Result<(), Error> {
        if self.beginning(host).is_some() {
            return Ok(());
        }
        let beginning = Beginning {
            plugin: plugin()?,
            at: MicroTime(host.now()),
        };
        // Without room in the memo, the operation is not measured.
        let _ = host
            .memo()
            .put(&self.key, &beginning, self.uid, Duration::ZERO);
        Ok(())
    }

    /// Counts an error of the operation, if it has begun.
    pub(crate) fn count_error(&self, host: &Host) {
        if let Some(Beginning { plugin, .. }) = self.beginning(host) {
            for counter in [ERRORS, FORMER_ERRORS] {
                host.metrics()
                    .add(counter, &[&plugin, self.operation.label()], 1.0);
            }
        }
    }

    /// Measures the operation if it has begun and is done now, or counts its error.
    pub(crate) fn end<T>(&self, host: &Host, result: &Result<T, Error>) {
        if result.is_err() {
            return self.count_error(host);
        }
        if let Some(Beginning { plugin, at }) = self.beginning(host) {
            let seconds = host.now().since(at.0).as_secs_f64();
            host.metrics()
                .observe(SECONDS, &[&plugin, self.operation.label()], seconds);
            host.memo().remove(&self.key);
        }
    }

    fn beginning(&self, host: &Host) -> Option<Beginning> {
        host.memo().get(&self.key)
    }
}

/// Observes the duration of a step of a plugin.
pub(crate) fn observe_step(host: &Host, plugin: &str, step: &str, start: Time, is_done: bool) {
    let status = if is_done { "success" } else { "fail-unknown" };
    let seconds = host.now().since(start).as_secs_f64();
    host.metrics()
        .observe(STEP_SECONDS, &[plugin, step, status, "false"], seconds);
}

/// Counts the assignment of a default class to a claim.
pub(crate) fn count_assignment(host: &Host, is_done: bool) {
    host.metrics().add(ASSIGNMENTS, &[], 1.0);
    if !is_done {
        host.metrics().add(ASSIGNMENT_ERRORS, &[], 1.0);
    }
}

/// The fields by which volumes are counted.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
pub(crate) struct CountedVolume {
    #[view(path = "spec.storageClassName")]
    class: String,
    #[view(path = "spec.volumeMode")]
    mode: String,
    #[view(path = "spec.hostPath")]
    host_path: Option<Value>,
    #[view(path = "spec.nfs")]
    nfs: Option<Value>,
    #[view(path = "spec.csi.driver")]
    driver: Option<String>,
    #[view(path = "status.phase")]
    phase: String,
}

impl CountedVolume {
    /// The plugin in the label.
    fn plugin(&self, plugins: &Plugins) -> String {
        let csi = self.driver.as_ref().map(|driver| json!({"driver": driver}));
        let spec = json!({"hostPath": self.host_path, "nfs": self.nfs, "csi": csi});
        let volume = PluginVolume::persistent("", &spec);
        plugins.find_by_volume(volume).map_or_else(
            |_| NOT_AVAILABLE.into(),
            |plugin| qualified_name(plugin, volume),
        )
    }
}

/// The fields by which claims are counted.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub(crate) struct CountedClaim {
    #[view(path = "metadata.namespace")]
    namespace: String,
    #[view(path = "metadata.annotations['volume.beta.kubernetes.io/storage-class']")]
    beta_class: Option<String>,
    #[view(path = "spec.storageClassName")]
    class: String,
    #[view(path = "spec.volumeAttributesClassName")]
    attributes_class: String,
    #[view(path = "status.phase")]
    phase: String,
}

/// A gauge and the values of its labels.
type Series = (String, Vec<String>);
/// The numbers of volumes and claims in each series.
type Counts = BTreeMap<Series, u32>;

/// Sets the gauges of volumes and claims. Series without any are set to 0.
///
/// # Errors
/// A read failed, or the memo is full.
pub(crate) fn count(host: &Host) -> Result<(), Error> {
    let plugins = settings::plugins(host)?;
    let mut counts = Counts::new();
    let mut add = |gauge: &str, labels: Vec<String>| {
        *counts.entry((gauge.into(), labels)).or_default() += 1;
    };
    host.list::<CountedVolume>().each(|volume| {
        let gauge = match volume.phase == volume_phase::BOUND {
            true => BOUND_VOLUMES,
            false => UNBOUND_VOLUMES,
        };
        add(TOTAL_VOLUMES, vec![volume.plugin(&plugins), volume.mode]);
        add(gauge, vec![volume.class]);
        Ok(())
    })?;
    host.list::<CountedClaim>().each(|claim| {
        let gauge = match claim.phase == claim_phase::BOUND {
            true => BOUND_CLAIMS,
            false => UNBOUND_CLAIMS,
        };
        let class = claim.beta_class.unwrap_or(claim.class);
        add(gauge, vec![claim.namespace, class, claim.attributes_class]);
        Ok(())
    })?;
    set(host, &counts)
}

/// Sets the gauges, and those of the series that were there before to 0.
fn set(host: &Host, counts: &Counts) -> Result<(), Error> {
    let before: Vec<Series> = host.memo().get(COUNTED).unwrap_or_default();
    let gone = before.iter().filter(|series| !counts.contains_key(*series));
    let all = counts.iter().map(|(series, count)| (series, *count));
    for ((gauge, labels), count) in all.chain(gone.map(|series| (series, 0))) {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        host.metrics().set(gauge, &labels, count.into());
    }
    let now: Vec<&Series> = counts.keys().collect();
    if !now.iter().copied().eq(before.iter()) {
        host.memo().put(COUNTED, &now, "", Duration::ZERO)?;
    }
    Ok(())
}

/// Adds the metrics to a description.
pub(crate) fn declare(description: Description) -> Description {
    numbers(operations(description))
}

fn operations(description: Description) -> Description {
    let seconds = || MetricType::Histogram(BUCKETS.into());
    let labels = ["plugin_name", "operation_name"];
    description
        .metric(
            seconds(),
            SECONDS,
            &labels,
            "Storage operation end to end duration in seconds",
        )
        .metric(
            seconds(),
            STEP_SECONDS,
            &["volume_plugin", "operation_name", "status", "migrated"],
            "Storage operation duration",
        )
        .metric(
            MetricType::Counter,
            ERRORS,
            &labels,
            "Total volume operation errors",
        )
        .metric(
            MetricType::Counter,
            FORMER_ERRORS,
            &labels,
            "Total volume operation errors",
        )
        .metric(
            MetricType::Counter,
            ASSIGNMENTS,
            &[],
            "Total number of retroactive StorageClass assignments to persistent volume claim",
        )
        .metric(
            MetricType::Counter,
            ASSIGNMENT_ERRORS,
            &[],
            "Total number of failed retroactive StorageClass assignments to persistent volume claim",
        )
}

fn numbers(description: Description) -> Description {
    let of_claims = ["namespace", "storage_class", "volume_attributes_class"];
    description
        .metric(
            MetricType::Gauge,
            TOTAL_VOLUMES,
            &["plugin_name", "volume_mode"],
            "Gauge measuring total number of persistent volumes",
        )
        .metric(
            MetricType::Gauge,
            BOUND_VOLUMES,
            &["storage_class"],
            "Gauge measuring number of persistent volume currently bound",
        )
        .metric(
            MetricType::Gauge,
            UNBOUND_VOLUMES,
            &["storage_class"],
            "Gauge measuring number of persistent volume currently unbound",
        )
        .metric(
            MetricType::Gauge,
            BOUND_CLAIMS,
            &of_claims,
            "Gauge measuring number of persistent volume claim currently bound",
        )
        .metric(
            MetricType::Gauge,
            UNBOUND_CLAIMS,
            &of_claims,
            "Gauge measuring number of persistent volume claim currently unbound",
        )
}
