//! `cargo xtask test`: builds everything, then runs every test, those after a failed one too.

use std::path::Path;

use anyhow::{Context, Result};
use flyball_author::tools::require;
use flyball_controlplane::{FULL, SKIPPED_FILE};
use xtask::debian::{prepare_browser, prepare_containers};
use xtask::prerequisites::{c_compiler, go, python};
use xtask::run::{command, run_and_read, say, workspace};
use xtask::toolchain;

use crate::failures::Failures;
use crate::{build, guests};

/// The arguments of `cargo test` for the server with heap profiles.
const HEAP_PROFILES: [&str; 4] = [
    "--package",
    "flyball-serving",
    "--features",
    "heap-profiles",
];

/// Build everything, then run every test
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also run the ignored, slow tests, and run tests of adjustable length for longer
    #[arg(long)]
    pub(crate) full: bool,
    /// Arguments for `cargo test`, for example to select tests: `--package flyball-cache`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    pub(crate) cargo: Vec<String>,
}

/// Builds what the tests need and runs them.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    require(&[c_compiler(), go(), python()])?;
    let (built, _) = build::all_for_tests(build::Profile::Dev)?;
    guests::build_stock()?;
    guests::projects::build_available(arguments.full)?;
    prepare_containers()?;
    prepare_browser()?;

    say("testing");
    let folder = workspace().join("target/tests");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("can't create {}", folder.display()))?;
    let skipped = folder.join("skipped");
    std::fs::write(&skipped, "").with_context(|| format!("can't empty {}", skipped.display()))?;
    let mut failures = Failures::default();
    let mut tested = Ok(());
    for selected in cargo_test_runs(arguments) {
        let mut cargo = command("cargo");
        cargo
            .args(["test", "--no-fail-fast"])
            .args(selected)
            // `cargo test` builds the host's binary again.
            .env(build::EMBEDDED, &built.embedded)
            .envs(toolchain::variables())
            .env(SKIPPED_FILE, &skipped);
        if arguments.full {
            cargo.env(FULL, "1");
        }
        tested = tested.and(run_and_read(cargo, |line| failures.read(line)));
    }
    list_skipped(&skipped)?;
    if failures.len() > 0 {
        say(&format!("failed tests: {}", failures.len()));
        print!("{}", failures.report());
    }
    tested
}

/// The arguments of each run of `cargo test`. All slow tests include those of the features that are off by default.
fn cargo_test_runs(arguments: &Arguments) -> Vec<Vec<&str>> {
    let mut runs = vec![cargo_test_arguments(arguments)];
    if arguments.full && arguments.cargo.is_empty() {
        runs.push(HEAP_PROFILES.to_vec());
    }
    runs
}

/// The arguments of `cargo test` for those of `cargo xtask test`.
fn cargo_test_arguments(arguments: &Arguments) -> Vec<&str> {
    let mut all: Vec<&str> = arguments.cargo.iter().map(String::as_str).collect();
    if all.is_empty() {
        all.push("--workspace");
    }
    if arguments.full {
        if !all.contains(&"--") {
            all.push("--");
        }
        all.push("--include-ignored");
    }
    all
}

/// Prints which tests were skipped, and why.
fn list_skipped(file: &Path) -> Result<()> {
    let skipped =
        std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    say(&format!("skipped tests: {}", skipped.lines().count()));
    for test in skipped.lines() {
        println!("  {test}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(full: bool, cargo: &[&str]) -> Arguments {
        let cargo = cargo.iter().map(|&argument| argument.to_owned()).collect();
        Arguments { full, cargo }
    }

    #[test]
    fn without_arguments_the_whole_workspace_is_tested() {
        assert_eq!(
            cargo_test_arguments(&arguments(false, &[])),
            ["--workspace"]
        );
        let one = ["--package", "flyball-cache"];
        assert_eq!(cargo_test_arguments(&arguments(false, &one)), one);
    }

    #[test]
    fn full_tests_the_server_with_heap_profiles_unless_tests_are_selected() {
        let runs = |full, cargo| cargo_test_runs(&arguments(full, cargo)).len();
        assert_eq!(runs(true, &[]), 2);
        assert_eq!(runs(false, &[]), 1);
        assert_eq!(runs(true, &["--workspace", "--test", "crashes"]), 1);
    }

    #[test]
    fn full_runs_the_ignored_tests_too() {
        assert_eq!(
            cargo_test_arguments(&arguments(true, &[])),
            ["--workspace", "--", "--include-ignored"]
        );
        let filtered = arguments(true, &["--test", "crashes", "--", "any_write"]);
        assert_eq!(
            cargo_test_arguments(&filtered),
            ["--test", "crashes", "--", "any_write", "--include-ignored"]
        );
    }
}
