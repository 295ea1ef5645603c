//! `cargo xtask fuzz`: fuzzes the parsers of untrusted input, and adds the inputs that fail to the corpus.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use xtask::run::{command, output, run, say, workspace};

/// Fuzz the parsers of untrusted input, and add the inputs that fail to tests/fuzz/corpus
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Time for each target, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The targets; all if none is named
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

/// Fuzzes the targets one after the other.
pub(crate) fn feed(arguments: &Arguments) -> Result<()> {
    let seconds = arguments.seconds;
    run(command("cargo")
        .args(["build", "--workspace", "--bin", "fuzz"])
        .env(
            "RUSTC_WORKSPACE_WRAPPER",
            workspace().join("tests/fuzz/instrument"),
        ))?;
    let program = workspace().join("target/debug/fuzz");
    let targets = selected(&program, &arguments.targets)?;
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_secs();
    let folder = workspace().join("target/fuzz");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("can't create {}", folder.display()))?;
    let mut failed = Vec::new();
    for target in targets {
        say(&format!("fuzzing {target} for {seconds} s, seed {seed}"));
        let current = folder.join(format!("{target}.current"));
        let status = command(&program)
            .args([&target, &seconds.to_string(), &seed.to_string()])
            .arg(&current)
            .status()?;
        if let Some(signal) = status.signal() {
            // The target overflowed its stack or ran out of memory.
            let kept = workspace().join(format!("tests/fuzz/corpus/{target}/killed-{seed}"));
            std::fs::copy(&current, &kept)
                .with_context(|| format!("can't copy the input to {}", kept.display()))?;
            println!(
                "{target}: killed by signal {signal}\n  stored in {}",
                kept.display()
            );
        }
        if !status.success() {
            failed.push(target);
        }
    }
    ensure!(
        failed.is_empty(),
        "these targets failed: {}; the failing inputs are in tests/fuzz/corpus",
        failed.join(", ")
    );
    Ok(())
}

/// The targets with these names; all if none is named.
fn selected(program: &Path, names: &[String]) -> Result<Vec<String>> {
    let list = output(command(program).arg("list"))
        .with_context(|| format!("can't list the targets of {}", program.display()))?;
    let targets: Vec<String> = list.lines().map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(targets);
    }
    for name in names {
        ensure!(
            targets.contains(name),
            "there is no target `{name}`; the targets are {}",
            targets.join(", ")
        );
    }
    Ok(names.to_vec())
}
