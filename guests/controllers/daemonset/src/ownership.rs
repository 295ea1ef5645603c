//! Claims a DaemonSet's pods and revisions. Orphans that match its selector are adopted; objects that
//! it controls and that no longer match are released.
//!
//! Upstream: pkg/controller/daemon/daemon_controller.go: getDaemonPods.
//! Upstream: pkg/controller/daemon/update.go: controlledHistories.
//! Upstream: pkg/controller/controller_ref_manager.go: ClaimPods, ClaimControllerRevisions, ClaimObject,
//! RecheckDeletionTimestamp.

use flyball_ownership::{Adoptable, Facts, Ownership, adoption, may_adopt, release};
use flyball_revisions::ControllerRevision;
use flyball_sdk::prelude::*;

use crate::views::{DaemonSet, Pod, Presence};

impl Adoptable for Pod {
    fn facts(&self) -> Facts<'_, impl Labels> {
        // `is_free` is only used for orphans, and the list of orphans contains no pod with a
        // controller.
        Facts {
            name: &self.name,
            uid: &self.uid,
            labels: &self.labels,
            is_free: self.deleted.is_none(),
        }
    }
}

/// Returns the DaemonSet's pods after adopting and releasing.
///
/// # Errors
/// A read or a write failed. All other writes were carried out.
pub fn pods(host: &Host, set: &DaemonSet, selector: &LabelSelector) -> Result<Vec<Pod>, Error> {
    adopt_and_release::<Pod>(host, set, selector, "pod", |write| write)
}

/// Returns the DaemonSet's pods without adopting and releasing.
///
/// # Errors
/// The read failed.
pub fn listed_pods(
    host: &Host,
    set: &DaemonSet,
    selector: &LabelSelector,
) -> Result<Vec<Pod>, Error> {
    let mut pods = own::<Pod>(host, set)?;
    pods.retain(|pod| selector.matches(&pod.labels));
    Ok(pods)
}

/// Returns the DaemonSet's revisions after adopting and releasing.
///
/// # Errors
/// As [`pods`].
pub fn revisions(
    host: &Host,
    set: &DaemonSet,
    selector: &LabelSelector,
) -> Result<Vec<ControllerRevision>, Error> {
    adopt_and_release::<ControllerRevision>(host, set, selector, "ControllerRevision", |write| {
        write.returning(&["metadata.resourceVersion"])
    })
}

fn adopt_and_release<T: View + Adoptable>(
    host: &Host,
    set: &DaemonSet,
    selector: &LabelSelector,
    noun: &str,
    returning: impl Fn(Write) -> Write,
) -> Result<Vec<T>, Error> {
    let namespace = &set.meta.namespace;
    let orphans = if selector.is_nothing() {
        Vec::new()
    } else {
        host.list::<T>()
            .namespace(namespace)
            .orphans()
            .labels(selector)
            .all()?
    };
    // The cache may not show yet that the DaemonSet is being deleted, or that another one has its name: only a live
    // read after the list can tell (kubernetes/kubernetes#42639).
    let recheck = || {
        let live = host.live().get::<Presence>(namespace, &set.meta.name)?;
        may_adopt(&set.meta, live.as_ref().map(|live| &live.meta))
    };
    let owner = set.meta.controller_reference(DaemonSet::KIND);
    Ownership::of(&set.meta, selector, own::<T>(host, set)?, orphans).carry_out(
        host,
        &set.meta,
        noun,
        recheck,
        |one| returning(adoption(T::KIND, namespace, one, &owner)),
        |one| release(T::KIND, one, &set.meta),
    )
}

fn own<T: View>(host: &Host, set: &DaemonSet) -> Result<Vec<T>, Error> {
    host.list::<T>()
        .namespace(&set.meta.namespace)
        .controller(&set.meta.uid)
        .all()
}
