//! `cargo xtask build`: the guests, and the host with the built-in ones embedded and compiled ahead.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::guests;
use crate::run::{command, is_fresh, run, say, workspace};

/// The guests that are part of the host.
const BUILT_INS: &[&str] = &["serviceaccount", "replicaset", "deployment"];

/// What was built.
pub(crate) struct Built {
    /// The host's binary.
    pub(crate) host: PathBuf,
}

/// A guest that the demo runs as a plugin.
#[derive(Clone, Copy)]
pub(crate) enum Guest {
    FakeKubelet,
    Greeter,
}

impl Built {
    /// The component of a guest.
    pub(crate) fn guest(&self, guest: Guest) -> PathBuf {
        component(match guest {
            Guest::FakeKubelet => "fake-kubelet",
            Guest::Greeter => "greeter",
        })
    }
}

/// Builds the guests in Rust and the host.
pub(crate) fn all() -> Result<Built> {
    let start = Instant::now();
    guests::build_guests()?;
    let precompiled = precompile()?;
    say("building the host, in release mode (some minutes the first time, seconds after)");
    let mut cargo = command("cargo");
    cargo.args(["build", "--release", "--package", "flyball"]).env("FLYBALL_BUILTINS", precompiled);
    run(&mut cargo)?;
    say(&format!("built after {} s", start.elapsed().as_secs()));
    Ok(Built { host: workspace().join("target/release/flyball") })
}

/// Compiles the built-in guests for this machine, and returns the folder in which they are.
fn precompile() -> Result<PathBuf> {
    say("building the compiler of the guests");
    // Together with the host, so that both are built with the same features of the same crates.
    let mut cargo = command("cargo");
    cargo.args(["build", "--release", "--package", "flyball", "--package", "flyball-plugin", "--bin", "precompile"]);
    run(&mut cargo)?;
    let compiler = workspace().join("target/release/precompile");
    let folder = workspace().join("target/guests/built-in");
    std::fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let is_stale = |name: &&str| {
        let source = component(name);
        !is_fresh(&folder.join(name).with_extension("cwasm"), &[&source, &compiler])
    };
    let stale: Vec<PathBuf> = BUILT_INS.iter().filter(is_stale).map(|name| component(name)).collect();
    if !stale.is_empty() {
        run(command(&compiler).arg(&folder).args(stale))?;
    }
    Ok(folder)
}

fn component(name: &str) -> PathBuf {
    workspace().join(format!("target/guests/components/{name}.wasm"))
}
