//! Rust's standard library for guests, and for hosts of other architectures: from rustup if its server can be reached,
//! otherwise built once from Debian's packages, in a toolchain of its own. No other file knows of that toolchain:
//! builds use [`prepare_toolchain`], and programs that build projects get [`variables`].
//!
//! On a user's machine nothing is installed as root: an error names the missing packages and the command that installs
//! them.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flyball_author::RUST_TOOLCHAIN;

use crate::debian::{install, missing};
use crate::prerequisites::is_ci;
use crate::run::{command, output, run, say};

/// The target of guests.
pub const TARGET: &str = "wasm32-unknown-unknown";
/// The target of guests that stock toolchains build. Such guests import WASI.
pub const STOCK_TARGET: &str = "wasm32-wasip2";
/// rustup's name of the toolchain that is built here.
const LINKED: &str = "rust-wasm";
/// Debian's packages for building the standard library: a compiler with its source, and a linker for wasm.
const PACKAGES: [&str; 5] = [
    "rustc-web",
    "cargo-web",
    "libstd-rust-web-dev",
    "rust-web-src",
    "lld-22",
];
/// Time limit, in seconds, for rustup to reach its server and download 20 MB.
const RUSTUP_LIMIT: u32 = 120;

/// A toolchain that compiles for another target than this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// The toolchain in use, which has the target.
    Installed,
    /// The toolchain that was built here.
    Linked,
}

impl Toolchain {
    pub fn cargo(self) -> Command {
        let mut cargo = command("cargo");
        if self == Self::Linked {
            cargo.arg(format!("+{LINKED}"));
        }
        cargo
    }
}

/// Finds a toolchain that compiles for a target, or prepares one.
pub fn prepare_toolchain(target: &str) -> Result<Toolchain> {
    if has_target(&[], target) {
        return Ok(Toolchain::Installed);
    }
    if has_target(&[&format!("+{LINKED}")], target) {
        return Ok(Toolchain::Linked);
    }
    if add_target(target) {
        return Ok(Toolchain::Installed);
    }
    say(
        "rustup can't reach its server: building the standard library from Debian's packages (about two minutes)",
    );
    build_toolchain(target)
        .with_context(|| format!("can't build the standard library for {target}"))?;
    ensure!(
        has_target(&[&format!("+{LINKED}")], target),
        "the toolchain {LINKED} was built but lacks the target {target}"
    );
    Ok(Toolchain::Linked)
}

/// Returns the toolchain in use if it has the target of stock guests or rustup can add it. Only a guest for tests needs
/// this target.
pub fn prepare_stock_toolchain() -> Option<Toolchain> {
    (has_target(&[], STOCK_TARGET) || add_target(STOCK_TARGET)).then_some(Toolchain::Installed)
}

/// The variables with which `flyball build` finds the toolchain for guests.
pub fn variables() -> Option<(&'static str, &'static str)> {
    let is_needed = !has_target(&[], TARGET) && has_target(&[&format!("+{LINKED}")], TARGET);
    is_needed.then_some((RUST_TOOLCHAIN, LINKED))
}

/// Adds a target to the toolchain in use with rustup. Returns whether it succeeded.
fn add_target(target: &str) -> bool {
    say(&format!(
        "adding the target {target} with rustup (at most {RUSTUP_LIMIT} s)"
    ));
    let mut add = command("timeout");
    add.arg(RUSTUP_LIMIT.to_string())
        .args(["rustup", "target", "add", target])
        .env("RUSTUP_MAX_RETRIES", "1");
    output(&mut add).is_some()
}

/// Whether a toolchain has the standard library for a target.
fn has_target(toolchain: &[&str], target: &str) -> bool {
    let sysroot = output(
        command("rustc")
            .args(toolchain)
            .args(["--print", "sysroot"]),
    );
    sysroot.is_some_and(|sysroot| {
        let library = Path::new(&sysroot)
            .join("lib/rustlib")
            .join(target)
            .join("lib");
        library
            .read_dir()
            .is_ok_and(|mut files| files.next().is_some())
    })
}

/// Builds the standard library for a target, and adds it to the linked toolchain.
fn build_toolchain(target: &str) -> Result<()> {
    install_packages(target)?;
    let home = toolchain_home()?;
    let libraries = build_std(target)?;
    let is_linked = output(command("rustc").arg(format!("+{LINKED}")).arg("-vV")).is_some();
    if !is_linked && home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    copy_libraries(
        &libraries,
        &home.join("lib/rustlib").join(target).join("lib"),
    )?;
    if is_linked {
        return Ok(());
    }
    say(&format!(
        "linking the toolchain {LINKED} to {}",
        home.display()
    ));
    let host = output(command("/usr/bin/rustc").arg("-vV"))
        .and_then(|text| {
            Some(
                text.lines()
                    .find_map(|line| line.strip_prefix("host: "))?
                    .to_owned(),
            )
        })
        .context("can't read the host triple from `/usr/bin/rustc -vV`")?;
    link_host(&home, &host)?;
    run(command("rustup")
        .args(["toolchain", "link", LINKED])
        .arg(&home))
}

/// Installs the missing packages in continuous integration. Elsewhere, fails with the command that installs them.
fn install_packages(target: &str) -> Result<()> {
    let missing = missing(&PACKAGES);
    ensure!(
        missing.is_empty() || is_ci(),
        "the target {target} is missing. Either run `rustup target add {target}` where rustup can reach its server, or, on \
         Debian, run `sudo apt-get install --no-install-recommends {}` and this command again",
        missing.join(" ")
    );
    install(&missing)
}

/// The toolchain's folder. It is in the user's cache because all checkouts share rustup's link to it.
fn toolchain_home() -> Result<PathBuf> {
    let set = |variable| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(cache
        .context("neither XDG_CACHE_HOME nor HOME is set")?
        .join("flyball")
        .join(LINKED))
}

/// Builds the standard library as a dependency of an empty crate, and returns its folder. Bitcode is embedded, so that
/// code can be optimised together with it.
fn build_std(target: &str) -> Result<PathBuf> {
    // Guests abort on a panic. The host catches them.
    let (panic, crates) = match target == TARGET {
        true => ("abort", "std,panic_abort,proc_macro"),
        false => ("unwind", "std,panic_unwind,panic_abort,proc_macro"),
    };
    let work = crate::run::workspace().join("target/guests/std");
    let source = work.join("empty/src");
    std::fs::create_dir_all(&source)?;
    std::fs::write(source.join("lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"empty\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [profile.release]\npanic = \"{panic}\"\ndebug = 0\n"
    );
    std::fs::write(work.join("empty/Cargo.toml"), manifest)?;
    say(&format!("building the standard library for {target}"));
    let mut cargo = command("/usr/bin/cargo");
    cargo.current_dir(work.join("empty")).args([
        "build",
        "--release",
        "--target",
        target,
        "--target-dir",
    ]);
    cargo
        .arg(work.join("out"))
        .arg(format!("-Zbuild-std={crates}"));
    cargo
        .env("RUSTC", "/usr/bin/rustc")
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Cembed-bitcode=yes");
    run(&mut cargo)?;
    Ok(work.join("out").join(target).join("release/deps"))
}

fn copy_libraries(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for file in from
        .read_dir()
        .with_context(|| format!("can't read {}", from.display()))?
    {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name.starts_with("lib") && name.ends_with(".rlib") && !name.starts_with("libempty-") {
            std::fs::copy(file.path(), to.join(name))?;
        }
    }
    Ok(())
}

/// Completes the toolchain with Debian's compiler and host libraries, and rustup's cargo and linkers.
fn link_host(home: &Path, host: &str) -> Result<()> {
    let own = output(command("rustc").args(["--print", "sysroot"]))
        .context("`rustc --print sysroot` failed")?;
    let Some(cargo) = output(command("rustup").args(["which", "cargo"])) else {
        bail!("`rustup which cargo` failed: rustup is needed to link a toolchain");
    };
    let of_host = home.join("lib/rustlib").join(host);
    std::fs::create_dir_all(&of_host)?;
    symlink(
        Path::new("/usr/lib/rustlib").join(host).join("lib"),
        of_host.join("lib"),
    )?;
    symlink(
        Path::new(&own).join("lib/rustlib").join(host).join("bin"),
        of_host.join("bin"),
    )?;
    let bin = home.join("bin");
    std::fs::create_dir_all(&bin)?;
    symlink(cargo, bin.join("cargo"))?;
    for tool in ["rustc", "rustdoc"] {
        let script = format!(
            "#!/bin/sh\nexec /usr/bin/{tool} --sysroot '{}' \"$@\"\n",
            home.display()
        );
        std::fs::write(bin.join(tool), script)?;
        std::fs::set_permissions(bin.join(tool), std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}
