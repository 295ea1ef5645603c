//! Plays the same scenarios under Flyball and under the stock kube-controller-manager, and compares
//! the results.
//!
//! A [`Scenario`] is a file with objects to create, changes of them, and conditions to wait for.
//! [`play_all`] plays scenarios concurrently, each in a separate namespace, on fresh control planes
//! with fake nodes ([`Plane`]). It returns the outcome of each: the objects without random values
//! ([`normalise`]), the events, and the number of writes ([`writes`]). The outcomes under the stock
//! controllers are stored as a [`Golden`], with which [`compare_all`] compares those under Flyball.

mod certificates;
mod cloud;
mod compare;
mod earlier_release;
mod endpoints;
mod folders;
mod generated_names;
pub mod golden;
mod later;
pub mod managers;
pub mod metrics;
pub mod normalise;
pub mod plane;
mod play;
mod repetition;
mod rest;
mod scenario;
mod secrets;
mod tables;
pub mod texts;
pub mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::slice::from_mut;
use std::time::Instant;

use anyhow::Result;
use flyball_cluster_tests::Cluster;
use flyball_controlplane::{Options, Process};
use futures::StreamExt;
use serde_json::Value;

pub use flyball_controlplane::api;

pub use self::compare::{Report, compare_all};
use self::earlier_release::hide_differences;
pub use self::folders::controllers;
pub use self::golden::Golden;
use self::metrics::Series;
pub use self::plane::Plane;
use self::repetition::Recordings;
pub use self::repetition::repeat_calls;
pub use self::scenario::Scenario;
use self::texts::Texts;
use self::writes::Writes;

/// The name of the subject's process.
pub const CONTROLLERS: &str = "controllers";
/// The rate limits of the controllers: requests per second, and at once.
const QPS: u32 = 200;
const BURST: u32 = 300;
/// How many scenarios are played concurrently on a control plane.
const SCENARIOS_AT_ONCE: usize = 12;
/// How many control planes run concurrently if their scenarios mostly wait.
const PLANES_AT_ONCE: usize = 3;

/// The controllers that play a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The host under test, with its built-in guests.
    Flyball,
    /// The stock kube-controller-manager.
    Stock,
    /// The stock kube-controller-manager of the release before the current one.
    StockBefore,
}

/// The result of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The objects, normalised and sorted.
    pub objects: Vec<Value>,
    /// The controllers' events: component, type, kind of the object and reason.
    pub events: BTreeSet<String>,
    /// The managers of the objects' fields: see [`managers`].
    pub managers: BTreeSet<String>,
    pub writes: Writes,
}

impl Subject {
    /// Starts the subject on a cluster, with the controllers of a plane and these rate limits.
    ///
    /// # Errors
    /// Its binary is missing or doesn't start.
    pub fn start(self, cluster: &Cluster, plane: &Plane, qps: u32, burst: u32) -> Result<Process> {
        self.start_with(
            cluster,
            CONTROLLERS,
            &plane.controllers(self),
            qps,
            burst,
            &plane.flags()?,
        )
    }

    /// Like [`start`](Self::start), with this process name, these controllers (in the syntax of
    /// `--controllers`) and additional flags. Leader election is disabled unless a flag enables it.
    ///
    /// # Errors
    /// Its binary is missing or doesn't start.
    pub fn start_with(
        self,
        cluster: &Cluster,
        name: &str,
        controllers: &str,
        qps: u32,
        burst: u32,
        more: &[&str],
    ) -> Result<Process> {
        let mut flags = vec![
            format!("--controllers={controllers}"),
            "--use-service-account-credentials=true".into(),
            format!("--kube-api-qps={qps}"),
            format!("--kube-api-burst={burst}"),
            "--leader-elect=false".into(),
        ];
        if self == Self::Flyball {
            // `start_kcm` passes these to stock.
            let (ca, key) = (
                cluster.plane.root_ca_file(),
                cluster.plane.service_account_key_file(),
            );
            flags.push(format!("--root-ca-file={}", ca.display()));
            flags.push(format!("--cluster-signing-cert-file={}", ca.display()));
            flags.push(format!(
                "--cluster-signing-key-file={}",
                cluster.plane.ca_key_file().display()
            ));
            flags.push(format!(
                "--service-account-private-key-file={}",
                key.display()
            ));
        }
        flags.extend(more.iter().copied().map(str::to_owned));
        match self {
            Self::Flyball => cluster.spawn_host(name, cluster.plane.kcm_kubeconfig_path(), &flags),
            Self::Stock | Self::StockBefore => {
                let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                if self == Self::Stock {
                    return cluster.plane.start_kcm(&flags);
                }
                let program = flyball_controlplane::find_or_build_kcm_before()?;
                cluster.plane.start_kcm_of(Command::new(program), &flags)
            }
        }
    }
}

/// The results of all scenarios that were played.
#[derive(Debug, Default)]
pub struct Played {
    /// The outcome or the error of each scenario, by its name.
    pub outcomes: BTreeMap<String, Result<Outcome>>,
    /// The metrics of the planes all of whose scenarios were played, by the plane's name.
    pub metrics: BTreeMap<&'static str, Series>,
    /// The texts that the controllers wrote.
    pub texts: Texts,
    /// The calls that parted from their recordings.
    pub parted: Vec<String>,
}

/// Plays scenarios on fresh control planes. Scenarios of the same plane are played concurrently, and
/// each one that must be alone on a separate control plane.
///
/// # Errors
/// A control plane or its controllers couldn't be started or stopped.
pub async fn play_all(subject: Subject, scenarios: &[Scenario]) -> Result<Played> {
    let mut sets: Vec<(&Plane, Vec<Scenario>)> = Vec::new();
    for scenario in scenarios {
        let plane = scenario.plane()?;
        let set = sets
            .iter_mut()
            .find(|(other, set)| *other == plane && !scenario.is_alone() && !set[0].is_alone());
        match set {
            Some((_, set)) => set.push(scenario.clone()),
            None => sets.push((plane, vec![scenario.clone()])),
        }
    }
    // The largest set first.
    sets.sort_by_key(|(_, set)| std::cmp::Reverse(set.len()));
    let (busy, idle): (Vec<_>, Vec<_>) = sets.into_iter().partition(|(plane, _)| plane.is_busy);
    let mut all = Played::default();
    for (sets, at_once) in [(busy, 1), (idle, PLANES_AT_ONCE)] {
        let played = futures::stream::iter(
            sets.iter()
                .map(|(plane, set)| play_set(subject, plane, set)),
        );
        let played: Vec<_> = played.buffer_unordered(at_once).collect().await;
        for played in played {
            let played = played?;
            all.outcomes.extend(played.outcomes);
            all.metrics.extend(played.metrics);
            texts::add(&mut all.texts, played.texts);
            all.parted.extend(played.parted);
        }
    }
    Ok(all)
}

async fn play_set(subject: Subject, plane: &Plane, scenarios: &[Scenario]) -> Result<Played> {
    let begun = Instant::now();
    // Only a scenario that is alone has feature gates.
    let gates = scenarios[0].gates_flag();
    let mut options = Options {
        audit: true,
        audit_bodies: true,
        ..plane.options()?
    };
    options.apiserver_args.extend(gates.clone());
    let mut cluster = plane.start(options).await?;
    let unprepared = prepare_each(&cluster, scenarios).await;
    let _metrics_api = plane.start_metrics_api(&cluster).await?;
    let (port, serving) = cluster.serving();
    let flags = plane.flags()?.into_iter();
    let more = serving.iter().chain(&gates).map(String::as_str);
    let flags: Vec<&str> = flags.chain(more).collect();
    let names = plane.controllers(subject);
    let mut controllers = subject.start_with(&cluster, CONTROLLERS, &names, QPS, BURST, &flags)?;
    let recordings = match subject {
        Subject::Flyball => Recordings::start(&cluster, CONTROLLERS).await?,
        Subject::Stock | Subject::StockBefore => None,
    };
    let cloud_controllers = cloud::start_manager(subject, &cluster, plane).await?;
    let later_controllers = later::start_stock(subject, &cluster, plane).await?;
    let is_prepared = |scenario: &&Scenario| !unprepared.contains_key(&scenario.name);
    let prepared: Vec<Scenario> = scenarios.iter().filter(is_prepared).cloned().collect();
    let mut outcomes = play_on(&cluster, &prepared).await?;
    let unprepared = unprepared.into_iter();
    outcomes.extend(unprepared.map(|(name, error)| (name, Err(error))));
    let mut metrics = BTreeMap::new();
    // Stock's later controllers run in a process of their own, which serves no metrics.
    let has_later = plane.later_controllers().next().is_some();
    let has_all =
        !scenarios.iter().any(Scenario::is_alone) && Scenario::are_all_of(plane, scenarios)?;
    if has_all && !has_later {
        metrics.insert(plane.name(), metrics::scrape(&cluster, port).await?);
    }
    controllers.stop().await?;
    let parted = match recordings {
        Some(recordings) => recordings.repeat().await?,
        None => Vec::new(),
    };
    for mut process in cloud_controllers.into_iter().chain(later_controllers) {
        process.stop().await?;
    }
    let texts = texts::written(&cluster)?;
    if outcomes.values().any(Result::is_err) {
        cluster.plane.keep_logs();
    }
    cluster.shutdown().await?;
    if let [first, .., last] | [first @ last] = scenarios {
        println!(
            "played {} to {}: {} in {} s",
            first.name,
            last.name,
            scenarios.len(),
            begun.elapsed().as_secs()
        );
    }
    Ok(Played {
        outcomes,
        metrics,
        texts,
        parted,
    })
}

/// Plays the steps of scenarios before the controllers start.
///
/// # Errors
/// A step failed.
pub async fn prepare(cluster: &Cluster, scenarios: &[Scenario]) -> Result<()> {
    let mut failed = prepare_each(cluster, scenarios).await.into_values();
    failed.next().map_or(Ok(()), Err)
}

/// Plays the steps before the controllers start. Returns the errors, by the names of the scenarios that failed.
async fn prepare_each(
    cluster: &Cluster,
    scenarios: &[Scenario],
) -> BTreeMap<String, anyhow::Error> {
    let mut failed = BTreeMap::new();
    for scenario in scenarios
        .iter()
        .filter(|scenario| !scenario.before.is_empty())
    {
        if let Err(error) = play::prepare(cluster, scenario).await {
            failed.insert(scenario.name.clone(), error);
        }
    }
    failed
}

/// Plays scenarios concurrently on a cluster with controllers. Scenarios with steps before the
/// controllers' start must be [`prepare`]d, and the namespaces of the others must not exist. Counts
/// writes if the cluster has an audit log.
///
/// # Errors
/// The audit log can't be read.
pub async fn play_on(
    cluster: &Cluster,
    scenarios: &[Scenario],
) -> Result<BTreeMap<String, Result<Outcome>>> {
    let played = futures::stream::iter(scenarios.iter().map(async |scenario| {
        let played = async {
            if scenario.before.is_empty() {
                play::prepare(cluster, scenario).await?;
            }
            play::play(cluster, scenario).await
        };
        (scenario, played.await)
    }));
    let played: Vec<_> = played.buffer_unordered(SCENARIOS_AT_ONCE).collect().await;
    let audit = if cluster.plane.audit_log_path().is_some() {
        cluster.plane.audit_events()?
    } else {
        Vec::new()
    };
    let outcomes = played.into_iter().map(|(scenario, played)| {
        let outcome = played.and_then(|rest| {
            let mut writes = Writes::of(scenario, &audit, rest.time);
            writes.add_calls(&rest.calls);
            let mut managers = managers::managers(&rest.objects);
            let mut objects = normalise::objects(rest.objects);
            hide_differences(from_mut(&mut objects), from_mut(&mut managers))?;
            let events = normalise::events(&rest.events);
            Ok(Outcome {
                objects,
                events,
                managers,
                writes,
            })
        });
        (scenario.name.clone(), outcome)
    });
    Ok(outcomes.collect())
}
