//! `cargo xtask fuzz`: feeds what the outside reaches for some seconds each, and keeps in the corpus what fails.

use std::os::unix::process::ExitStatusExt;

use anyhow::{Context, Result, bail, ensure};
use flyball_fuzz::{TARGETS, corpus_folder};

use crate::run::{command, run, say, workspace};

/// How long each target is fed, if nothing else is said.
const SECONDS: u64 = 60;

/// Does what the command line says: all targets or some, for so long.
pub(crate) fn feed(arguments: &[&str]) -> Result<()> {
    let (mut seconds, mut names) = (SECONDS, Vec::new());
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        match *argument {
            "--seconds" => {
                let text = left.next().context("--seconds takes a number")?;
                seconds = text
                    .parse()
                    .with_context(|| format!("--seconds takes a number, not {text}"))?;
            }
            name if TARGETS.iter().any(|target| target.name == name) => names.push(name),
            other => {
                let all: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
                bail!("there is no target {other}: there are {}", all.join(", "));
            }
        }
    }
    run(command("cargo").args(["build", "--release", "--workspace", "--bin", "fuzz"]))?;
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_secs();
    let folder = workspace().join("target/fuzz");
    std::fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let mut failed = Vec::new();
    for target in TARGETS
        .iter()
        .filter(|target| names.is_empty() || names.contains(&target.name))
    {
        say(&format!(
            "feeding {} for {seconds} s, seed {seed}",
            target.name
        ));
        let current = folder.join(format!("{}.current", target.name));
        let mut fuzz = command(workspace().join("target/release/fuzz"));
        let status = fuzz
            .args([target.name, &seconds.to_string(), &seed.to_string()])
            .arg(&current)
            .status()?;
        if let Some(signal) = status.signal() {
            // It overflowed its stack, or wanted more memory than there is.
            let kept = corpus_folder(target).join(format!("killed-{seed}"));
            std::fs::copy(&current, &kept)
                .with_context(|| format!("can't keep {}", kept.display()))?;
            println!(
                "{}: killed by signal {signal}\n  kept as {}",
                target.name,
                kept.display()
            );
        }
        if !status.success() {
            failed.push(target.name);
        }
    }
    ensure!(
        failed.is_empty(),
        "these failed: {}; what they failed on is in tests/fuzz/corpus",
        failed.join(", ")
    );
    Ok(())
}
