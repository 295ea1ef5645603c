//! A copy of the tree, which a test changes and builds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

/// Copies the files that git knows, or would add, to another folder.
pub(crate) fn copy_tree(to: &Path) -> Result<()> {
    let from = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = succeeds(
        from,
        &[
            "git",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    )?;
    for file in listed.lines().filter(|file| from.join(file).is_file()) {
        let target = to.join(file);
        fs::create_dir_all(target.parent().context("it has one")?)?;
        fs::copy(from.join(file), &target).with_context(|| format!("can't copy {file}"))?;
    }
    Ok(())
}

/// Runs a command, and returns what it printed to standard output.
pub(crate) fn succeeds(folder: &Path, command: &[&str]) -> Result<String> {
    let output = output(folder, command)?;
    ensure!(output.status.success(), "{command:?}: {}", printed(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn output(folder: &Path, command: &[&str]) -> Result<Output> {
    let program = PathBuf::from(command[0]);
    let mut process = Command::new(&program);
    process.current_dir(folder).args(&command[1..]);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("CARGO_") || variable == "FLYBALL_BUILTINS" {
            process.env_remove(variable);
        }
    }
    process
        .output()
        .with_context(|| format!("can't run {}", program.display()))
}

pub(crate) fn printed(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|text| String::from_utf8_lossy(text))
        .concat()
}
