//! Claims a set's pods. Orphans that match its selector are adopted; pods that it controls and that
//! no longer match are released.
//!
//! Upstream: pkg/controller/replicaset/replica_set.go: claimPods.
//! Upstream: pkg/controller/controller_ref_manager.go: ClaimPods, ClaimObject, RecheckDeletionTimestamp.

use flyball_ownership::{Adoptable, Facts, Ownership, adoption, may_adopt, release};
use flyball_sdk::prelude::*;

use crate::flavor::{Flavored, Of};
use crate::views::{Pod, Presence, Set};

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

/// Adopts and releases, and returns the set's active pods.
///
/// # Errors
/// A read or a write failed.
pub fn active_pods<F: Flavored>(
    host: &Host,
    set: &Set,
    selector: &LabelSelector,
    own: Vec<Pod>,
    orphans: Vec<Pod>,
) -> Result<Vec<Pod>, Error> {
    let is_active = |pods: Vec<Pod>| pods.into_iter().filter(Pod::is_active).collect();
    // The cache may not show yet that the set is being deleted, or that another one has its name: only a live read
    // after the list can tell (kubernetes/kubernetes#42639).
    let recheck = || {
        let live = host
            .live()
            .get::<Of<F, Presence>>(&set.meta.namespace, &set.meta.name)?;
        may_adopt(&set.meta, live.as_ref().map(|live| &live.view.meta))
    };
    let owner = set.meta.controller_reference(F::FLAVOR.kind);
    Ownership::of(&set.meta, selector, is_active(own), is_active(orphans)).carry_out(
        host,
        &set.meta,
        "pod",
        recheck,
        |pod| adoption(Pod::KIND, &set.meta.namespace, pod, &owner),
        |pod| release(Pod::KIND, pod, &set.meta),
    )
}

/// Number of the set's pods that are being deleted.
pub fn count_terminating(selector: &LabelSelector, own: &[Pod]) -> usize {
    own.iter()
        .filter(|pod| pod.is_terminating() && selector.matches(&pod.labels))
        .count()
}
