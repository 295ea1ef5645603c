//! What to start, and how.

use std::time::Duration;

use super::Snapshot;

/// What to start, and how. The default suits most tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to run kube-scheduler, without leader election. It is started last, and not waited
    /// for.
    pub scheduler: bool,
    /// Whether the API server writes an audit log of every request, without bodies: see
    /// [`ControlPlane::audit_events`].
    pub audit: bool,
    /// Whether the API server serves watches from its own cache. Without it a watch begins in etcd,
    /// and expires as soon as etcd is compacted.
    pub watch_cache: bool,
    /// Admission plugins to disable. `ServiceAccount`, for example, refuses pods where no
    /// controller creates the namespaces' default service accounts.
    pub disable_admission: Vec<String>,
    /// More flags for kube-apiserver. They come last, so that they override others.
    pub apiserver_args: Vec<String>,
    /// More flags for etcd. They come last, so that they override others.
    pub etcd_args: Vec<String>,
    /// More flags for kube-scheduler. They come last, so that they override others.
    pub scheduler_args: Vec<String>,
    /// How long each part may take to become ready, at a start and at a restart. A build isn't
    /// counted.
    pub ready_within: Duration,
    /// The content of etcd at the start; empty if this is `None`.
    pub snapshot: Option<Snapshot>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler: true,
            audit: false,
            watch_cache: true,
            disable_admission: Vec::new(),
            apiserver_args: Vec::new(),
            etcd_args: Vec::new(),
            scheduler_args: Vec::new(),
            ready_within: Duration::from_secs(180),
            snapshot: None,
        }
    }
}
