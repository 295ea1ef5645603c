//! The options of a control plane.

use std::time::Duration;

use super::Snapshot;

/// The options of a control plane. The default suits most tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to run kube-scheduler, without leader election. It is started last, and [`ControlPlane::start`] does not
    /// wait for it.
    pub scheduler: bool,
    /// Whether the API server writes an audit log of every request: see [`ControlPlane::audit_events`].
    pub audit: bool,
    /// Whether the audit log has the bodies of what was created, updated and patched.
    pub audit_bodies: bool,
    /// Whether the API server serves watches from its watch cache. Without the cache, a watch begins in etcd, and
    /// expires as soon as etcd is compacted.
    pub watch_cache: bool,
    /// Admission plugins to disable. For example, `ServiceAccount` refuses pods if no controller creates the default
    /// service accounts.
    pub disable_admission: Vec<String>,
    /// Additional flags for kube-apiserver, which override the others.
    pub apiserver_args: Vec<String>,
    /// Additional flags for etcd, which override the others.
    pub etcd_args: Vec<String>,
    /// Additional flags for kube-scheduler, which override the others.
    pub scheduler_args: Vec<String>,
    /// How long each part may take to become ready, at a start and at a restart. The time of a build doesn't count.
    pub ready_within: Duration,
    /// Any number. A control plane gets the ports and the folder of the former one with the same number, unless they are
    /// in use. `None` takes the first free ones.
    pub seed: Option<u16>,
    /// The data of etcd at the start; empty if `None`.
    pub snapshot: Option<Snapshot>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler: true,
            audit: false,
            audit_bodies: false,
            watch_cache: true,
            disable_admission: Vec::new(),
            apiserver_args: Vec::new(),
            etcd_args: Vec::new(),
            scheduler_args: Vec::new(),
            ready_within: Duration::from_secs(180),
            seed: None,
            snapshot: None,
        }
    }
}
