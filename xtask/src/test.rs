//! `cargo xtask test`: builds everything, then runs every test that there is.

use anyhow::Result;
use flyball_cluster_tests::FULL;
use flyball_controlplane::Assets;

use crate::run::{command, run, say};
use crate::{build, guests};

/// Builds what the tests need and runs them, the long ones in full length if `--full` is given. All else that is given
/// goes to `cargo test`, as in `--package flyball-cache`.
pub(crate) fn run_all(arguments: &[&str]) -> Result<()> {
    let (full, arguments): (Vec<&str>, Vec<&str>) = arguments
        .iter()
        .partition(|argument| **argument == "--full");
    let built = build::all()?;
    guests::build_stock()?;
    guests::build_go()?;
    guests::build_python()?;
    Assets::find_or_build()?;
    say("testing");
    let mut cargo = command("cargo");
    // The tests of the binary build it again.
    cargo
        .args(["test", "--release"])
        .env(build::EMBEDDED, built.embedded);
    if !full.is_empty() {
        cargo.env(FULL, "1");
    }
    if arguments.is_empty() {
        cargo.arg("--workspace");
    }
    run(cargo.args(arguments))
}
