//! `cargo xtask bench`: measures the cost of the same work under Flyball and under the stock kube-controller-manager,
//! and the costs of guest calls, of plugins that misbehave and of many idle plugins. `tests/bench/README.md` describes
//! the workloads.

mod autoscalers;
mod bed;
mod cascade;
mod certificates;
mod check;
mod churn;
mod compare;
mod converge;
mod copies;
mod empty;
mod heartbeats;
mod idle_plugins;
mod jobs;
mod large;
mod latency;
mod load_balancers;
mod marginal;
mod operators;
mod plot;
mod process;
mod relays;
mod reload;
mod report;
mod requests;
mod ring;
mod runtime;
mod services;
mod sets;
mod sizes;
mod standby;
mod sync;
mod volumes;
mod wait;
mod workloads;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use xtask::build::{self, Profile};
use xtask::guests::projects;
use xtask::run::{exit_code, say, workspace};

use self::compare::compare;
use self::report::Report;
use self::sizes::Size;
use self::sync::Full;
use self::workloads::{
    IF_NAMED, MARGINAL, OF_RUNTIME, ON_CLUSTERS, SAME_IF_QUICK, all_names, of_languages,
};

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
    /// Run these controllers in most workloads, under both subjects, in the syntax of the flag of a controller manager
    #[arg(long, value_name = "LIST", default_value = "*")]
    controllers: String,
    /// Let `marginal` measure only the controller of this name; may be repeated
    #[arg(long, value_name = "CONTROLLER")]
    only: Vec<String>,
    /// The workloads; all but the longest (`hostile`, `job-100000`, `marginal`, `owner-200000`) if none is named
    #[arg(value_name = "WORKLOAD", value_parser = PossibleValuesParser::new(all_names()))]
    workloads: Vec<String>,
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
    bed::choose_controllers(arguments.controllers.clone());
    flyball_cluster_tests::use_build(built.host, built.components);
    let mut report = Report::default();
    let only = &arguments.only;
    let measured = measure_all(is_selected, size, alone, only, &mut report);
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
    only: &[String],
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
    if is_selected(MARGINAL) {
        marginal::measure(size, only, report)?;
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
