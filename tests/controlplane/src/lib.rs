//! A Kubernetes control plane on loopback, for tests, the demo and benchmarks.
//!
//! The parts are the real ones: etcd, kube-apiserver, kube-scheduler and, where a test asks for it,
//! kube-controller-manager, with TLS and RBAC as in a cluster. There is no kubelet: pods get a node, and stay pending.
//!
//! The way from nothing to a server that answers is that of the modules: [`assets`] finds or builds the binaries, `slot`
//! takes ports and a folder that no other control plane has, `pki` makes certificates and kubeconfigs, [`process`] starts
//! children that can't outlive this process, and [`ControlPlane`] puts them in order and waits until they serve.
//!
//! Beside it, for packages of plugins, stands a [`Registry`].
//!
//! Linux only: see [`process`].

pub mod assets;
mod control_plane;
mod pki;
pub mod process;
mod registry;
mod slot;

pub use assets::Assets;
pub use control_plane::{ControlPlane, Options, Snapshot};
pub use process::Process;
pub use registry::Registry;
