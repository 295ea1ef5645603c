//! `cargo xtask bench`: measures the cost of the same work under Flyball and under the stock kube-controller-manager,
//! and the costs of guest calls, of plugins that misbehave and of many idle plugins. `tests/bench/README.md` describes
//! the workloads.

mod autoscalers;
mod bed;
mod cascade;
mod certificates;
mod check;
mod churn;
mod converge;
mod empty;
mod heartbeats;
mod idle_plugins;
mod jobs;
mod large;
mod latency;
mod plot;
mod process;
mod relays;
mod reload;
mod report;
mod ring;
mod runtime;
mod services;
mod sets;
mod sizes;
mod standby;
mod sync;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use flyball_differential::Subject;
use xtask::build::{self, Profile};
use xtask::guests::projects;
use xtask::run::{exit_code, say, workspace};

use self::report::{Figures, Report, Rounds};
use self::sizes::{RING_ROUNDS, SETS, Size, count, describe, shape, time};
use self::sync::Full;

/// How often a condition is checked, and for how long at most.
const POLL: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(900);

/// The number of times that a workload is measured. Each figure is the median.
const ROUNDS: usize = 3;

/// A workload on a control plane.
#[derive(Clone, Copy)]
struct OnCluster {
    name: &'static str,
    /// Measured once, since it takes long or varies little.
    is_once: bool,
    /// Whether stock can run the workload.
    has_stock: bool,
    /// The bounds of Flyball's figures.
    bounds: Bounds,
}

/// The most that a figure whose name contains the text may be, as a part of stock's in the same run.
type Bounds = &'static [(&'static str, f64)];

const BOUNDS: Bounds = &[
    ("CPU", 0.6),
    ("memory", 0.35),
    ("time, s", 1.05),
    ("API writes", 1.05),
];
/// The bounds for workloads whose objects are much larger than usual.
const BOUNDS_OF_LARGE: Bounds = &[("CPU", 1.0), ("memory", 1.0), ("API writes", 1.05)];

impl OnCluster {
    const fn repeated(name: &'static str) -> Self {
        Self {
            name,
            is_once: false,
            has_stock: true,
            bounds: &[],
        }
    }

    const fn bounded(name: &'static str) -> Self {
        Self {
            bounds: BOUNDS,
            ..Self::once(name)
        }
    }

    const fn large(name: &'static str) -> Self {
        Self {
            bounds: BOUNDS_OF_LARGE,
            ..Self::once(name)
        }
    }

    const fn once(name: &'static str) -> Self {
        Self {
            is_once: true,
            ..Self::repeated(name)
        }
    }

    const fn once_without_stock(name: &'static str) -> Self {
        Self {
            has_stock: false,
            ..Self::once(name)
        }
    }
}

/// The workloads on a control plane, in the order in which they are measured.
const ON_CLUSTERS: [OnCluster; 34] = [
    OnCluster::repeated("converge-small"),
    OnCluster::repeated("converge-wide"),
    OnCluster::repeated("converge-deep"),
    OnCluster::repeated("jobs"),
    OnCluster::repeated("rollout"),
    OnCluster::repeated("latency"),
    OnCluster::repeated("sync"),
    OnCluster::bounded("sets-parallel"),
    OnCluster::bounded("sets-ordered"),
    OnCluster::bounded("daemons"),
    OnCluster::bounded("cronjobs"),
    OnCluster::bounded("budgets"),
    OnCluster::bounded("services"),
    OnCluster::bounded("endpoints-5000"),
    OnCluster::bounded("heartbeats"),
    OnCluster::bounded("heartbeats-5000"),
    OnCluster::bounded("certificates"),
    OnCluster::bounded("autoscalers"),
    OnCluster::bounded("empty"),
    OnCluster::once_without_stock("built-ins"),
    OnCluster::once("standby"),
    OnCluster::once("steady"),
    OnCluster::once("cascade"),
    OnCluster::once("sync-50000"),
    OnCluster::large("job-10000"),
    OnCluster::large("job-100000"),
    OnCluster::large("replicaset-20000"),
    OnCluster::large("owner-20000"),
    OnCluster::large("owner-200000"),
    OnCluster::large("deployment-2000"),
    OnCluster::once_without_stock("growth"),
    OnCluster::once_without_stock("ring"),
    OnCluster::once_without_stock("reload"),
    OnCluster::once_without_stock(IDLE_PLUGINS),
];
/// The workloads of the runtime alone.
const OF_RUNTIME: [&str; 4] = ["call", "hostile", "idle", LANGUAGES];
/// The workloads that compare languages. They run the greeters of all.
const LANGUAGES: &str = "languages";
const IDLE_PLUGINS: &str = "idle-plugins";
/// Measured in a whole run only if they are named: each takes more than half an hour.
const IF_NAMED: [&str; 3] = ["hostile", "job-100000", "owner-200000"];
/// A quick run leaves these out: they differ from others only in size.
const SAME_IF_QUICK: [&str; 7] = [
    "converge-wide",
    "converge-deep",
    "endpoints-5000",
    "heartbeats-5000",
    "sync-50000",
    "job-100000",
    "owner-200000",
];

/// Measure the cost of the same work under Flyball and under the stock kube-controller-manager
///
/// Both are measured in turn on the same machine. The costs of guest calls, of plugins that misbehave and of idle
/// plugins are also measured. tests/bench/README.md describes the workloads.
#[derive(Parser)]
#[command(name = "bench", bin_name = "cargo xtask bench", max_term_width = 100)]
struct Arguments {
    /// Run every workload once with a small size, to check that it works
    #[arg(long)]
    quick: bool,
    /// Measure only Flyball, and once
    #[arg(long, conflicts_with = "quick")]
    alone: bool,
    /// Write the figures of the named workloads into docs/, like those of a whole run
    #[arg(long, conflicts_with_all = ["quick", "alone"])]
    keep: bool,
    /// The workloads; all but the longest (`hostile`, `job-100000`, `owner-200000`) if none is named
    #[arg(value_name = "WORKLOAD", value_parser = PossibleValuesParser::new(all_names()))]
    workloads: Vec<String>,
}

/// The names of all workloads.
fn all_names() -> impl Iterator<Item = &'static str> {
    ON_CLUSTERS
        .into_iter()
        .map(|workload| workload.name)
        .chain(OF_RUNTIME)
}

/// Whether a workload compares languages, so that its figures are in docs/languages.md.
fn of_languages(workload: &str) -> bool {
    [LANGUAGES, IDLE_PLUGINS].contains(&workload)
}

fn main() -> ExitCode {
    exit_code(measure(&Arguments::parse()))
}

/// Measures all workloads, or the named ones.
fn measure(arguments: &Arguments) -> Result<()> {
    let names = &arguments.workloads;
    let alone = arguments.alone;
    let size = if arguments.quick {
        Size::Quick
    } else {
        Size::Whole
    };
    let is_whole_run = names.is_empty() && size == Size::Whole && !alone;
    let is_kept = arguments.keep || is_whole_run;
    let all: Vec<&str> = all_names().collect();
    let is_left_out = |name: &str| match size {
        Size::Whole => IF_NAMED.contains(&name),
        Size::Quick => SAME_IF_QUICK.contains(&name),
    };
    let is_selected = |name: &str| {
        if names.is_empty() {
            !is_left_out(name)
        } else {
            names.iter().any(|selected| selected == name)
        }
    };
    let profile = match size {
        Size::Quick => Profile::Dev,
        Size::Whole => Profile::Release,
    };
    let (built, _) = build::all_for_tests(profile)?;
    if all
        .iter()
        .any(|name| of_languages(name) && is_selected(name))
    {
        projects::build_available(false)?;
    }
    flyball_cluster_tests::use_build(built.host, built.components);
    let mut report = Report::default();
    let measured = measure_all(is_selected, size, alone, &mut report);
    // The figures are also written if a later workload failed.
    if is_kept {
        // Figures of this run replace older figures of the same workloads.
        let docs = workspace().join("docs");
        let figures = workspace().join("tests/bench/figures.md");
        let report = report.join(Report::read(&docs)?, &all);
        report.write(&docs)?;
        report::show(&docs.join("performance.md"), &report.ratios())?;
        report::show(&figures, &report.figures(|name| !of_languages(name)))?;
        report::show(&docs.join("languages.md"), &report.figures(of_languages))?;
    } else {
        report.write(&workspace().join("target/bench"))?;
    }
    measured
}

/// Measures the selected workloads.
fn measure_all(
    is_selected: impl Fn(&str) -> bool,
    size: Size,
    alone: bool,
    report: &mut Report,
) -> Result<()> {
    let mut excessive = Vec::new();
    let selected = ON_CLUSTERS
        .into_iter()
        .filter(|workload| is_selected(workload.name));
    if size == Size::Quick {
        *report = check::run(selected.collect())?;
    } else {
        let mut full = Full::default();
        for workload in selected {
            compare(workload, size, alone, &mut full, report)?;
            excessive.extend(report.excesses(workload.name, workload.bounds));
        }
    }
    for name in OF_RUNTIME.into_iter().filter(|name| is_selected(name)) {
        let what = runtime::describe(name, size);
        say(&format!("{name}: {what}"));
        let (figures, is_within) = runtime::measure(name, size)?;
        report.add(name, &what, &[vec![figures], Vec::new(), Vec::new()]);
        excessive.extend((!is_within).then(|| name.to_owned()));
    }
    // A quick run only checks that the workloads work.
    ensure!(
        size == Size::Quick || excessive.is_empty(),
        "out of bounds: {}",
        excessive.join(", ")
    );
    Ok(())
}

/// Measures a workload under Flyball and under stock, in turn. The last round measures stock twice, as a control. With
/// `alone`, measures it once under Flyball.
fn compare(
    workload: OnCluster,
    size: Size,
    alone: bool,
    full: &mut Full,
    report: &mut Report,
) -> Result<()> {
    let name = workload.name;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()?;
    let has_kcm = flyball_controlplane::find_or_build()?.has_kcm();
    if !has_kcm {
        println!(
            "Measured without a comparison: the binaries in use don't include kube-controller-manager."
        );
    }
    // A quick run measures only one workload under stock.
    let is_left_out = alone
        || !workload.has_stock
        || (size == Size::Quick && workload.name != ON_CLUSTERS[0].name);
    let has_stock = has_kcm && !is_left_out;
    let is_once = size == Size::Quick || alone || workload.is_once;
    let (rounds, what) = (if is_once { 1 } else { ROUNDS }, describe(name, size));
    say(&format!("{name}: {what}, {rounds} times"));
    let mut measured = Rounds::default();
    for number in 0..rounds {
        // The control shows by how much two runs of the same subject differ. A workload that is measured once has no
        // control.
        let is_controlled = number > 0 && number == rounds - 1;
        let stock = usize::from(has_stock) * (1 + usize::from(is_controlled));
        let subjects = &[Subject::Flyball, Subject::Stock, Subject::Stock][..=stock];
        let figures = runtime.block_on(round(name, size, subjects, full))?;
        measured
            .iter_mut()
            .zip(figures)
            .for_each(|(measured, figures)| measured.push(figures));
    }
    report.add(name, &what, &measured);
    Ok(())
}

/// Measures a workload under each subject, one after the other. `latency` alternates between the subjects.
async fn round(
    name: &str,
    size: Size,
    subjects: &[Subject],
    full: &mut Full,
) -> Result<Vec<Figures>> {
    if name == "latency" {
        return latency::measure(subjects, count(name, size)).await;
    }
    let mut figures = Vec::new();
    for &subject in subjects {
        let measured = workload(name, size, subject, full).await;
        figures.push(measured.with_context(|| format!("under {subject:?}"))?);
    }
    Ok(figures)
}

async fn workload(name: &str, size: Size, subject: Subject, full: &mut Full) -> Result<Figures> {
    let (shape, count) = (shape(name, size), count(name, size));
    match name {
        "jobs" => jobs::measure(subject, 50, count).await,
        "rollout" => converge::roll(subject, shape).await,
        "sync" | "sync-50000" => sync::start(subject, full, count).await,
        "steady" => sync::steady(subject, full, count, time(size)).await,
        "growth" => sync::growth(full, count, time(size)).await,
        "cascade" => cascade::measure(subject, count).await,
        "job-10000" | "job-100000" => large::job(subject, count).await,
        "replicaset-20000" => large::replica_set(subject, count).await,
        "owner-20000" | "owner-200000" => large::owner_of_many(subject, count).await,
        "deployment-2000" => large::deployment(subject, count).await,
        "sets-parallel" => sets::stateful(subject, SETS, count, "Parallel").await,
        "sets-ordered" => sets::stateful(subject, SETS, count, "OrderedReady").await,
        "daemons" => sets::daemons(subject, count).await,
        "cronjobs" => sets::cron_jobs(subject, count).await,
        "budgets" => sets::budgets(subject, count, time(size)).await,
        "services" | "endpoints-5000" => services::measure(subject, shape).await,
        "heartbeats" | "heartbeats-5000" => heartbeats::measure(subject, count, time(size)).await,
        "certificates" => certificates::measure(subject, count).await,
        "autoscalers" => autoscalers::measure(subject, count, time(size)).await,
        "empty" => empty::measure(subject, time(size)).await,
        "built-ins" => empty::each_built_in(time(size)).await,
        "standby" => standby::measure(subject).await,
        "ring" => ring::measure(count, RING_ROUNDS).await,
        "reload" => reload::measure(count).await,
        IDLE_PLUGINS => idle_plugins::measure(count, time(size)).await,
        _ => converge::up(subject, shape).await,
    }
}

/// Waits until the first number that `look` returns has reached the second.
async fn wait(what: &str, look: impl AsyncFnMut() -> Result<(usize, usize)>) -> Result<()> {
    wait_for(PATIENCE, what, look).await
}

/// Like [`wait`], but for at most this time.
async fn wait_for(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<(usize, usize)>,
) -> Result<()> {
    let begun = Instant::now();
    loop {
        let (seen, wanted) = look().await?;
        if seen >= wanted {
            return Ok(());
        }
        if begun.elapsed() > patience {
            bail!(
                "waited {} s until {what}: {seen} of {wanted}",
                patience.as_secs()
            );
        }
        tokio::time::sleep(POLL).await;
    }
}
