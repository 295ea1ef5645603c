//! `cargo xtask fuzz`: fuzzes the parsers of untrusted input with libFuzzer, and adds the inputs that fail to the corpus.

use anyhow::{Context, Result, ensure};
use xtask::run::{command, run, say, workspace};

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
    let (seconds, corpus) = (arguments.seconds, workspace().join("tests/fuzz/corpus"));
    let targets = selected(&corpus, &arguments.targets)?;
    let build = [
        "build",
        "--workspace",
        "--bin",
        "fuzz",
        "--features",
        "flyball-fuzz/libfuzzer",
    ];
    run(command("cargo").args(build).env(
        "RUSTC_WORKSPACE_WRAPPER",
        workspace().join("tests/fuzz/instrument"),
    ))?;
    let mut failed = Vec::new();
    for target in targets {
        say(&format!("fuzzing {target} for {seconds} s"));
        // The inputs that reach new code are kept here between runs.
        let found = workspace().join("target/fuzz").join(&target);
        std::fs::create_dir_all(&found)
            .with_context(|| format!("can't create {}", found.display()))?;
        let corpus = corpus.join(&target);
        let status = command(workspace().join("target/debug/fuzz"))
            .env("FUZZ_TARGET", &target)
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", corpus.display()))
            .args(["-timeout=10", "-print_final_stats=1"])
            .args([&found, &corpus])
            .status()?;
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

/// The targets with these names; all if none is named. Each has a folder in the corpus.
fn selected(corpus: &std::path::Path, names: &[String]) -> Result<Vec<String>> {
    let folders = std::fs::read_dir(corpus)
        .with_context(|| format!("can't list the targets in {}", corpus.display()))?;
    let mut targets = Vec::new();
    for folder in folders {
        targets.push(folder?.file_name().to_string_lossy().into_owned());
    }
    targets.sort();
    for name in names {
        ensure!(
            targets.contains(name),
            "there is no target `{name}`; the targets are {}",
            targets.join(", ")
        );
    }
    Ok(match names {
        [] => targets,
        names => names.to_vec(),
    })
}
