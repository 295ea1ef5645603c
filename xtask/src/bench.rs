//! `cargo xtask bench`: what the same work costs under Flyball and under the stock kube-controller-manager, in turn, and
//! what it costs to call a guest, to have a plugin that misbehaves, and to have many that do nothing.

mod cascade;
mod converge;
mod process;
mod standby;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use flyball_controlplane::Assets;
use flyball_differential::Subject;

use crate::guests;
use crate::run::{command, run, say, workspace};

/// How often it is looked whether something has happened, and how long that may take.
const LOOK: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(900);

/// Both log as they do by default, which tests change.
const QUIET: &[&str] = &["--v=0"];

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Small,
    Usual,
    Full,
}

/// What a run cost: figures by their name and unit.
#[derive(Default)]
struct Figures(Vec<(&'static str, f64)>);

impl Figures {
    fn push(&mut self, name: &'static str, value: f64) {
        self.0.push((name, value));
    }
}

/// Does what the command line says: all workloads or one, small, as usual or at full size.
pub(crate) fn measure(arguments: &[&str]) -> Result<()> {
    let (sizes, names): (Vec<&str>, Vec<&str>) = arguments.iter().partition(|argument| argument.starts_with("--"));
    let size = match sizes.as_slice() {
        [] => Size::Usual,
        ["--small"] => Size::Small,
        ["--full"] => Size::Full,
        _ => bail!("`bench` takes --small or --full"),
    };
    let all = ["converge", "cascade", "standby", "call", "hostile", "idle"];
    if let Some(name) = names.iter().find(|name| !all.contains(name)) {
        bail!("there is no workload {name}: there are {}", all.join(", "));
    }
    for name in all.into_iter().filter(|name| names.is_empty() || names.contains(name)) {
        match name {
            "converge" => {
                let (deployments, replicas) = if size == Size::Small { (5, 20) } else { (20, 100) };
                let what = format!("{deployments} Deployments with {replicas} replicas each");
                compare(&what, async |subject| converge::measure(subject, deployments, replicas).await)?;
            }
            "cascade" => {
                let dependents = match size {
                    Size::Small => 50,
                    Size::Usual => 1000,
                    Size::Full => 5000,
                };
                let what = format!("20 owners with {dependents} dependents each, deleted");
                compare(&what, async |subject| cascade::measure(subject, dependents).await)?;
            }
            "standby" => compare("a standby takes over", standby::measure)?,
            "hostile" => {
                let seconds = match size {
                    Size::Small => "1",
                    Size::Usual => "5",
                    Size::Full => "60",
                };
                guests::build_guests()?;
                say(&format!("a plugin alone, and beside each kind of fault, for {seconds} s each"));
                example("hostile", &[seconds])?;
            }
            "idle" => {
                let count = if size == Size::Small { "100" } else { "1000" };
                guests::build_guests()?;
                say(&format!("{count} plugins that do nothing"));
                example("idle", &[count])?;
            }
            _ => {
                say("what crossing the boundary costs");
                example("boundary", &[])?;
            }
        }
    }
    Ok(())
}

/// Runs a measurement of the runtime, which is an example of its crate. It is built among the whole workspace, as all else
/// is, so that the engine is compiled once.
fn example(name: &str, arguments: &[&str]) -> Result<()> {
    run(command("cargo").args(["build", "--release", "--quiet", "--workspace", "--example", name]))?;
    run(command(workspace().join("target/release/examples").join(name)).args(arguments))
}

/// Measures both, one after the other, and prints a table.
fn compare(what: &str, measure: impl AsyncFn(Subject) -> Result<Figures>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build()?;
    say(&format!("{what}, under Flyball"));
    let ours = runtime.block_on(measure(Subject::Flyball))?;
    let stock = if Assets::find_or_build()?.has_kcm() {
        say("the same under stock");
        Some(runtime.block_on(measure(Subject::Stock))?)
    } else {
        println!("Without a comparison: there is no kube-controller-manager among the binaries.");
        None
    };
    println!("{:<32} {:>10} {:>10} {:>12}", "", "Flyball", "stock", "ours/stock");
    for (at, (name, ours)) in ours.0.iter().enumerate() {
        match stock.as_ref().map(|stock| stock.0[at].1) {
            Some(stock) => println!("{name:<32} {ours:>10.2} {stock:>10.2} {:>12.2}", ours / stock),
            None => println!("{name:<32} {ours:>10.2} {:>10} {:>12}", "-", "-"),
        }
    }
    Ok(())
}

/// Waits until as much is there as is wanted.
async fn wait(what: &str, mut look: impl AsyncFnMut() -> Result<(usize, usize)>) -> Result<()> {
    let begun = Instant::now();
    loop {
        let (there, wanted) = look().await?;
        if there >= wanted {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!("waited {} s until {what}: {there} of {wanted}", PATIENCE.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}
