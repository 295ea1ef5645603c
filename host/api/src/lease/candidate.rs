//! A candidate for a lease whose holder the API server chooses: the object by which this process announces itself.
//!
//! Before it chooses, the API server pings the candidates, and leaves out those that do not respond within 5 s.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_types::ApiError;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{CandidateVersions, LeaderElection, record};
use crate::client::{ApiClient, ApiRequest};
use crate::rights::{HostRight, HostScope, HostVerb};

/// The rights that the role `system:kube-controller-manager` has while the API server chooses leaders. Hosts beside a
/// kube-controller-manager elect their leader themselves, so their roles lack them.
const GET: HostRight = HostRight {
    verb: HostVerb::Get,
    group: "coordination.k8s.io",
    resource: "leasecandidates",
    scope: HostScope::LeaseNamespace,
};
const CREATE: HostRight = HostRight {
    verb: HostVerb::Create,
    ..GET
};
const UPDATE: HostRight = HostRight {
    verb: HostVerb::Update,
    ..GET
};

/// The interval at which the object is read. A response to a ping takes at most this time.
const POLL: Duration = Duration::from_secs(2);
/// The interval of renewals without a ping. The API server deletes a candidate that was not renewed for half an hour.
const RENEWED_EVERY: Duration = Duration::from_secs(5 * 60);
/// The strategy by which the API server chooses among the candidates of kube-controller-manager's lease.
const STRATEGY: &str = "OldestEmulationVersion";

/// Announces this process.
pub(super) struct Candidate {
    client: ApiClient,
    /// The namespace of the lease and of the candidates.
    namespace: String,
    lease: String,
    identity: String,
    versions: CandidateVersions,
}

impl Candidate {
    pub(super) fn new(
        client: ApiClient,
        election: &LeaderElection,
        identity: &str,
        versions: CandidateVersions,
    ) -> Self {
        Self {
            client,
            namespace: election.namespace.clone(),
            lease: election.name.clone(),
            identity: identity.to_owned(),
            versions,
        }
    }

    /// Creates the object, responds to pings, and renews it. Failures are logged, once for each cause.
    pub(super) async fn run(self) -> Infallible {
        let mut renewed: Option<Instant> = None;
        let mut logged = String::new();
        loop {
            let is_due = renewed.is_none_or(|at| at.elapsed() >= RENEWED_EVERY);
            match self.announce(is_due).await {
                Ok(is_renewed) => {
                    logged.clear();
                    if is_renewed {
                        renewed = Some(Instant::now());
                    }
                }
                Err(error) => {
                    let error = error.to_string();
                    if error != logged {
                        tracing::warn!(
                            lease = format!("{}/{}", self.namespace, self.lease),
                            error,
                            "can't announce this process as a candidate for the lease"
                        );
                        logged = error;
                    }
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Creates the object if it does not exist. Renews it after a ping, or if it `is_due`. Returns whether it was
    /// written.
    async fn announce(&self, is_due: bool) -> Result<bool, ApiError> {
        let read = ApiRequest::own(GET, self.path(), Bytes::new());
        let mut found = match self.send(read).await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => {
                let object = Bytes::from(self.object().to_string());
                let create = ApiRequest::own(CREATE, self.collection(), object);
                return self.send(create).await.map(|_| true);
            }
            Err(error) => return Err(error),
        };
        if !is_due && !is_pinged(&found["spec"]) {
            return Ok(false);
        }
        found["spec"]["renewTime"] = record::micro_time(SystemTime::now()).into();
        let update = ApiRequest::own(UPDATE, self.path(), Bytes::from(found.to_string()));
        self.send(update).await.map(|_| true)
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate",
            "metadata": {"name": self.identity, "namespace": self.namespace},
            "spec": {
                "leaseName": self.lease, "strategy": STRATEGY,
                "binaryVersion": self.versions.binary, "emulationVersion": self.versions.emulation,
                "renewTime": record::micro_time(SystemTime::now()),
            },
        })
    }

    async fn send(&self, request: ApiRequest) -> Result<Value, ApiError> {
        let answer = self.client.send(request).await?;
        super::parsed(&answer, "LeaseCandidate")
    }

    fn collection(&self) -> String {
        format!(
            "/apis/coordination.k8s.io/v1beta1/namespaces/{}/leasecandidates",
            self.namespace
        )
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.identity)
    }
}

/// Whether a candidate was pinged after it was renewed.
fn is_pinged(spec: &Value) -> bool {
    let time = |field: &str| spec[field].as_str()?.parse::<Timestamp>().ok();
    match (time("pingTime"), time("renewTime")) {
        (Some(pinged), Some(renewed)) => pinged > renewed,
        (pinged, _) => pinged.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_counts_until_the_candidate_is_renewed() {
        let spec = |pinged: Option<&str>, renewed: &str| {
            is_pinged(&json!({"pingTime": pinged, "renewTime": renewed}))
        };
        let (early, late) = ("2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000002Z");
        assert!(spec(Some(late), early));
        assert!(!spec(Some(early), late));
        assert!(!spec(Some(early), early));
        assert!(!spec(None, early));
        assert!(is_pinged(&json!({"pingTime": early})));
    }
}
