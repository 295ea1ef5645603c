//! `cargo xtask fuzz`: fuzzes the parsers of untrusted input, and adds the inputs that fail to the
//! corpus.

use std::os::unix::process::ExitStatusExt;

use anyhow::{Context, Result, ensure};
use clap::builder::PossibleValuesParser;
use flyball_fuzz::{TARGETS, corpus_folder};

use crate::run::{command, run, say, workspace};

/// Fuzz the parsers of untrusted input, and add the inputs that fail to tests/fuzz/corpus
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Time for each target, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The targets; all if none is named
    #[arg(value_name = "TARGET", value_parser = PossibleValuesParser::new(TARGETS.iter().map(|target| target.name)))]
    targets: Vec<String>,
}

/// Fuzzes the targets one after the other.
pub(crate) fn feed(arguments: &Arguments) -> Result<()> {
    let seconds = arguments.seconds;
    let is_wanted = |name: &str| {
        arguments.targets.is_empty() || arguments.targets.iter().any(|target| target == name)
    };
    run(command("cargo")
        .args(["build", "--release", "--workspace", "--bin", "fuzz"])
        .env(
            "RUSTC_WORKSPACE_WRAPPER",
            workspace().join("tests/fuzz/instrument"),
        ))?;
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_secs();
    let folder = workspace().join("target/fuzz");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("can't create {}", folder.display()))?;
    let mut failed = Vec::new();
    for target in TARGETS.iter().filter(|target| is_wanted(target.name)) {
        say(&format!(
            "fuzzing {} for {seconds} s, seed {seed}",
            target.name
        ));
        let current = folder.join(format!("{}.current", target.name));
        let mut fuzz = command(workspace().join("target/release/fuzz"));
        let status = fuzz
            .args([target.name, &seconds.to_string(), &seed.to_string()])
            .arg(&current)
            .status()?;
        if let Some(signal) = status.signal() {
            // The target overflowed its stack or ran out of memory.
            let kept = corpus_folder(target).join(format!("killed-{seed}"));
            std::fs::copy(&current, &kept)
                .with_context(|| format!("can't copy the input to {}", kept.display()))?;
            println!(
                "{}: killed by signal {signal}\n  stored in {}",
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
        "these targets failed: {}; the failing inputs are in tests/fuzz/corpus",
        failed.join(", ")
    );
    Ok(())
}
