//! `cargo xtask build`: builds the guests, and the host with the built-in guests embedded and
//! precompiled.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use flyball_controlplane::Assets;

use crate::guests;
use crate::run::{command, is_fresh, run, say, workspace};

/// The guests that are embedded in the host.
const BUILT_INS: &[&str] = &[
    "serviceaccount",
    "serviceaccounttoken",
    "rootca",
    "legacytokencleaner",
    "replicaset",
    "replicationcontroller",
    "deployment",
    "statefulset",
    "daemonset",
    "job",
    "cronjob",
    "disruption",
    "endpoints",
    "endpointslice",
    "endpointslicemirroring",
    "namespace",
    "garbagecollector",
    "ttlafterfinished",
    "pvcprotection",
    "pvprotection",
    "vacprotection",
    "ephemeralvolume",
    "clusterroleaggregation",
    "podgc",
    "resourceclaim",
    "resourcequota",
    "csrsigning",
    "clustertrustbundle",
    "ttl",
    "servicecidr",
    "csrapproving",
    "csrcleaner",
    "bootstrapsigner",
    "tokencleaner",
    "podcertificatecleaner",
    "podgroupprotection",
    "storageversiongc",
    "nodeipam",
    "nodelifecycle",
    "tainteviction",
    "devicetainteviction",
    "horizontalpodautoscaler",
];

/// The variable that names the folder of the precompiled guests for the host's build.
pub(crate) const EMBEDDED: &str = "FLYBALL_BUILTINS";

/// The results of a build.
pub(crate) struct Built {
    pub(crate) host: PathBuf,
    /// The folder of the guests that are embedded in the host.
    pub(crate) embedded: PathBuf,
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

/// How the host is built: the name of a profile in Cargo.toml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// For tests: built quickly after a change.
    Release,
    /// As it is installed: optimised across crates.
    Production,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Production => "production",
        }
    }
}

/// Builds the guests in Rust and the host.
pub(crate) fn all(profile: Profile) -> Result<Built> {
    let start = Instant::now();
    say("step 1 of 4: building the guests");
    guests::build_guests()?;
    let embedded = precompile()?;
    let name = profile.name();
    say(&format!(
        "step 4 of 4: building the host with the profile {name}"
    ));
    run(build_binary("flyball", profile).env(EMBEDDED, &embedded))?;
    say(&format!("built after {} s", start.elapsed().as_secs()));
    Ok(Built {
        host: workspace().join("target").join(name).join("flyball"),
        embedded,
    })
}

/// Builds the guests in Rust and the host, and at the same time the control plane of the tests.
pub(crate) fn all_and_control_plane(profile: Profile) -> Result<(Built, Assets)> {
    std::thread::scope(|scope| {
        let control_plane = scope.spawn(Assets::find_or_build);
        let built = all(profile)?;
        if !control_plane.is_finished() {
            say("waiting for the build of the control plane");
        }
        let assets = control_plane
            .join()
            .map_err(|_| anyhow!("can't build the control plane: its build panicked"))??;
        Ok((built, assets))
    })
}

/// Compiles the built-in guests for this machine, and returns their folder.
fn precompile() -> Result<PathBuf> {
    say("step 2 of 4: building the compiler of the guests");
    run(&mut build_binary("precompile", Profile::Release))?;
    let compiler = workspace().join("target/release/precompile");
    let folder = workspace().join("target/guests/built-in");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("can't create {}", folder.display()))?;
    let is_stale = |source: &PathBuf| {
        !is_fresh(
            &folder.join(source.file_name().unwrap_or_default()),
            &[source, &compiler],
        )
    };
    let stale: Vec<PathBuf> = BUILT_INS
        .iter()
        .map(|name| component(name))
        .filter(is_stale)
        .collect();
    say("step 3 of 4: compiling the guests for this machine");
    if !stale.is_empty() {
        run(command(&compiler).arg(&folder).args(stale))?;
    }
    Ok(folder)
}

/// The command that builds one binary with the features of the whole workspace. The tests are built
/// with the same features, so dependencies are compiled once.
fn build_binary(name: &str, profile: Profile) -> std::process::Command {
    let mut cargo = command("cargo");
    cargo.args(["build", "--workspace", "--bin", name]);
    cargo.args(["--profile", profile.name()]);
    cargo
}

fn component(name: &str) -> PathBuf {
    workspace().join(format!("target/guests/components/{name}.wasm"))
}
