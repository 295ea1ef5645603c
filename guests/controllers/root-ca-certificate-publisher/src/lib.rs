//! root-ca-certificate-publisher-controller: publishes the CA bundle of the API server in each
//! namespace.
//!
//! Each namespace has a ConfigMap `kube-root-ca.crt`, with which pods verify the API server. A
//! deleted ConfigMap is created again, and a changed one is corrected. The operator configures the
//! bundle as [`ROOT_CA`].
//!
//! Upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go: NewPublisher, syncNamespace, convertToCM.
//! Upstream: pkg/controller/certificates/rootcacertpublisher/metrics.go: recordMetrics.

use flyball_sdk::describe::MetricType;
use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;
use flyball_sdk::{StringMap, debug};

/// The configuration key of the bundle in PEM. It is required; it is empty if the API server's
/// certificate is not verified.
pub const ROOT_CA: &str = "root-ca";

const NAME: &str = "kube-root-ca.crt";
/// The bundle's key in the ConfigMap's data.
const FILE: &str = "ca.crt";
/// The annotation that describes the ConfigMap. Any text except an empty one is accepted.
const DESCRIPTION: &str = "kubernetes.io/description";
const PURPOSE: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
                       such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                       distributions of Kubernetes clusters.";

/// The counter of reconciles, by status code.
const SYNCS: &str = "root_ca_cert_publisher_sync_total";
/// The histogram of the durations of syncs in seconds, by status code.
const DURATION: &str = "root_ca_cert_publisher_sync_duration_seconds";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Namespace")]
struct Namespace {
    #[view(path = "status.phase")]
    phase: String,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ConfigMap")]
struct ConfigMap {
    #[view(path = "metadata", fields("annotations['kubernetes.io/description']"))]
    meta: Meta,
    #[view(path = "data")]
    data: StringMap,
}

/// The controller. Keys are names of namespaces.
pub struct RootCa;

export!(RootCa);

impl Controller for RootCa {
    /// The whole ConfigMaps are watched: an update is built from the cache, because the role has no
    /// `get`.
    fn describe() -> Description {
        let only_ours = format!("metadata.name={NAME}");
        describe(
            "root-ca-certificate-publisher-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(
            watch::<Namespace>()
                .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified])),
        )
        .watch(
            watch::<ConfigMap>()
                .fields(&["."])
                .field_selector(&only_ours)
                .enqueue(Mapping::namespace().on([DeltaType::Modified, DeltaType::Deleted])),
        )
        .queue("root_ca_cert_publisher")
        .permission(ConfigMap::KIND, ["create", "update"])
        .config(ROOT_CA, None, "The CA bundle of the API server, in PEM.")
        .metric(
            MetricType::Counter,
            SYNCS,
            &["code"],
            "Number of namespace syncs happened in root ca cert publisher.",
        )
        .metric(
            MetricType::Histogram((0..15).map(|power| 0.001 * f64::from(1 << power)).collect()),
            DURATION,
            &["code"],
            "How long a namespace sync took in root ca cert publisher, in seconds.",
        )
        .concurrency(1)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let start = host.now();
        let result = publish(host, &request.key.name);
        host.metrics().sync(SYNCS, DURATION, start, &result);
        result.map(|()| Outcome::Done)
    }
}

/// Creates the ConfigMap of a namespace, or corrects it.
fn publish(host: &Host, namespace: &str) -> Result<(), Error> {
    // An empty bundle must not be written instead: pods could no longer verify the API server.
    let Some(bundle) = host.config(ROOT_CA) else {
        return Err(Error::terminal(format!(
            "the configuration key `{ROOT_CA}` with the CA bundle is not set"
        )));
    };
    match host.get::<ConfigMap>(namespace, NAME)? {
        None => create(host, namespace, &bundle),
        Some(found) if is_correct(&found, &bundle) => Ok(()),
        Some(found) => {
            host.update(ConfigMap::KIND, &found.meta, &repair(&found, &bundle))?;
            Ok(())
        }
    }
}

/// Creates the ConfigMap, unless the namespace is being deleted or does not exist.
fn create(host: &Host, namespace: &str, bundle: &str) -> Result<(), Error> {
    let is_terminating = host
        .get::<Namespace>("", namespace)?
        .is_none_or(|namespace| namespace.phase == "Terminating");
    if is_terminating {
        return Ok(());
    }
    match host.create(ConfigMap::KIND, namespace, &config_map(bundle)) {
        Err(error) if error.is_not_found() || is_namespace_terminating(&error) => {
            debug!(host, "{namespace} is being deleted: {error}");
            Ok(())
        }
        result => Ok(result.map(drop)?),
    }
}

fn config_map(bundle: &str) -> Value {
    json!({"metadata": {"name": NAME, "annotations": {DESCRIPTION: PURPOSE}}, "data": {FILE: bundle}})
}

/// Whether the ConfigMap's data is only the bundle and it has a description.
fn is_correct(found: &ConfigMap, bundle: &str) -> bool {
    let has_bundle =
        found.data.len() == 1 && found.data.get(FILE).is_some_and(|data| data == bundle);
    has_bundle
        && found
            .meta
            .annotation(DESCRIPTION)
            .is_some_and(|text| !text.is_empty())
}

/// Returns the merge patch that corrects the ConfigMap. Other keys of its data are removed.
fn repair(found: &ConfigMap, bundle: &str) -> Value {
    let mut data: Map<String, Value> = found
        .data
        .keys()
        .map(|key| (key.clone(), Value::Null))
        .collect();
    data.insert(FILE.into(), bundle.into());
    json!({"metadata": {"annotations": {DESCRIPTION: PURPOSE}}, "data": data})
}
