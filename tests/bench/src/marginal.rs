//! What each built-in controller adds to `converge-small` while all others are on, although the workload concerns few of
//! them.
//!
//! A first run has all controllers on, and a second one few of them: their difference is what all the others cost
//! together. Then comes a run without each controller, beside the first: the difference is what enabling it adds. CPU
//! time of one controller is less than the noise of a run, so that the exact counts of the first run stand beside it: how
//! often the guest was called, the CPU time of these calls, and the writes.

use anyhow::{Context, Result, ensure};
use flyball_differential::Subject;
use xtask::run::say;

use super::bed::{Bed, FEW, Nodes};
use super::converge::Shape;
use super::process::peak_mib;
use super::report::{Figures, Report};
use super::sizes::{Size, describe, shape};
use super::workloads::MARGINAL;

/// The cost of the workload with some controllers on.
struct Run {
    /// CPU time, in seconds.
    cpu: f64,
    /// Peak memory, in MiB.
    peak: f64,
    /// The names of the controllers.
    controllers: Vec<String>,
    /// What the metrics have counted in the workload.
    counts: Counts,
}

/// Sums of the metrics of each plugin.
struct Counts {
    before: String,
    after: String,
}

/// The part of a controller in the cost.
struct Part {
    name: String,
    /// Milliseconds of CPU time.
    cpu: f64,
    /// KiB of peak memory.
    peak: f64,
}

/// Measures the controllers with these names, or all if none is named, and adds them to a report.
pub(super) fn measure(size: Size, only: &[String], report: &mut Report) -> Result<()> {
    let what = describe(MARGINAL, size);
    say(&format!("{MARGINAL}: {what}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()?;
    let figures = runtime.block_on(each(shape(MARGINAL, size), only))?;
    report.add(MARGINAL, &what, &[vec![figures], Vec::new(), Vec::new()]);
    Ok(())
}

async fn each(shape: Shape, only: &[String]) -> Result<Figures> {
    let nodes = Nodes::for_pods(shape.pods());
    let few = run(Bed::of(Subject::Flyball, nodes, FEW, true).await?, shape).await?;
    let all = run(everything(nodes, "").await?, shape).await?;
    let mut figures = Figures::default();
    for (name, run) in [("few", &few), ("all", &all)] {
        figures.push(format!("{name}: controllers"), run.controllers.len() as f64);
        figures.push(format!("{name}: CPU, s"), run.cpu);
        figures.push(format!("{name}: peak memory, MiB"), run.peak);
    }
    figures.push("all beside few, CPU", all.cpu / few.cpu);
    let named = |name: &&String| only.is_empty() || only.contains(*name);
    let measured: Vec<&String> = all.controllers.iter().filter(named).collect();
    let unknown = only.iter().find(|name| !all.controllers.contains(*name));
    ensure!(
        unknown.is_none(),
        "can't measure {}: no such controller runs; use one of {}",
        unknown.map_or("", String::as_str),
        all.controllers.join(", ")
    );
    let mut parts = Vec::new();
    for name in measured {
        say(&format!("without {name}"));
        let without = run(everything(nodes, name).await?, shape).await?;
        parts.push(Part {
            name: name.clone(),
            cpu: (all.cpu - without.cpu) * 1000.0,
            peak: (all.peak - without.peak) * 1024.0,
        });
    }
    summarise(&parts, &mut figures);
    for part in &parts {
        add(part, &all.counts, &mut figures);
    }
    Ok(figures)
}

/// Starts all controllers but the one with this name.
async fn everything(nodes: Nodes, but: &str) -> Result<Bed> {
    let names = match but {
        "" => "*".to_owned(),
        name => format!("*,-{name}"),
    };
    Bed::of(Subject::Flyball, nodes, &names, true).await
}

async fn run(mut bed: Bed, shape: Shape) -> Result<Run> {
    let statuses = bed.cluster.plugins("controllers")?;
    let names = statuses.iter().filter_map(|status| status["name"].as_str());
    let controllers = names.map(str::to_owned).collect();
    bed.begin().await?;
    let before = bed.metrics().await?;
    shape.create(&bed).await?;
    let cpu = bed.cpu().await?;
    let after = bed.metrics().await?;
    let peak = peak_mib(&bed.controllers)?;
    let ended = bed.end_without_cpu(&mut Figures::default()).await;
    ended.context("stopping the controllers")?;
    Ok(Run {
        cpu,
        peak,
        controllers,
        counts: Counts { before, after },
    })
}

/// Adds the sum of all parts, and the largest one.
fn summarise(parts: &[Part], figures: &mut Figures) {
    figures.push("sum: CPU, ms", parts.iter().map(|part| part.cpu).sum());
    figures.push(
        "sum: peak memory, KiB",
        parts.iter().map(|part| part.peak).sum(),
    );
    let largest = parts
        .iter()
        .max_by(|one, other| one.cpu.total_cmp(&other.cpu));
    if let Some(part) = largest {
        figures.push(format!("largest, {}: CPU, ms", part.name), part.cpu);
    }
}

/// Adds the figures of one controller.
fn add(part: &Part, counts: &Counts, figures: &mut Figures) {
    let Part { name, cpu, peak } = part;
    figures.push(format!("{name}: CPU, ms"), *cpu);
    figures.push(format!("{name}: peak memory, KiB"), *peak);
    let of_metric = |metric: &str| counts.of(metric, name);
    figures.push(
        format!("{name}: guest calls"),
        of_metric("flyball_plugin_calls_total"),
    );
    let seconds = of_metric("flyball_plugin_cpu_seconds_total");
    figures.push(format!("{name}: CPU of these calls, ms"), seconds * 1000.0);
    figures.push(
        format!("{name}: writes"),
        of_metric("flyball_plugin_api_writes_total"),
    );
}

impl Counts {
    /// By how much a counter of a plugin has grown, over all of its other labels.
    fn of(&self, metric: &str, plugin: &str) -> f64 {
        sum(&self.after, metric, plugin) - sum(&self.before, metric, plugin)
    }
}

/// The sum of a metric of a plugin.
fn sum(metrics: &str, metric: &str, plugin: &str) -> f64 {
    let label = format!("plugin=\"{plugin}\"");
    let value = |line: &str| {
        let (labels, value) = line
            .strip_prefix(metric)?
            .strip_prefix('{')?
            .rsplit_once("} ")?;
        let is_own = labels.split(',').any(|own| own == label);
        is_own.then(|| value.parse::<f64>().ok()).flatten()
    };
    metrics.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_of_a_plugin_is_summed_over_its_other_labels() {
        let metrics = "# TYPE a_total counter\n\
                       a_total{plugin=\"x\",verb=\"get\"} 2\n\
                       a_total{plugin=\"x\",verb=\"list\"} 0.5\n\
                       a_total{plugin=\"xy\",verb=\"list\"} 4\n\
                       a_total_more{plugin=\"x\"} 8\n";
        assert!((sum(metrics, "a_total", "x") - 2.5).abs() < f64::EPSILON);
        assert!(sum(metrics, "a_total", "z").abs() < f64::EPSILON);
    }
}
