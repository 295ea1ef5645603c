//! A Kubernetes control plane on loopback, for tests, the demo, benchmarks and `flyball dev`.
//!
//! The parts are the real ones, with TLS and RBAC as in a cluster: etcd, kube-apiserver,
//! kube-scheduler and, if a test starts it, kube-controller-manager. There is no kubelet: pods are
//! bound to nodes and stay pending.
//!
//! The modules in the order in which a control plane starts: [`assets`] finds or builds the
//! binaries, `slot` reserves ports and a folder, `pki` creates certificates and kubeconfigs,
//! [`process`] starts children that can't outlive this process, and [`ControlPlane`] starts the
//! parts in order and waits until they are ready.
//!
//! [`api`] is a client of the API server for any kind. A [`Registry`] serves packages of plugins.
//! [`kubectl`](kubectl()) and [`helm`](helm()) are the stock clients. [`skip`] records tests that can't run.
//!
//! Linux only: see [`process`].

pub mod api;
pub mod assets;
mod control_plane;
mod helm;
mod kubectl;
mod pki;
pub mod process;
mod registry;
mod skip;
mod slot;

pub use assets::Assets;
pub use control_plane::{ControlPlane, Options, Snapshot};
pub use helm::helm;
pub use kubectl::kubectl;
pub use process::Process;
pub use registry::Registry;
pub use skip::{SKIPPED_FILE, skip};

/// The environment variable that makes tests of adjustable length run for longer.
pub const FULL: &str = "FLYBALL_TESTS_FULL";
