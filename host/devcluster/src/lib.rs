//! A Kubernetes control plane on loopback, for `flyball dev` and the tests.
//!
//! The parts are the real ones, with TLS and RBAC as in a cluster: etcd, kube-apiserver and, if asked for,
//! kube-scheduler and kube-controller-manager. There is no kubelet: pods are bound to nodes and stay pending.
//!
//! The modules in the order in which a control plane starts: [`assets`] finds the binaries, `slot` reserves ports and a
//! folder, `pki` creates certificates and kubeconfigs, [`process`] starts children that can't outlive this process, and
//! [`ControlPlane`] starts the parts in order and waits until they are ready.
//!
//! Linux only: see [`process`].

pub mod assets;
mod control_plane;
mod pki;
pub mod process;
mod slot;

pub use assets::Assets;
pub use control_plane::{ControlPlane, Options, Snapshot};
pub use process::Process;
