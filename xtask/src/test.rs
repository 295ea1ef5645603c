//! `cargo xtask test`: builds everything, then runs every test that there is.

use anyhow::Result;
use flyball_controlplane::Assets;

use crate::run::{command, run, say};
use crate::{build, guests};

/// Builds what the tests need and runs them. What is given goes to `cargo test`, as in `--package flyball-cache`.
pub(crate) fn run_all(arguments: &[&str]) -> Result<()> {
    let built = build::all()?;
    guests::build_stock()?;
    guests::build_go()?;
    guests::build_python()?;
    Assets::find_or_build()?;
    say("testing");
    let mut cargo = command("cargo");
    // The tests of the binary build it again.
    cargo.args(["test", "--release"]).env(build::EMBEDDED, built.embedded);
    if arguments.is_empty() {
        cargo.arg("--workspace");
    }
    run(cargo.args(arguments))
}
