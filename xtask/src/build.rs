//! `cargo xtask build`: builds the guests, compiles the built-in ones, and builds the host, which embeds their code.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use flyball_controlplane::Assets;

use crate::guests;
use crate::guests::names::{Guest, built_ins};
use crate::machine::Architecture;
use crate::run::{command, is_fresh, run, say, workspace};
use crate::toolchain::{Toolchain, prepare_toolchain};

/// The variable that names the folder of the built-in guests' code, for the host's build.
pub const EMBEDDED: &str = "FLYBALL_BUILTINS";

/// The results of a build.
pub struct Built {
    pub host: PathBuf,
    /// The folder of the components of the guests in Rust.
    pub components: PathBuf,
    /// The folder of the guests that are embedded in the host.
    pub embedded: PathBuf,
}

impl Built {
    /// The component of a guest.
    pub fn guest(&self, guest: Guest) -> PathBuf {
        component(&self.components, guest.name())
    }
}

/// How the host is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// For tests: built quickly after a change.
    Dev,
    /// Like `Dev`, but the host serves heap profiles.
    HeapProfiles,
    /// For installation: optimised across crates.
    Release,
}

impl Profile {
    /// The name of a profile in Cargo.toml.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dev | Self::HeapProfiles => "dev",
            Self::Release => "release",
        }
    }

    /// The folder of a profile below `target`.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Dev | Self::HeapProfiles => "debug",
            Self::Release => "release",
        }
    }

    /// The profile of the guests.
    fn guests(self) -> guests::Profile {
        match self {
            Self::Dev | Self::HeapProfiles => guests::Profile::Dev,
            Self::Release => guests::Profile::Release,
        }
    }

    /// The level of zstd for the compiled code of built-in guests. The highest takes a minute.
    fn compression(self) -> &'static str {
        match self {
            Self::Dev | Self::HeapProfiles => "3",
            Self::Release => "19",
        }
    }
}

/// Builds the host and the guests that it embeds, for this machine.
pub fn all(profile: Profile) -> Result<Built> {
    all_for(profile, None)
}

/// Builds the host and the guests that it embeds, for another architecture if one is given.
pub fn all_for(profile: Profile, foreign: Option<Architecture>) -> Result<Built> {
    let start = Instant::now();
    let toolchain = match foreign {
        Some(architecture) => {
            architecture.require_compiler()?;
            prepare_toolchain(&architecture.target())?
        }
        None => Toolchain::Installed,
    };
    say("step 1 of 3: building the guests, and at the same time what compiles them");
    let (compiler, _) = side_by_side(
        || build_compiler(foreign),
        || guests::build_for_host(profile.guests()),
    )?;
    let embedded = compile(&compiler, profile, foreign)?;
    let name = profile.name();
    say(&format!(
        "step 3 of 3: building the host with the profile {name}"
    ));
    let mut cargo = build_binary(toolchain, "flyball", profile);
    if profile == Profile::HeapProfiles {
        cargo.args(["--features", "flyball/heap-profiles"]);
    }
    let mut folder = workspace().join("target");
    if let Some(architecture) = foreign {
        let target = architecture.target();
        cargo.args(["--target", &target]);
        architecture.set_linker(&mut cargo);
        folder.push(target);
    }
    run(cargo.env(EMBEDDED, &embedded))?;
    say(&format!("built after {} s", start.elapsed().as_secs()));
    Ok(Built {
        host: folder.join(profile.folder()).join("flyball"),
        components: profile.guests().components(),
        embedded,
    })
}

/// Builds the host and the guests that it embeds, and at the same time the control plane.
pub fn all_and_control_plane(profile: Profile) -> Result<(Built, Assets)> {
    let (assets, built) = side_by_side(flyball_controlplane::find_or_build, || all(profile))?;
    Ok((built, assets))
}

/// Builds all that tests and benchmarks need in Rust and Go: the host, all guests, the control plane and
/// kube-controller-manager.
pub fn all_for_tests(profile: Profile) -> Result<(Built, Assets)> {
    let (assets, built) = side_by_side(flyball_controlplane::find_or_build_with_kcm, || {
        all_guests_too(profile)
    })?;
    Ok((built, assets))
}

/// Builds the host and all guests in Rust.
pub fn all_guests_too(profile: Profile) -> Result<Built> {
    let built = all(profile)?;
    guests::build_others(profile.guests())?;
    Ok(built)
}

/// Runs two builds in two threads. Returns their results, or the error of the first if both fail.
fn side_by_side<A: Send, B>(
    first: impl FnOnce() -> Result<A> + Send,
    second: impl FnOnce() -> Result<B>,
) -> Result<(A, B)> {
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        let first = first.join().map_err(|_| anyhow!("a build panicked"))?;
        Ok((first?, second?))
    })
}

/// Builds the program that compiles guests, and returns its path.
fn build_compiler(foreign: Option<Architecture>) -> Result<PathBuf> {
    let mut cargo = build_binary(Toolchain::Installed, "embed", Profile::Dev);
    if foreign.is_some() {
        cargo.args(["--features", "flyball-plugin/other-architectures"]);
    }
    run(&mut cargo)?;
    Ok(workspace().join("target/debug/embed"))
}

/// Compiles the built-in guests for all machines of an architecture, which is this machine's if no other is given, and
/// compresses their code. Returns the folder that the host's build reads.
fn compile(compiler: &Path, profile: Profile, foreign: Option<Architecture>) -> Result<PathBuf> {
    let architecture = foreign.map_or(std::env::consts::ARCH, Architecture::name);
    let components = profile.guests().components();
    let codes = profile
        .guests()
        .folder()
        .join("built-in")
        .join(architecture);
    let level = profile.compression();
    let compressed = codes.join(format!("compressed-{level}"));
    std::fs::create_dir_all(&compressed)
        .with_context(|| format!("can't create {}", compressed.display()))?;
    let code = |name: &str| codes.join(format!("{name}.cwasm"));
    let is_stale = |name: &&str| !is_fresh(&code(name), &[&component(&components, name), compiler]);
    let stale: Vec<PathBuf> = built_ins()
        .filter(is_stale)
        .map(|name| component(&components, name))
        .collect();
    say(&format!(
        "step 2 of 3: compiling the guests for {architecture}"
    ));
    if !stale.is_empty() {
        let mut compile = command(compiler);
        compile.args(["compile", architecture]).arg(&codes);
        run(compile.args(stale))?;
    }
    let mut sources: Vec<PathBuf> = built_ins().map(code).collect();
    sources.push(compiler.to_owned());
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let index = compressed.join("index");
    if !is_fresh(&index, &sources) || !lists_all(&index) {
        let mut compress = command(compiler);
        compress
            .args(["compress", level])
            .arg(&codes)
            .arg(&compressed);
        let of_built_ins = built_ins().map(|name| component(&components, name));
        run(compress.args(of_built_ins))?;
    }
    Ok(compressed)
}

/// Whether the index of the compressed code has all built-in guests, and no other.
fn lists_all(index: &Path) -> bool {
    let lines = std::fs::read_to_string(index).unwrap_or_default();
    let listed = lines.lines().filter_map(|line| line.split(' ').next());
    Vec::from_iter(listed) == Vec::from_iter(built_ins())
}

/// The command that builds one binary with the features of the whole workspace. The tests are built with the same
/// features, so dependencies are compiled once.
fn build_binary(toolchain: Toolchain, name: &str, profile: Profile) -> Command {
    let mut cargo = toolchain.cargo();
    cargo.args(["build", "--workspace", "--bin", name]);
    cargo.args(["--profile", profile.name()]);
    cargo
}

fn component(components: &Path, name: &str) -> PathBuf {
    components.join(format!("{name}.wasm"))
}
