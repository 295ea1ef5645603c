//! Builds the site with mdBook. The tests check its pages without it.

pub(crate) mod templates;

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Result, ensure};
use xtask::run::{command, output, run, say, workspace};

const VERSION: &str = "0.5.4";
/// The command of this program that mdBook runs.
pub(crate) const TEMPLATES: &str = "templates";

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
    let preprocessor = format!("'{}' {TEMPLATES}", env::current_exe()?.display());
    run(command(&mdbook)
        .args(["build", "docs"])
        .env("MDBOOK_PREPROCESSOR__TEMPLATES__COMMAND", preprocessor)
        .env("MDBOOK_PREPROCESSOR__TEMPLATES__BEFORE", r#"["links"]"#))?;
    let book = workspace().join("target/book");
    check(&book)?;
    Ok(book)
}

/// Fails if a page shows a directive, which mdBook does if it does not know it.
fn check(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            check(&path)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "html")
        {
            let has_directive = fs::read_to_string(&path)?.contains("{{#");
            ensure!(
                !has_directive,
                "{} shows a directive of mdBook",
                path.display()
            );
        }
    }
    Ok(())
}
