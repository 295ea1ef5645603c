//! A host that is killed at its writes and restarted has the same results as stock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Interceptor, until};
use flyball_controllers::{Guest, Scenarios, built_in};
use flyball_controlplane::Process;
use flyball_differential::plane::WORKLOADS;
use flyball_differential::{
    CONTROLLERS, Golden, Outcome, Plane, Scenario, Subject, play_on, prepare,
};
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// The number of writes from one kill to the next in that test.
const STRIDE: usize = 3;
/// The number of scenarios that it plays at once. They mostly wait for the next host.
const AT_ONCE: usize = 3;
/// More kills than any scenario has writes.
const MAX_KILLS: usize = 300;
/// The write at which each host is killed. The first host is killed at its first write.
const KILLED_AT: [usize; 10] = [1, 2, 3, 5, 8, 13, 2, 7, 1, 4];
/// The same where the scenarios have few writes.
const KILLED_SOON_AT: [usize; 10] = [1; 10];
/// The writes of other controllers to each new namespace, at which the test of ten kills does not kill.
const SETUP: [&str; 2] = ["create configmaps", "create serviceaccounts"];
/// The states of a plugin that does not reconcile yet, and soon will.
const STARTING: [&str; 2] = ["loading", "starting"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_kills_on_each_plane_do_not_change_the_results() -> Result<()> {
    let all = Scenario::all()?;
    let mut sets: BTreeMap<&str, Vec<Scenario>> = BTreeMap::new();
    for (_, guest) in built_in() {
        let set = sets.entry(guest.scenarios.plane).or_default();
        for name in guest.scenarios.killed {
            set.push(find(&all, guest, name)?.clone());
        }
    }
    for set in sets.values() {
        let Some(first) = set.first() else { continue };
        let plane = first.plane()?;
        let kills = if *plane == WORKLOADS {
            KILLED_AT
        } else {
            KILLED_SOON_AT
        };
        // A host that finds several changes at once when it starts makes fewer writes: the scenarios are played again
        // then.
        let mut left = kills.as_slice();
        while !left.is_empty() {
            let happened = play_with_kills(plane, set, left).await;
            left = &left[happened.with_context(|| format!("on the plane {}", plane.name()))?..];
        }
    }
    Ok(())
}

/// Plays scenarios concurrently, compares the results, and returns how many of the kills happened. Fails if none did.
async fn play_with_kills(
    plane: &'static Plane,
    scenarios: &[Scenario],
    kills: &[usize],
) -> Result<usize> {
    let cluster = plane.start(plane.options()?).await?;
    prepare(&cluster, scenarios).await?;
    let mut crashes = Crashes::start(&cluster, plane, kills, &SETUP).await?;
    let outcomes = tokio::select! {
        outcomes = play_on(&cluster, scenarios) => outcomes?,
        error = crashes.run(&cluster) => return Err(error),
    };
    let happened = kills.len() - crashes.left();
    ensure!(happened > 0, "no kill happened, because there was no write");
    crashes.end(cluster).await?;
    let mut all = Vec::new();
    for (name, outcome) in outcomes {
        let found = differences(&name, outcome);
        let found = found.with_context(|| format!("{name} failed"))?;
        all.extend(found.into_iter().map(|text| format!("{name}: {text}")));
    }
    ensure!(all.is_empty(), "the results differ:\n{}", all.join("\n"));
    Ok(happened)
}

/// Returns how the objects of an outcome differ from stock's.
fn differences(scenario: &str, outcome: Result<Outcome>) -> Result<Vec<String>> {
    let golden = Golden::read(scenario)?;
    Ok(golden.compare(&outcome?, &BTreeMap::new(), 0).objects)
}

/// Returns a scenario that a manifest names.
fn find<'a>(all: &'a [Scenario], guest: &Guest, name: &str) -> Result<&'a Scenario> {
    let name = format!("{}/{name}", guest.folder);
    all.iter()
        .find(|scenario| scenario.name == name)
        .with_context(|| format!("the scenario {name} doesn't exist"))
}

/// Kills at each write of a scenario for each controller. Each play is on a control plane of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long: `cargo xtask test --full` runs it"]
async fn a_kill_at_any_write_does_not_change_the_results() -> Result<()> {
    let all = Scenario::all()?;
    let mut scenarios = Vec::new();
    for (_, guest) in built_in() {
        let Scenarios {
            killed,
            killed_at_every_write,
            ..
        } = guest.scenarios;
        for name in killed.iter().chain(killed_at_every_write) {
            scenarios.push(find(&all, guest, name)?);
        }
    }
    let played = futures::stream::iter(scenarios).map(async |scenario| {
        let name = &scenario.name;
        let killed = kill_at_any_write(scenario).await;
        match &killed {
            Ok(killed) => println!("{name}: killed {killed} times"),
            Err(error) => println!("{name}: {error:#}"),
        }
        killed.with_context(|| name.clone())
    });
    let played: Vec<Result<usize>> = played.buffer_unordered(AT_ONCE).collect().await;
    let failed: Vec<String> = (played.into_iter())
        .filter_map(|result| Some(format!("{:#}", result.err()?)))
        .collect();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// Plays a scenario so often that the host is killed once at each write. Returns the number of kills.
async fn kill_at_any_write(scenario: &Scenario) -> Result<usize> {
    let plane = scenario.plane()?;
    let mut killed = 0;
    for first in 1..=STRIDE {
        let mut cluster = plane.start(plane.options()?).await?;
        let scenarios = std::slice::from_ref(scenario);
        prepare(&cluster, scenarios).await?;
        let _metrics_api = plane.start_metrics_api(&cluster).await?;
        let points: Vec<usize> = std::iter::once(first)
            .chain(std::iter::repeat_n(STRIDE, MAX_KILLS))
            .collect();
        let mut crashes = Crashes::start(&cluster, plane, &points, &[]).await?;
        let mut outcomes = tokio::select! {
            outcomes = play_on(&cluster, scenarios) => outcomes?,
            error = crashes.run(&cluster) => return Err(error),
        };
        let left = crashes.left();
        let outcome = outcomes
            .remove(&scenario.name)
            .context("the scenario has no outcome")?;
        let found = differences(&scenario.name, outcome);
        if !found.as_ref().is_ok_and(Vec::is_empty) {
            cluster.plane.keep_logs();
        }
        crashes.end(cluster).await?;
        ensure!(
            (1..points.len()).contains(&left),
            "{left} of {} kills did not happen",
            points.len()
        );
        killed += points.len() - left;
        let found = found?;
        ensure!(
            found.is_empty(),
            "killed at write {first} and every {STRIDE} writes after it:\n{}",
            found.join("\n")
        );
    }
    Ok(killed)
}

/// Waits until the host has started all of its controllers, and they have reconciled what they found.
async fn until_started(cluster: &Cluster) -> Result<()> {
    until("the controllers have started", async || {
        // The command fails until the host has created its socket.
        let Ok(plugins) = cluster.plugins(CONTROLLERS) else {
            return Ok(Err("there is no status".to_owned()));
        };
        let is_busy = |plugin: &Value| {
            let state = &plugin["state"];
            STARTING.iter().any(|one| state == *one) || plugin["queued"] != 0
        };
        let names: Vec<&Value> = (plugins.iter().filter(|plugin| is_busy(plugin)))
            .map(|plugin| &plugin["name"])
            .collect();
        Ok(match plugins.is_empty() || !names.is_empty() {
            true => Err(format!("of {}, these are busy: {names:?}", plugins.len())),
            false => Ok(()),
        })
    })
    .await
}

/// A host that is killed at chosen writes.
struct Crashes {
    host: Process,
    plane: &'static Plane,
    /// Receives requests for a kill, each with a sender that confirms it.
    requests: mpsc::Receiver<oneshot::Sender<()>>,
    /// The number of writes until the next kill; 0 if there is none.
    countdown: Arc<AtomicUsize>,
    /// The countdowns of the following hosts, in reverse order.
    points: Vec<usize>,
    _interceptor: Interceptor,
}

impl Crashes {
    /// Starts a host. `points` has the number of the write at which it and each following host are
    /// killed, without the writes in `spared`.
    async fn start(
        cluster: &Cluster,
        plane: &'static Plane,
        points: &[usize],
        spared: &'static [&str],
    ) -> Result<Self> {
        let mut points: Vec<usize> = points.iter().rev().copied().collect();
        let countdown = Arc::new(AtomicUsize::new(points.pop().unwrap_or_default()));
        let (request, requests) = mpsc::channel(1);
        let counted = countdown.clone();
        let interceptor = Interceptor::start(&cluster.client, move |write| {
            // At 0, the countdown does not change, and there are no more kills.
            let step = usize::from(!spared.contains(&&*write));
            let before = counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(step)
            });
            let request = request.clone();
            async move {
                let (killed, is_killed) = oneshot::channel();
                if step == 1 && before == Ok(1) && request.send(killed).await.is_ok() {
                    println!("killed at: {write}");
                    // The server does the write only after the host was killed, so the host never gets
                    // the response. An error means that the test has ended.
                    let _ = is_killed.await;
                }
            }
        })
        .await?;
        let host = Subject::Flyball.start(cluster, plane, 200, 300)?;
        Ok(Self {
            host,
            plane,
            requests,
            countdown,
            points,
            _interceptor: interceptor,
        })
    }

    /// Kills and starts hosts until it fails.
    async fn run(&mut self, cluster: &Cluster) -> anyhow::Error {
        loop {
            let is_restarting = cluster.running_since().is_none();
            let request = tokio::select! {
                request = self.requests.recv() => request,
                started = until_started(cluster), if is_restarting => match started {
                    Ok(()) => {
                        cluster.restarted();
                        continue;
                    }
                    Err(error) => return error,
                },
            };
            let Some(killed) = request else {
                return anyhow::anyhow!("the webhook has ended");
            };
            cluster.killed();
            let restarted = self.host.kill().map_err(anyhow::Error::from).and_then(|_| {
                let _ = killed.send(());
                self.countdown
                    .store(self.points.pop().unwrap_or_default(), Ordering::SeqCst);
                Subject::Flyball.start(cluster, self.plane, 200, 300)
            });
            match restarted {
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
