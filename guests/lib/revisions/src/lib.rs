//! The history of pod templates that StatefulSets and DaemonSets keep in ControllerRevisions.
//!
//! A revision holds a pod template as a patch that restores it. [`data`] writes that patch with the
//! same bytes as kube-controller-manager, and [`name`] derives the revision's name from them, so
//! that a cluster can change between the two controllers without a rollout. [`revision`] compares
//! and orders revisions; [`history`] reads and writes them.

pub mod data;
pub mod history;
pub mod name;
pub mod revision;

pub use data::{data, exact_data, template};
pub use history::{adopt, create, list, set_number};
pub use name::{HASH_LABEL, hash, name};
pub use revision::{ControllerRevision, NewRevision, latest_equal, next_number, sort, surplus};
