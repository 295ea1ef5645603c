//! A Kubernetes control plane on loopback for tests, the demo and benchmarks, and what they use beside it.
//!
//! [`start`] starts etcd, kube-apiserver and kube-scheduler, which [`find_or_build`] builds from their Go modules, of the
//! chosen [`Release`]. The control plane itself is that of `flyball dev`: see [`flyball_devcluster`].
//!
//! [`api`] is a client of the API server for any kind. A [`Registry`] serves packages of plugins.
//! [`kubectl`](kubectl()) and [`helm`](helm()) are the stock clients, and [`test_rules`] runs promtool. A [`Moto`]
//! is the cloud of Kubernetes' provider for AWS. [`skip`] records tests that can't run.

pub mod api;
mod go_binary;
mod helm;
mod kubectl;
mod moto;
mod promtool;
mod registry;
mod release;
mod skip;

use anyhow::Context;

pub use flyball_devcluster::{Assets, ControlPlane, Options, Process, Snapshot, process};
pub use go_binary::{
    cloud_controller_manager, eviction_controllers, find_or_build, find_or_build_kcm_before,
    find_or_build_with_kcm,
};
pub use helm::helm;
pub use kubectl::kubectl;
pub use moto::{Moto, Vpc, aws_cloud_controller_manager};
pub use promtool::test_rules;
pub use registry::Registry;
pub use release::{KUBERNETES, Release, emulated_version};
pub use skip::{SKIPPED_FILE, skip};

/// The environment variable that makes tests of adjustable length run for longer.
pub const FULL: &str = "FLYBALL_TESTS_FULL";

/// Starts a control plane. The first call on a machine builds its binaries, which takes minutes: see [`find_or_build`].
///
/// # Errors
/// Fails if there are no binaries, or if a part does not become ready. The error names the part, and quotes the end of
/// its log.
pub async fn start(options: Options) -> anyhow::Result<ControlPlane> {
    let assets = tokio::task::spawn_blocking(find_or_build)
        .await
        .context("can't find the binaries")??;
    ControlPlane::start(assets, options).await
}
