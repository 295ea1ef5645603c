//! `cargo xtask differential`: plays scenarios under Flyball and compares the resulting objects, events, fields'
//! managers, metrics and numbers of writes with goldens. `--bless` writes the goldens from runs of the stock
//! kube-controller-manager.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use flyball_differential::metrics::{self, Series};
use flyball_differential::texts::{self, Texts};
use flyball_differential::{Golden, Outcome, Scenario, Subject, compare_all, play_all};
use tokio::runtime::Runtime;
use xtask::build::{self, Profile};
use xtask::run::{exit_code, say};

/// The number of times that the stock controllers play each scenario for a golden, and Flyball with `--full`. The
/// number of writes also depends on timing.
const RUNS: usize = 3;

/// Play scenarios under Flyball, and compare the results with those of the stock
/// kube-controller-manager
#[derive(Parser)]
#[command(
    name = "differential",
    bin_name = "cargo xtask differential",
    max_term_width = 100
)]
struct Arguments {
    /// A scenario (`job/indexed`), or a controller for all of its scenarios (`job`); several with commas between them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Play three times
    #[arg(long)]
    full: bool,
    /// Play the scenarios under stock, and write the results to the goldens of their controllers
    #[arg(long, conflicts_with = "full")]
    bless: bool,
    /// Record all calls of the controllers, and repeat them afterwards: none may part from its recording
    #[arg(long, conflicts_with = "bless")]
    replay: bool,
}

fn main() -> ExitCode {
    exit_code(run(&Arguments::parse()))
}

/// Builds the host, which also runs the nodes under stock, and the control plane. Then compares, or writes the goldens.
fn run(arguments: &Arguments) -> Result<()> {
    let scenarios = choose(&arguments.only)?;
    let (built, control_plane) = build::all_for_tests(Profile::Dev)?;
    flyball_cluster_tests::use_build(built.host, built.components);
    if arguments.bless {
        ensure!(
            control_plane.has_kcm(),
            "can't write goldens: the binaries in use don't include kube-controller-manager"
        );
        bless(&scenarios)
    } else {
        if arguments.replay {
            flyball_differential::repeat_calls();
        }
        compare(&scenarios, if arguments.full { RUNS } else { 1 })
    }
}

/// Plays the scenarios `runs` times, and fails if anything differs.
fn compare(scenarios: &[Scenario], runs: usize) -> Result<()> {
    let runtime = runtime()?;
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for run in 1..=runs {
        if runs > 1 {
            say(&format!("playing under Flyball, {run} of {runs}"));
        }
        let report = runtime.block_on(compare_all(scenarios))?;
        println!("{report}");
        found.extend(report.differences());
        known.extend(report.known_differences());
    }
    if !known.is_empty() {
        println!("known differences:");
        known.iter().for_each(|difference| println!("{difference}"));
    }
    ensure!(
        found.is_empty(),
        "Flyball differs from stock:\n{}",
        found.join("\n")
    );
    Ok(())
}

/// Plays the scenarios under stock, and writes the results as goldens.
fn bless(scenarios: &[Scenario]) -> Result<()> {
    let runtime = runtime()?;
    let mut runs: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    // A series that is in one run may be missing in another, because it appears with its first value.
    let mut metrics: BTreeMap<&str, Series> = BTreeMap::new();
    let mut written = Texts::new();
    let mut failed = BTreeMap::new();
    for run in 1..=RUNS {
        say(&format!("playing under stock, {run} of {RUNS}"));
        let played = runtime.block_on(play_all(Subject::Stock, scenarios))?;
        for (plane, series) in played.metrics {
            metrics.entry(plane).or_default().extend(series);
        }
        texts::add(&mut written, played.texts);
        for (name, outcome) in played.outcomes {
            match outcome {
                Ok(outcome) => runs.entry(name).or_default().push(outcome),
                Err(error) => {
                    failed.insert(name, format!("{error:#}"));
                }
            }
        }
    }
    runs.retain(|name, _| !failed.contains_key(name));
    println!(
        "{:<60} {:>8} {:>8} {:>8} {:>14}",
        "scenario", "objects", "events", "managers", "writes"
    );
    for (name, runs) in runs {
        let Some(golden) = Golden::of(&runs) else {
            continue;
        };
        golden.write(&name)?;
        let (objects, events) = (golden.objects.len(), golden.events.len());
        let writes = format!("{:?}", golden.writes);
        let managers = golden.managers.len();
        println!("{name:<60} {objects:>8} {events:>8} {managers:>8} {writes:>14}");
    }
    for (plane, series) in metrics {
        metrics::write(plane, &series)?;
    }
    texts::write(&written, scenarios)?;
    let failed: Vec<String> = failed
        .iter()
        .map(|(name, error)| format!("{name}: {error}"))
        .collect();
    ensure!(
        failed.is_empty(),
        "these scenarios have no new goldens, because they failed under stock:\n{}",
        failed.join("\n")
    );
    Ok(())
}

/// The scenarios to play: all, or those of these names.
fn choose(only: &[String]) -> Result<Vec<Scenario>> {
    let mut scenarios = Scenario::all()?;
    let is_of = |scenario: &Scenario, name: &str| {
        scenario.name == name || scenario.name.starts_with(&format!("{name}/"))
    };
    for name in only {
        ensure!(
            scenarios.iter().any(|scenario| is_of(scenario, name)),
            "{name} is neither a scenario nor a controller with scenarios"
        );
    }
    if !only.is_empty() {
        scenarios.retain(|scenario| only.iter().any(|name| is_of(scenario, name)));
    }
    Ok(scenarios)
}

fn runtime() -> Result<Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    Ok(runtime.enable_all().worker_threads(1).build()?)
}
