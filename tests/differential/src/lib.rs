//! The same scenarios under Flyball and under the stock kube-controller-manager.
//!
//! A [`Scenario`] is a file: objects to create, what happens to them, and what to wait for. [`play_all`] plays scenarios
//! side by side, each in a namespace of its own, on a fresh control plane with fake nodes, and returns what each left
//! behind: the objects without what chance decides ([`normalise`]), which events there were, and how many writes it took
//! ([`writes`]). What the stock controllers left behind is kept as a [`Golden`], against which Flyball is held.

pub mod api;
pub mod golden;
pub mod normalise;
mod play;
mod scenario;
pub mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use flyball_cluster_tests::Cluster;
use flyball_controlplane::{Options, Process};
use futures::StreamExt;
use serde_json::Value;

pub use self::golden::Golden;
pub use self::scenario::Scenario;
use self::writes::Writes;

/// The controllers that are compared, in the syntax of `--controllers`.
pub const CONTROLLERS: &str = "deployment-controller,job-controller,replicaset-controller,\
                               replicationcontroller-controller,root-ca-certificate-publisher-controller,\
                               serviceaccount-controller";
/// How many scenarios are played side by side.
const AT_ONCE: usize = 16;

/// Who controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The host under test, with its built-in guests.
    Flyball,
    /// The stock kube-controller-manager.
    Stock,
}

/// What a scenario left behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the controllers keep or own, normalised and sorted.
    pub objects: Vec<Value>,
    /// The controllers' events: component, type, kind of the object and reason.
    pub events: BTreeSet<String>,
    /// The controllers' writes.
    pub writes: Writes,
}

impl Subject {
    /// Starts it on a cluster, with these limits of requests.
    ///
    /// # Errors
    /// Its binary is missing or doesn't start.
    pub fn start(self, cluster: &Cluster, qps: u32, burst: u32) -> Result<Process> {
        let flags = [
            format!("--controllers={CONTROLLERS}"),
            "--use-service-account-credentials=true".into(),
            format!("--kube-api-qps={qps}"),
            format!("--kube-api-burst={burst}"),
        ];
        match self {
            Self::Flyball => cluster.spawn_host("flyball", cluster.plane.kcm_kubeconfig_path(), &flags),
            Self::Stock => {
                let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                flags.push("--leader-elect=false");
                cluster.plane.start_kcm(&flags)
            }
        }
    }
}

/// Plays scenarios side by side on a fresh control plane.
///
/// Answers each scenario's outcome, or why it didn't come to its end.
///
/// # Errors
/// The control plane or the controllers couldn't be started or ended.
pub async fn play_all(subject: Subject, scenarios: &[Scenario]) -> Result<BTreeMap<String, Result<Outcome>>> {
    let cluster = Cluster::start(Options { audit: true, ..Options::default() }).await?;
    let mut controllers = subject.start(&cluster, 200, 300)?;
    let outcomes = play_on(&cluster, scenarios).await?;
    controllers.stop().await?;
    cluster.shutdown().await?;
    Ok(outcomes)
}

/// Plays scenarios side by side on a cluster that has controllers, and of which no namespace has a scenario's name. Counts
/// writes if the cluster keeps an audit log.
///
/// # Errors
/// The audit log can't be read.
pub async fn play_on(cluster: &Cluster, scenarios: &[Scenario]) -> Result<BTreeMap<String, Result<Outcome>>> {
    let played = futures::stream::iter(scenarios.iter().map(|scenario| play::play(cluster, scenario)));
    let played: Vec<_> = played.buffered(AT_ONCE).collect().await;
    let audit = if cluster.plane.audit_log_path().is_some() { cluster.plane.audit_events()? } else { Vec::new() };
    let outcomes = scenarios.iter().zip(played).map(|(scenario, played)| {
        let outcome = played.map(|(objects, events)| {
            let writes = Writes::count(&audit, &scenario.namespace());
            Outcome { objects: normalise::objects(objects), events: normalise::events(&events), writes }
        });
        (scenario.name.clone(), outcome)
    });
    Ok(outcomes.collect())
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
