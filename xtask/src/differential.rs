//! `cargo xtask differential`: plays scenarios under Flyball and compares with what the stock kube-controller-manager
//! leaves behind, which `--bless` finds out.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow, bail, ensure};
use flyball_controlplane::Assets;
use flyball_differential::{Golden, Outcome, Scenario, Subject, play_all};

use crate::run::say;

/// How often the stock controllers play each scenario for a golden, and Flyball with `--full`: how many writes they need is a
/// matter of time too.
const RUNS: usize = 3;

/// Does what the command line says.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (mut only, mut blessing, mut full) = (None, false, false);
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        match *argument {
            "--only" => {
                only = Some(
                    *left
                        .next()
                        .context("--only takes the name of a scenario or of a controller")?,
                )
            }
            "--bless" => blessing = true,
            "--full" => full = true,
            other => bail!("`differential` takes --only NAME, --full and --bless, and not {other}"),
        }
    }
    if blessing {
        bless(only)
    } else {
        compare(only, if full { RUNS } else { 1 })
    }
}

/// Plays so often, compares, and fails where something differs. `only` names a scenario, or a controller for all of its
/// own.
fn compare(only: Option<&str>, runs: usize) -> Result<()> {
    let scenarios = choose(only)?;
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for run in 1..=runs {
        if runs > 1 {
            say(&format!("Flyball plays, {run} of {runs}"));
        }
        let outcomes = play(Subject::Flyball, &scenarios)?;
        tell(&scenarios, outcomes, &mut found, &mut known);
    }
    if !known.is_empty() {
        println!(
            "known to differ:\n{}",
            known.into_iter().collect::<Vec<_>>().join("\n")
        );
    }
    ensure!(
        found.is_empty(),
        "Flyball differs from stock:\n{}",
        found.join("\n")
    );
    Ok(())
}

/// Prints how scenarios went, a line for each, and gathers what differs and what is known to.
fn tell(
    scenarios: &[Scenario],
    mut outcomes: BTreeMap<String, Result<Outcome>>,
    found: &mut Vec<String>,
    known: &mut BTreeSet<String>,
) {
    println!(
        "{:<60} {:>8} {:>8} {:>20}",
        "scenario", "objects", "events", "writes: ours/stock's"
    );
    for scenario in scenarios {
        let name = &scenario.name;
        let outcome = outcomes
            .remove(name)
            .unwrap_or_else(|| Err(anyhow!("it was not played")));
        let (golden, outcome) = match (Golden::read(name), outcome) {
            (Ok(golden), Ok(outcome)) => (golden, outcome),
            (Err(error), _) | (_, Err(error)) => {
                println!("{name:<60} {:>8} {:>8} {:>20}", "-", "-", "-");
                found.push(format!("{name}: {error:#}"));
                continue;
            }
        };
        let differences = golden.compare(&outcome, &scenario.known);
        let equal = |differences: &[String]| {
            if differences.is_empty() {
                "equal"
            } else {
                "DIFFER"
            }
        };
        let objects = match equal(&differences.objects) {
            "equal" if !differences.known.is_empty() => "known",
            objects => objects,
        };
        let writes = format!("{} / {}", outcome.writes.total(), golden.limit());
        println!(
            "{name:<60} {objects:>8} {:>8} {writes:>20}",
            equal(&differences.events)
        );
        found.extend(
            differences
                .all()
                .into_iter()
                .map(|text| format!("{name}: {text}")),
        );
        if !differences.known.is_empty() {
            let reasons: Vec<&str> = scenario.known.values().map(String::as_str).collect();
            known.insert(format!(
                "{name}: {}: {}",
                reasons.join("; "),
                differences.known.join("; ")
            ));
        }
    }
}

/// Has the stock controllers play, and keeps what they leave behind.
fn bless(only: Option<&str>) -> Result<()> {
    if !Assets::find_or_build()?.has_kcm() {
        println!(
            "Skipped: there is no kube-controller-manager among the binaries, so the goldens stay as they are."
        );
        return Ok(());
    }
    let scenarios = choose(only)?;
    let mut runs: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    let mut failed = Vec::new();
    for run in 1..=RUNS {
        say(&format!("stock plays, {run} of {RUNS}"));
        for (name, outcome) in play(Subject::Stock, &scenarios)? {
            match outcome {
                Ok(outcome) => runs.entry(name).or_default().push(outcome),
                Err(error) => failed.push(format!("{name}: {error:#}")),
            }
        }
        ensure!(
            failed.is_empty(),
            "no golden is written, since stock didn't come to the end of:\n{}",
            failed.join("\n")
        );
    }
    println!(
        "{:<60} {:>8} {:>8} {:>14}",
        "scenario", "objects", "events", "writes"
    );
    for (name, runs) in runs {
        let Some(golden) = Golden::of(&runs) else {
            continue;
        };
        golden.write(&name)?;
        let (objects, events) = (golden.objects.len(), golden.events.len());
        println!(
            "{name:<60} {objects:>8} {events:>8} {:>14}",
            format!("{:?}", golden.writes)
        );
    }
    Ok(())
}

fn choose(only: Option<&str>) -> Result<Vec<Scenario>> {
    let mut scenarios = Scenario::all()?;
    if let Some(only) = only {
        let of_controller = format!("{only}/");
        scenarios
            .retain(|scenario| scenario.name == only || scenario.name.starts_with(&of_controller));
        if scenarios.is_empty() {
            bail!("there is no scenario {only}, and no controller with scenarios of that name");
        }
    }
    Ok(scenarios)
}

fn play(subject: Subject, scenarios: &[Scenario]) -> Result<BTreeMap<String, Result<Outcome>>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()?;
    runtime.block_on(play_all(subject, scenarios))
}
