//! Leader election: holds a Lease in the cluster with client-go's protocol, so that kube-controller-manager and Flyball
//! can take turns on the same one.
//!
//! The holder moves the fence (`fence.rs`) forward with each renewal. A process that could not renew in time ends,
//! because another may lead.
//!
//! With coordinated leader election, the API server writes the holder into the Lease. A process announces itself as a
//! candidate (`candidate.rs`), and only renews.

mod candidate;
mod note;
mod record;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError};
use flyball_serving::{HealthChecks, Metrics};
use flyball_types::{ApiError, Effect, EventOptions};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::client::{ApiClient, ApiRequest};
use crate::events::{Event, Recorder};
use crate::fence::{self, Fence, Term};
use crate::rights::{HostRight, HostScope, HostVerb};
use candidate::Candidate;
pub use note::LeaseNote;
use record::{Decision, Observed};

const GET: HostRight = HostRight {
    verb: HostVerb::Get,
    group: "coordination.k8s.io",
    resource: "leases",
    scope: HostScope::Lease,
};
const UPDATE: HostRight = HostRight {
    verb: HostVerb::Update,
    ..GET
};
const CREATE: HostRight = HostRight {
    verb: HostVerb::Create,
    scope: HostScope::LeaseNamespace,
    ..GET
};
pub(super) const RIGHTS: [HostRight; 3] = [GET, UPDATE, CREATE];

/// A clock that counts the time for which the machine or the process was suspended.
type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The pause between two attempts is longer by a random factor up to this.
const JITTER: f64 = 1.2;
/// The time from the end of its lease after which a process that continues is reported as unhealthy.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(20);

/// Settings of the election of a leader.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    /// The lease's namespace.
    pub namespace: String,
    /// The lease's name.
    pub name: String,
    /// The time after the last observed renewal for which other processes wait.
    pub lease_duration: Duration,
    /// The time that the leader may take to renew.
    pub renew_deadline: Duration,
    /// How long to wait between two attempts.
    pub retry_period: Duration,
    /// Whether a process that is stopped releases the lease. Otherwise, other processes wait until it expires.
    pub is_given_up: bool,
    /// The versions by which the API server chooses the leader; none if the processes elect it among themselves.
    pub candidate: Option<CandidateVersions>,
}

/// The versions of a candidate. The API server prefers the oldest emulated version, and then the oldest binary.
#[derive(Clone, Debug)]
pub struct CandidateVersions {
    /// Such as `1.36.0`.
    pub binary: String,
    /// Such as `1.35.0`.
    pub emulation: String,
}

/// The lease could not be renewed in time: another process may lead now.
#[derive(Debug, thiserror::Error)]
#[error("lost the lease {namespace}/{name}: it could not be renewed within {} s: {cause}", .deadline.as_secs())]
pub struct LeaseLost {
    namespace: String,
    name: String,
    deadline: Duration,
    cause: String,
}

/// Acquires the lease and keeps it.
pub struct Elector {
    client: ApiClient,
    election: LeaderElection,
    holder_identity: String,
    fence: Arc<Fence>,
    clock: Clock,
    /// The lease as this process last read it.
    observed: Option<Observed>,
    note: Option<Arc<LeaseNote>>,
    recorder: Recorder,
    master_status: GaugeVec,
    slow_path: CounterVec,
}

impl Elector {
    /// An elector that sends its requests with `client`, and events with `recorder`. The fences of both must be open.
    pub fn new(
        client: ApiClient,
        recorder: Recorder,
        election: LeaderElection,
        holder_identity: &str,
        fence: Arc<Fence>,
        metrics: &Metrics,
    ) -> Result<Self, MetricsError> {
        let master_status = metrics.gauge(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. \
             'name' is the string used to identify the lease. Please make sure to group by name.",
            &["name"],
        )?;
        let slow_path = metrics.counter(
            "leader_election_slowpath_total",
            "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the \
             lease. Please make sure to group by name.",
            &["name"],
        )?;
        master_status.with_label_values(&[&election.name]).set(0.0);
        Ok(Self {
            client,
            election,
            holder_identity: holder_identity.to_owned(),
            fence,
            clock: Arc::new(fence::now),
            observed: None,
            note: None,
            recorder,
            master_status,
            slow_path,
        })
    }

    /// Keeps a note in the lease, which this process has read before it leads.
    pub fn with_note(self, note: Option<Arc<LeaseNote>>) -> Self {
        Self { note, ..self }
    }

    /// Adds the health check `leaderElection`, which fails if the process goes on long after one of its leases has
    /// ended.
    pub fn check(
        fences: Vec<Arc<Fence>>,
        health: &HealthChecks,
    ) -> flyball_serving::health::Registration {
        health.add("leaderElection", move || {
            let now = fence::now();
            let longest = fences.iter().filter_map(|fence| fence.overdue(now)).max();
            match longest {
                Some(overdue) if overdue > UNHEALTHY_AFTER => Err(format!(
                    "failed election to renew leadership on lease: overdue for {} s",
                    overdue.as_secs()
                )),
                _ => Ok(()),
            }
        })
    }

    /// Acquires the lease, sets `leading`, and renews the lease until `released`. Then it releases the lease, if it is
    /// configured so. If the acquisition takes long, `waits` has the reason. Ends at once if `released` comes before
    /// the lease is acquired.
    pub async fn run(
        self,
        leading: watch::Sender<bool>,
        waits: watch::Sender<Option<String>>,
        released: CancellationToken,
    ) -> Result<(), LeaseLost> {
        let candidate = self.candidate();
        let elected = self.elect(leading, waits, released);
        match candidate {
            Some(candidate) => tokio::select! {
                ended = elected => ended,
                never = candidate.run() => match never {},
            },
            None => elected.await,
        }
    }

    /// Returns the candidate that announces this process; none unless the API server chooses the leader.
    fn candidate(&self) -> Option<Candidate> {
        let versions = self.election.candidate.clone()?;
        Some(Candidate::new(
            self.client.clone(),
            &self.election,
            &self.holder_identity,
            versions,
        ))
    }

    async fn elect(
        mut self,
        leading: watch::Sender<bool>,
        waits: watch::Sender<Option<String>>,
        released: CancellationToken,
    ) -> Result<(), LeaseLost> {
        let lease = format!("{}/{}", self.election.namespace, self.election.name);
        tracing::info!(
            lease,
            identity = self.holder_identity,
            "attempting to acquire the lease"
        );
        loop {
            let (reason, is_normal) = match self.try_acquire_or_renew().await {
                Ok(Decision::Take) => break,
                Ok(Decision::Unassigned | Decision::EndOfTerm { .. }) => (
                    format!("the API server has not chosen the holder of the lease {lease} yet"),
                    true,
                ),
                Ok(Decision::Wait { holder })
                    if self.is_coordinated() || self.is_behind_flyball() =>
                {
                    (format!("{holder} holds the lease {lease}"), true)
                }
                Ok(Decision::Wait { holder }) => (
                    format!(
                        "{holder} holds the lease {lease} and is another program, such as a stock kube-controller-manager: \
                         nothing runs here until it ends. To run plugins beside it, start the host with `--controllers=`, which \
                         enables no built-in controller and has a lease of its own"
                    ),
                    false,
                ),
                Err(error) => (format!("can't acquire the lease {lease}: {error}"), false),
            };
            if waits.borrow().as_ref() != Some(&reason) {
                match is_normal {
                    true => tracing::info!("waiting: {reason}"),
                    false => tracing::warn!("waiting: {reason}"),
                }
                waits.send_replace(Some(reason));
            }
            let pause = self
                .election
                .retry_period
                .mul_f64(1.0 + rand::random::<f64>() * JITTER);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = released.cancelled() => return Ok(()),
            }
        }
        waits.send_replace(None);
        tracing::info!(lease, identity = self.holder_identity, "acquired the lease");
        self.master_status
            .with_label_values(&[&self.election.name])
            .set(1.0);
        self.emit("became leader");
        leading.send_replace(true);
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.election.retry_period) => {}
                () = note::written(self.note.as_deref()) => {}
                () = released.cancelled() => break,
            }
            if let Err(cause) = self.renew().await {
                self.fence.close();
                self.master_status
                    .with_label_values(&[&self.election.name])
                    .set(0.0);
                let LeaderElection {
                    namespace,
                    name,
                    renew_deadline: deadline,
                    ..
                } = self.election;
                return Err(LeaseLost {
                    namespace,
                    name,
                    deadline,
                    cause,
                });
            }
        }
        self.fence.close();
        self.master_status
            .with_label_values(&[&self.election.name])
            .set(0.0);
        self.emit("stopped leading");
        if self.election.is_given_up {
            self.give_up().await;
        }
        self.recorder.drain(self.election.retry_period).await;
        Ok(())
    }

    /// Whether the API server chooses the leader.
    fn is_coordinated(&self) -> bool {
        self.election.candidate.is_some()
    }

    /// Whether another Flyball process holds the lease that was read last.
    fn is_behind_flyball(&self) -> bool {
        self.observed
            .as_ref()
            .is_some_and(Observed::is_held_by_flyball)
    }

    /// Tries until the deadline, at least once: a process that was suspended for longer may still hold its lease.
    async fn renew(&mut self) -> Result<(), String> {
        let deadline = (self.clock)() + self.election.renew_deadline;
        loop {
            let failed = match self.try_acquire_or_renew().await {
                Ok(Decision::Take) => return Ok(()),
                Ok(Decision::Wait { holder }) => return Err(format!("{holder} holds it")),
                Ok(Decision::Unassigned) => return Err("it has expired".to_owned()),
                // Like in client-go, this process continues to lead until the time of its next renewal.
                Ok(Decision::EndOfTerm { successor }) => {
                    format!("the API server has chosen {successor} to hold it next")
                }
                Err(error) => error.to_string(),
            };
            let left = deadline.saturating_sub((self.clock)());
            if left < self.election.retry_period {
                return Err(failed);
            }
            tracing::warn!(
                name = self.election.name,
                "can't renew the lease yet: {failed}"
            );
            tokio::time::sleep(self.election.retry_period).await;
        }
    }

    /// Makes one attempt. Returns [`Decision::Take`] if this process holds the lease now, or else why not.
    async fn try_acquire_or_renew(&mut self) -> Result<Decision, ApiError> {
        // With the version that was read last: the server refuses the update if the lease has changed since.
        if let Some(observed) = self.observed.as_ref().filter(|observed| {
            observed.is_held_by(&self.holder_identity)
                && !(self.is_coordinated() && observed.is_at_end_of_term())
        }) {
            let lease = observed.lease.clone();
            match self.take(lease, (self.clock)()).await {
                Ok(()) => return Ok(Decision::Take),
                Err(error) => {
                    self.slow_path
                        .with_label_values(&[&self.election.name])
                        .inc();
                    tracing::debug!(%error, "can't renew the lease with the version that was read last: reading it again");
                }
            }
        }
        let asked = (self.clock)();
        let lease = match self
            .send(ApiRequest::own(GET, self.path(), Bytes::new()))
            .await
        {
            Ok(lease) => lease,
            Err(error) if error.is_not_found() && self.is_coordinated() => {
                return Ok(Decision::Unassigned);
            }
            Err(error) if error.is_not_found() => {
                return self.create(asked).await.map(|()| Decision::Take);
            }
            Err(error) => return Err(error),
        };
        if let Some(note) = &self.note {
            note.read(&lease);
        }
        let observed = Observed::next(self.observed.take(), lease, (self.clock)());
        let decision = match self.is_coordinated() {
            true => record::decide_assigned(&observed, &self.holder_identity, (self.clock)()),
            false => record::decide(&observed, &self.holder_identity, (self.clock)()),
        };
        let lease = observed.lease.clone();
        self.observed = Some(observed);
        if decision == Decision::Take {
            self.take(lease, asked).await?;
        }
        Ok(decision)
    }

    /// Writes this process into the lease. `asked` is a time before the request.
    async fn take(&mut self, mut lease: Value, asked: Duration) -> Result<(), ApiError> {
        record::take(
            &mut lease,
            &self.holder_identity,
            self.election.lease_duration,
        );
        if let Some(note) = &self.note {
            note.put(&mut lease);
        }
        let call = ApiRequest::own(UPDATE, self.path(), Bytes::from(lease.to_string()));
        let lease = self.send(call).await?;
        self.taken(lease, asked);
        Ok(())
    }

    async fn create(&mut self, asked: Duration) -> Result<(), ApiError> {
        let LeaderElection {
            namespace,
            name,
            lease_duration,
            ..
        } = &self.election;
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace}, "spec": {},
        });
        record::take(&mut lease, &self.holder_identity, *lease_duration);
        lease["spec"]["leaseTransitions"] = 0.into();
        let call = ApiRequest::own(CREATE, self.collection(), Bytes::from(lease.to_string()));
        let lease = self.send(call).await?;
        self.taken(lease, asked);
        Ok(())
    }

    fn taken(&mut self, lease: Value, asked: Duration) {
        let LeaderElection {
            lease_duration,
            renew_deadline,
            ..
        } = self.election;
        if let Some(note) = &self.note {
            note.read(&lease);
        }
        self.observed = Some(Observed { lease, at: asked });
        self.fence.lead(Term {
            start_until: asked + renew_deadline,
            end_until: asked + lease_duration,
        });
    }

    /// Lets others take the lease at once, instead of after its duration.
    async fn give_up(&mut self) {
        let Some(mut observed) = self.observed.take() else {
            return;
        };
        record::give_up(&mut observed.lease);
        let call = ApiRequest::own(UPDATE, self.path(), Bytes::from(observed.lease.to_string()));
        if let Err(error) = self.send(call).await {
            tracing::debug!(%error, "can't give up the lease: it ends after its duration");
        }
    }

    async fn send(&self, request: ApiRequest) -> Result<Value, ApiError> {
        // Like in client-go, a second attempt fits before the deadline.
        let patience = self.election.renew_deadline / 2;
        let answer = tokio::time::timeout(patience, self.client.send(request)).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(ApiError::timeout(format!(
                "no answer about the lease within {} s",
                patience.as_secs_f32()
            )))
        })?;
        parsed(&answer, "Lease")
    }

    fn collection(&self) -> String {
        format!(
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
            self.election.namespace
        )
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.election.name)
    }

    /// Emits an event about the lease as this process last read it.
    fn emit(&self, what: &str) {
        let metadata = self
            .observed
            .as_ref()
            .map(|observed| &observed.lease["metadata"]);
        let of_lease = |field: &str| {
            let text = metadata.and_then(|metadata| metadata[field].as_str());
            text.unwrap_or_default().to_owned()
        };
        let about = flyball_plugin::ObjectReference {
            kind: "coordination.k8s.io/v1/Lease".into(),
            namespace: self.election.namespace.clone(),
            name: self.election.name.clone(),
            uid: of_lease("uid"),
        };
        self.recorder.emit_own(Event {
            options: EventOptions {
                resource_version: of_lease("resourceVersion"),
                ..EventOptions::default()
            },
            about,
            event_type: "Normal".into(),
            reason: "LeaderElection".into(),
            message: format!("{} {what}", self.holder_identity),
            at: std::time::SystemTime::now(),
        });
    }
}

/// The object in an answer, which should be of this kind.
fn parsed(answer: &[u8], kind: &str) -> Result<Value, ApiError> {
    serde_json::from_slice(answer).map_err(|error| {
        let message = format!("the server's answer is not a {kind}: {error}");
        ApiError::internal(Effect::Unknown, message)
    })
}

#[cfg(test)]
mod tests;
