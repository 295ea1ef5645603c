//! A host that is killed at its writes and restarted leaves behind what stock leaves behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Interceptor};
use flyball_controlplane::{Options, Process};
use flyball_differential::plane::WORKLOADS;
use flyball_differential::{Golden, Plane, Scenario, Subject, play_on, prepare};
use tokio::sync::{mpsc, oneshot};

/// The scenarios that are played side by side.
const PLAYED: [&str; 7] = [
    "deployment/rolling-update",
    "deployment/rollback",
    "job/backoff-limit-per-index",
    "job/indexed",
    "replicaset/created-and-scaled",
    "replicationcontroller/adopted-and-released",
    "root-ca-certificate-publisher/emptied",
];
/// More scenarios for the test that kills at every write: one for each of the other controllers.
const PLAYED_ALONE: [&str; 5] = [
    "garbage-collector/foreground",
    "legacy-serviceaccount-token-cleaner/used-long-ago",
    "namespace/custom-resources",
    "serviceaccount/deleted-twice",
    "serviceaccount-token/account-deleted",
];
/// The distance, in writes, between two kills of one play in that test.
const STRIDE: usize = 3;
/// More kills than a scenario has writes.
const MOST_KILLS: usize = 300;
/// The write at which each host is killed: the first host at its first write, and so on.
const KILLED_AT: [usize; 10] = [1, 2, 3, 5, 8, 13, 2, 7, 1, 4];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_kills_change_nothing_of_what_is_left() -> Result<()> {
    let mut scenarios = Scenario::all()?;
    scenarios.retain(|scenario| PLAYED.contains(&scenario.name.as_str()));
    ensure!(
        scenarios.len() == PLAYED.len(),
        "some of the scenarios don't exist"
    );
    let cluster = Cluster::start(Options::default()).await?;
    let mut crashes = Crashes::start(&cluster, &WORKLOADS, &KILLED_AT).await?;
    let outcomes = tokio::select! {
        outcomes = play_on(&cluster, &scenarios) => outcomes?,
        error = crashes.happen(&cluster) => return Err(error),
    };
    ensure!(
        crashes.left() == 0,
        "{} kills did not happen: there were too few writes",
        crashes.left()
    );
    crashes.end(cluster).await?;
    let mut differences = Vec::new();
    for (name, outcome) in outcomes {
        let outcome = outcome.with_context(|| format!("{name} didn't come to its end"))?;
        let found = Golden::read(&name)?
            .compare(&outcome, &BTreeMap::new())
            .objects;
        differences.extend(found.into_iter().map(|text| format!("{name}: {text}")));
    }
    ensure!(
        differences.is_empty(),
        "what is left differs:\n{}",
        differences.join("\n")
    );
    Ok(())
}

/// A kill at each write of a scenario for each controller, at every third one in one play.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long: `cargo xtask test --full` runs it"]
async fn a_kill_at_any_write_changes_nothing_of_what_is_left() -> Result<()> {
    let all = Scenario::all()?;
    for name in PLAYED.into_iter().chain(PLAYED_ALONE) {
        let scenario = all
            .iter()
            .find(|scenario| scenario.name == name)
            .with_context(|| format!("the scenario {name} doesn't exist"))?;
        let mut killed = 0;
        for first in 1..=STRIDE {
            let cluster = Cluster::start(Options::default()).await?;
            let scenarios = std::slice::from_ref(scenario);
            prepare(&cluster, scenarios).await?;
            let points: Vec<usize> = std::iter::once(first)
                .chain(std::iter::repeat_n(STRIDE, MOST_KILLS))
                .collect();
            let mut crashes = Crashes::start(&cluster, scenario.plane()?, &points).await?;
            let mut outcomes = tokio::select! {
                outcomes = play_on(&cluster, scenarios) => outcomes?,
                error = crashes.happen(&cluster) => return Err(error),
            };
            let left = crashes.left();
            crashes.end(cluster).await?;
            ensure!(
                (1..points.len()).contains(&left),
                "{name}: {left} of {} kills were left",
                points.len()
            );
            killed += points.len() - left;
            let outcome = outcomes
                .remove(name)
                .context("the scenario has no outcome")??;
            let found = Golden::read(name)?
                .compare(&outcome, &BTreeMap::new())
                .objects;
            ensure!(
                found.is_empty(),
                "{name}, killed at write {first} and every {STRIDE}:\n{}",
                found.join("\n")
            );
        }
        println!("{name}: killed {killed} times");
    }
    Ok(())
}

/// A host that is killed at chosen writes.
struct Crashes {
    host: Process,
    plane: &'static Plane,
    /// Receives requests for a kill, each with a sender that confirms it.
    asked: mpsc::Receiver<oneshot::Sender<()>>,
    countdown: Arc<AtomicUsize>,
    points: Vec<usize>,
    _interceptor: Interceptor,
}

impl Crashes {
    /// Starts a host. `points` holds the writes at which it and each host after it are killed.
    async fn start(cluster: &Cluster, plane: &'static Plane, points: &[usize]) -> Result<Self> {
        let mut points: Vec<usize> = points.iter().rev().copied().collect();
        let countdown = Arc::new(AtomicUsize::new(points.pop().unwrap_or_default()));
        let (ask, asked) = mpsc::channel(1);
        let counted = countdown.clone();
        let interceptor = Interceptor::start(&cluster.client, move |write| {
            // At 0 it stays, and nothing is killed any more.
            let before = counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
            let ask = ask.clone();
            async move {
                let (killed, is_killed) = oneshot::channel();
                if before == Ok(1) && ask.send(killed).await.is_ok() {
                    println!("killed at: {write}");
                    // The write is done once nobody waits for its response. An error means that the
                    // test has ended.
                    let _ = is_killed.await;
                }
            }
        })
        .await?;
        let host = Subject::Flyball.start(cluster, plane, 200, 300)?;
        // The first kill is no longer among the points.
        Ok(Self {
            host,
            plane,
            asked,
            countdown,
            points,
            _interceptor: interceptor,
        })
    }

    /// Kills and starts hosts while it is polled.
    async fn happen(&mut self, cluster: &Cluster) -> anyhow::Error {
        loop {
            let Some(killed) = self.asked.recv().await else {
                return anyhow::anyhow!("the webhook has ended");
            };
            let again = self.host.kill().map_err(anyhow::Error::from).and_then(|_| {
                let _ = killed.send(());
                self.countdown
                    .store(self.points.pop().unwrap_or_default(), Ordering::SeqCst);
                Subject::Flyball.start(cluster, self.plane, 200, 300)
            });
            match again {
                Ok(host) => self.host = host,
                Err(error) => return error,
            }
        }
    }

    /// The number of kills that have not happened.
    fn left(&self) -> usize {
        self.points.len() + usize::from(self.countdown.load(Ordering::SeqCst) > 0)
    }

    async fn end(mut self, cluster: Cluster) -> Result<()> {
        let status = self.host.stop().await?;
        ensure!(status.success(), "the host ended with {status}");
        cluster.shutdown().await
    }
}
