//! `cargo xtask release`: the host's binary as it is installed, optimised across crates and without symbols, and the
//! symbols in a file beside it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xtask::build::{self, Profile};
use xtask::machine::Architecture;
use xtask::run::{command, run, say, workspace};

/// Builds the host for this machine, and writes it to `target/dist`. Returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    build_for(None, &workspace().join("target/dist"))
}

/// Builds the host, for another architecture if one is given, and writes it to a folder. Returns its path.
pub(crate) fn build_for(foreign: Option<Architecture>, folder: &Path) -> Result<PathBuf> {
    let built = build::all_for(Profile::Release, foreign)?;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("can't create {}", folder.display()))?;
    let binary = folder.join("flyball");
    let objcopy = match foreign {
        Some(architecture) => architecture.program("objcopy"),
        None => "objcopy".to_owned(),
    };
    let symbols = separate(&objcopy, &built.host, &binary)?;
    let size = |path: &Path| std::fs::metadata(path).map(|file| file.len() as f64 / 1e6);
    say(&format!(
        "wrote {} ({:.1} MB) and its symbols, {} ({:.1} MB)",
        binary.display(),
        size(&binary)?,
        symbols.display(),
        size(&symbols)?,
    ));
    Ok(binary)
}

/// Copies a binary without its symbols, and writes them to a file with the extension `debug` beside the copy. The copy
/// names that file, so that profilers and debuggers find it. `objcopy` is that of the binary's architecture. Returns
/// the path of the file.
pub(crate) fn separate(objcopy: &str, from: &Path, to: &Path) -> Result<PathBuf> {
    let symbols = to.with_extension("debug");
    run(command(objcopy)
        .arg("--only-keep-debug")
        .arg(from)
        .arg(&symbols))?;
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&symbols);
    run(command(objcopy)
        .arg("--strip-all")
        .arg(link)
        .arg(from)
        .arg(to))?;
    Ok(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_runs_without_its_symbols_and_is_smaller() {
        let folder = tempfile::tempdir().unwrap();
        let (own, copy) = (std::env::current_exe().unwrap(), folder.path().join("copy"));
        let symbols = separate("objcopy", &own, &copy).unwrap();
        let size = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert!(size(&copy) < size(&own));
        assert!(size(&symbols) > 0);
        let listed = std::process::Command::new(&copy)
            .args(["--list", "release::"])
            .output()
            .unwrap();
        assert!(listed.status.success());
        assert!(String::from_utf8_lossy(&listed.stdout).contains("release::tests::"));
    }
}
