//! Debian's packages, which are installed here only in continuous integration (`CI` is set).

use std::process::Command;

use anyhow::{Context, Result};

use crate::prerequisites::is_ci;
use crate::run::{command, output, run, say};

/// Debian's packages that compile C for WASI.
const C_PACKAGES: [&str; 4] = [
    "clang-22",
    "lld-22",
    "libclang-rt-22-dev-wasm32",
    "wasi-libc",
];

/// Installs the runtime of containers in continuous integration. Elsewhere, tests that need it are skipped.
pub fn prepare_containers() -> Result<()> {
    match is_ci() {
        true => install(&missing(&["crun"])),
        false => Ok(()),
    }
}

/// Installs the browser of the dashboard's tests, and a font, in continuous integration. Elsewhere, these tests use the
/// Chromium that is installed, or are skipped.
pub fn prepare_browser() -> Result<()> {
    match is_ci() {
        true => install(&missing(&["chromium", "fonts-dejavu-core"])),
        false => Ok(()),
    }
}

/// Installs a compiler for guests in C, in continuous integration.
pub fn prepare_c() -> Result<()> {
    install(&missing(&C_PACKAGES))
}

/// Installs packages.
pub fn install(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    say(&format!("installing {}", packages.join(" ")));
    run(as_root("apt-get").args(["-q", "update"]))?;
    let mut install = as_root("apt-get");
    run(install
        .args(["-q", "-y", "install", "--no-install-recommends"])
        .args(packages))
    .with_context(|| format!("can't install Debian's packages {}", packages.join(" ")))
}

/// Returns the packages that are not installed.
pub fn missing(packages: &[&'static str]) -> Vec<&'static str> {
    let is_installed = |package: &&&str| {
        let status = output(command("dpkg-query").args(["-W", "-f=${db:Status-Abbrev}", package]));
        status.is_some_and(|status| status.starts_with("ii"))
    };
    let packages = packages.iter();
    packages
        .filter(|package| !is_installed(package))
        .copied()
        .collect()
}

/// A command that runs as root, for continuous integration.
fn as_root(program: &str) -> Command {
    let is_root = output(command("id").arg("-u")).is_some_and(|id| id == "0");
    let mut command = if is_root {
        command(program)
    } else {
        let mut sudo = command("sudo");
        sudo.arg(program);
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
