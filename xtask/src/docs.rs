//! Builds the site with mdBook. The tests check its pages without it.

use std::path::PathBuf;

use anyhow::Result;
use xtask::run::{command, output, run, say, workspace};

const VERSION: &str = "0.5.4";

/// Builds the site. Installs mdBook into the target folder if it is not there. Returns the site's folder.
pub(crate) fn build() -> Result<PathBuf> {
    let tools = workspace().join("target/tools");
    let mdbook = tools.join("bin/mdbook");
    let is_installed = output(command(&mdbook).arg("--version"))
        .is_some_and(|version| version.trim_end().ends_with(VERSION));
    if !is_installed {
        say(&format!("installing mdBook {VERSION} (some minutes, once)"));
        let mut cargo = command("cargo");
        cargo
            .args(["install", "--quiet", "--locked", "--debug", "--root"])
            .arg(&tools)
            .arg("--target-dir")
            .arg(tools.join("build"))
            // Without its server and its watcher.
            .args(["--no-default-features", "--features", "search"])
            .arg(format!("mdbook@{VERSION}"));
        run(&mut cargo)?;
    }
    run(command(&mdbook).args(["build", "docs"]))?;
    Ok(workspace().join("target/book"))
}
