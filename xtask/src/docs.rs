//! Builds the site with mdBook. The tests check its pages without it. `pages.rs` writes code into the pages.

mod pages;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use xtask::run::{command, output, run, say, workspace};

const VERSION: &str = "0.5.4";

/// Writes the texts of the files that the pages name into the pages.
pub(crate) fn write() -> Result<()> {
    for (path, page) in pages::all(&workspace().join("docs"))? {
        if fs::read_to_string(&path).is_ok_and(|old| old != page) {
            fs::write(&path, page).with_context(|| format!("can't write {}", path.display()))?;
            say(&format!("wrote {}", path.display()));
        }
    }
    Ok(())
}

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
