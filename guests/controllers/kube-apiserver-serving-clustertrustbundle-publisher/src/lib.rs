//! kube-apiserver-serving-clustertrustbundle-publisher-controller: publishes the CA bundle of the API server as a
//! ClusterTrustBundle (KEP-3257).
//!
//! The name of the ClusterTrustBundle has a hash of the bundle, so that a new bundle gets a new object. All others of
//! its signer are deleted. The operator configures the bundle as [`ROOT_CA`].
//!
//! Upstream: pkg/controller/certificates/clustertrustbundlepublisher/publisher.go: NewBetaClusterTrustBundlePublisher,
//! newClusterTrustBundlePublisher, syncClusterTrustBundle, constructBundleName.
//! Upstream: pkg/controller/certificates/clustertrustbundlepublisher/metrics.go: recordMetrics.

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;
use sha2::{Digest, Sha256};

/// The configuration key of the bundle in PEM. It is required; it is empty if the API server's
/// certificate is not verified, and then nothing is published.
pub const ROOT_CA: &str = "root-ca";

const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// The prefix of the names of the signer's ClusterTrustBundles, which the API server demands.
const PREFIX: &str = "kubernetes.io:kube-apiserver-serving:";
/// The only key.
const KEY: &str = "bundle";
/// How often the key is enqueued without a change. The first time is the start.
const INTERVAL: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// The counter of reconciles, by status code.
const SYNCS: &str = "clustertrustbundle_publisher_sync_total";
/// The histogram of the durations of syncs in seconds, by status code.
const DURATION: &str = "clustertrustbundle_publisher_sync_duration_seconds";

#[derive(View, Clone, Debug, Default)]
#[view(
    kind = "certificates.k8s.io/v1/ClusterTrustBundle",
    until(36, "certificates.k8s.io/v1beta1/ClusterTrustBundle")
)]
struct TrustBundle {
    #[view(path = "metadata", fields("name"))]
    meta: Meta,
    #[view(path = "spec.trustBundle")]
    bundle: String,
}

/// The controller. It has one key.
pub struct Publisher;

export!(Publisher);

impl Controller for Publisher {
    /// The whole objects are watched: an update is built from the cache, because the role has no
    /// `get`.
    fn describe() -> Description {
        describe(
            "kube-apiserver-serving-clustertrustbundle-publisher-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(
            watch::<TrustBundle>()
                .fields(&["."])
                .field_selector(&format!("spec.signerName={SIGNER}"))
                .enqueue(Mapping::key(KEY)),
        )
        .queue("ca_cert_publisher_cluster_trust_bundles")
        .ticker(KEY, INTERVAL)
        .permission(TrustBundle::KIND, ["create", "update", "delete"])
        .config(ROOT_CA, None, "The CA bundle of the API server, in PEM.")
        .emulated_version()
        .metric(
            MetricType::Counter,
            SYNCS,
            &["code"],
            "Number of syncs that occurred in cluster trust bundle publisher.",
        )
        .metric(
            MetricType::Histogram((0..15).map(|power| 0.001 * f64::from(1 << power)).collect()),
            DURATION,
            &["code"],
            "The time it took to sync a cluster trust bundle.",
        )
        .concurrency(1)
    }

    fn describe_configured(host: &Host) -> Description {
        Self::describe().kind_of_release::<TrustBundle>(host)
    }

    fn reconcile(host: &Host, _: &Request) -> Result<Outcome, Error> {
        // An empty bundle must not be published instead.
        let Some(bundle) = host.config(ROOT_CA) else {
            return Err(Error::terminal(format!(
                "the configuration key `{ROOT_CA}` with the CA bundle is not set"
            )));
        };
        if bundle.is_empty() {
            return Ok(Outcome::Done);
        }
        let start = host.now();
        let result = publish(host, &bundle);
        host.metrics().sync(SYNCS, DURATION, start, &result);
        result.map(|()| Outcome::Done)
    }
}

/// Creates or corrects the object of this bundle, and then deletes the others.
fn publish(host: &Host, bundle: &str) -> Result<(), Error> {
    let (kind, name) = (host.kind::<TrustBundle>(), name(bundle));
    match host.get::<TrustBundle>("", &name)? {
        None => {
            let object = json!({
                "metadata": {"name": name},
                "spec": {"signerName": SIGNER, "trustBundle": bundle},
            });
            host.create(kind, "", &object)?;
        }
        Some(found) if found.bundle != bundle => {
            let change = json!({"spec": {"trustBundle": bundle}});
            host.update(kind, &found.meta, &change)?;
        }
        Some(_) => {}
    }
    delete_others(host, &name)
}

/// Deletes all objects of the signer except for the one with this name. A failure does not stop the others.
fn delete_others(host: &Host, name: &str) -> Result<(), Error> {
    let mut all = host.list::<TrustBundle>().all()?;
    all.retain(|one| one.meta.name != name);
    let mut last = Ok(());
    for other in &all {
        let deleted = host.delete(host.kind::<TrustBundle>(), &other.meta);
        if let Err(error) = deleted.found() {
            last = Err(error).doing(|| format!("deleting {}", other.meta.name));
        }
    }
    last
}

/// The name of the object of a bundle: the signer's prefix, and the first 12 bytes of the bundle's hash.
fn name(bundle: &str) -> String {
    let hash = Sha256::digest(bundle.as_bytes());
    let hex = hash[..12].iter().map(|byte| format!("{byte:02x}"));
    std::iter::once(PREFIX.to_owned()).chain(hex).collect()
}
