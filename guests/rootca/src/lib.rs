//! root-ca-certificate-publisher-controller: the CA bundle of the API server in each namespace.
//!
//! Each namespace has a ConfigMap `kube-root-ca.crt`, with which pods verify the API server. A
//! deleted ConfigMap is created again, and a changed one is corrected. The operator configures the
//! bundle as [`ROOT_CA`].

use flyball_sdk::describe::MetricType;
use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;
use flyball_sdk::{StringMap, debug};

/// The key of the configuration that holds the bundle, in PEM. It must be given; where the API
/// server is not checked, it is empty.
pub const ROOT_CA: &str = "root-ca";

const NAME: &str = "kube-root-ca.crt";
/// The key of the bundle in the ConfigMap's data.
const FILE: &str = "ca.crt";
/// The annotation that explains the ConfigMap to people. Any text but an empty one is accepted.
const DESCRIPTION: &str = "kubernetes.io/description";
const PURPOSE: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
                       such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                       distributions of Kubernetes clusters.";

/// The counter of reconciles, by the status of what ended them.
const SYNCS: &str = "root_ca_cert_publisher_sync_total";
/// The histogram of how long they took, in seconds, by the same.
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

/// The controller. Its keys are names of namespaces.
pub struct RootCa;

export!(RootCa);

impl Controller for RootCa {
    /// The ConfigMaps are watched whole, because the role has no `get`, and a change is made to
    /// what the cache holds.
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
        .allow(ConfigMap::KIND, ["create", "update"])
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
        let code = code(&result).to_string();
        host.metrics().add(SYNCS, &[&code], 1.0);
        host.metrics()
            .observe(DURATION, &[&code], host.now().since(start).as_secs_f64());
        result.map(|()| Outcome::Done)
    }
}

/// Creates the ConfigMap of a namespace, or corrects it.
fn publish(host: &Host, namespace: &str) -> Result<(), Error> {
    // Without it, nothing may be written: an empty bundle in its place would cut pods off.
    let Some(bundle) = host.config(ROOT_CA) else {
        return Err(Error::terminal(format!(
            "no CA bundle is given: the key `{ROOT_CA}` of the configuration is not set"
        )));
    };
    match host.get::<ConfigMap>(namespace, NAME)? {
        None => create(host, namespace, &bundle),
        Some(found) if is_right(&found, &bundle) => Ok(()),
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
            debug!(host, "{namespace} goes: {error}");
            Ok(())
        }
        answer => Ok(answer.map(drop)?),
    }
}

fn config_map(bundle: &str) -> Value {
    json!({"metadata": {"name": NAME, "annotations": {DESCRIPTION: PURPOSE}}, "data": {FILE: bundle}})
}

/// Whether it holds the bundle and nothing else, and has a description.
fn is_right(found: &ConfigMap, bundle: &str) -> bool {
    let holds_it = found.data.len() == 1 && found.data.get(FILE).is_some_and(|data| data == bundle);
    holds_it
        && found
            .meta
            .annotation(DESCRIPTION)
            .is_some_and(|text| !text.is_empty())
}

/// The merge patch that corrects it. Other keys of its data are removed.
fn repair(found: &ConfigMap, bundle: &str) -> Value {
    let mut data: Map<String, Value> = found
        .data
        .keys()
        .map(|key| (key.clone(), Value::Null))
        .collect();
    data.insert(FILE.into(), bundle.into());
    json!({"metadata": {"annotations": {DESCRIPTION: PURPOSE}}, "data": data})
}

/// The label of a result in the metrics: 200, or the status of the refusal.
fn code(result: &Result<(), Error>) -> u16 {
    let status = |error: &Error| {
        error
            .api()
            .map(|refusal| refusal.status)
            .filter(|status| *status != 0)
    };
    result
        .as_ref()
        .map_or_else(|error| status(error).unwrap_or(500), |()| 200)
}
