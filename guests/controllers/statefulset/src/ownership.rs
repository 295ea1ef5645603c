//! Claims a StatefulSet's pods. Orphans that match its selector and have the name of one of its pods
//! are adopted; pods that it controls and that no longer match are released.
//!
//! Upstream: pkg/controller/statefulset/stateful_set.go: getPodsForStatefulSet, canAdoptFunc, adoptOrphanRevisions.
//! Upstream: pkg/controller/controller_ref_manager.go: ClaimPods, ClaimObject.

use flyball_ownership::{Ownership, adoption, may_adopt, release};
use flyball_sdk::prelude::*;

use crate::identity::is_member;
use crate::views::{Pod, Presence, StatefulSet};

/// Adopts and releases, and returns the set's pods.
///
/// # Errors
/// A read or a write failed. All other writes were made.
pub fn pods(host: &Host, set: &StatefulSet, selector: &LabelSelector) -> Result<Vec<Pod>, Error> {
    let namespace = &set.meta.namespace;
    let list = || host.list::<Pod>().namespace(namespace);
    let controlled = list().controller(&set.meta.uid).all()?;
    let orphans = match selector.is_nothing() {
        true => Vec::new(),
        false => list().orphans().labels(selector).all()?,
    };
    let owner = set.meta.controller_reference(StatefulSet::KIND);
    ownership(set, selector, controlled, orphans).carry_out(
        host,
        &set.meta,
        "pod",
        || recheck(host, set),
        |pod| adoption(Pod::KIND, namespace, pod, &owner),
        |pod| release(Pod::KIND, pod, &set.meta),
    )
}

/// Checks with a live read whether the set may adopt: the cache may not show yet that it is being
/// deleted, or that another set has its name (kubernetes/kubernetes#42639).
///
/// # Errors
/// The set may not adopt, or the read failed.
pub fn recheck(host: &Host, set: &StatefulSet) -> Result<(), Error> {
    let Meta {
        namespace, name, ..
    } = &set.meta;
    let live = host.live().get::<Presence>(namespace, name)?;
    may_adopt(&set.meta, live.as_ref().map(|live| &live.meta))
}

fn ownership(
    set: &StatefulSet,
    selector: &LabelSelector,
    controlled: Vec<Pod>,
    orphans: Vec<Pod>,
) -> Ownership<Pod> {
    let is_member = |pod: &Pod| is_member(&set.meta.name, &pod.meta.name);
    let (members, strangers): (Vec<Pod>, Vec<Pod>) = controlled.into_iter().partition(is_member);
    let orphans = orphans.into_iter().filter(is_member).collect();
    let mut ownership = Ownership::of(&set.meta, selector, members, orphans);
    if !set.meta.is_deleting() {
        ownership.released.extend(strangers);
    }
    ownership
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::view;

    use super::*;

    fn pod(name: &str, app: &str, is_deleting: bool) -> Pod {
        let mut pod = json!({"metadata": {"name": name, "uid": name, "labels": {"app": app}}});
        if is_deleting {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        view(pod)
    }

    fn names(is_deleting: bool) -> [Vec<String>; 3] {
        let mut set = json!({"metadata": {"name": "web", "uid": "u1"}});
        if is_deleting {
            set["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let controlled = vec![
            pod("web-0", "web", false),
            pod("web-1", "web", true),
            pod("web-2", "other", false),
            pod("xweb-3", "web", false),
        ];
        let orphans = vec![
            pod("web-4", "web", false),
            pod("web-5", "web", true),
            pod("web-6", "other", false),
            pod("xweb-7", "web", false),
            pod("web-99999999999", "web", false),
        ];
        let ownership = ownership(&view(set), &"app=web".parse().unwrap(), controlled, orphans);
        [ownership.kept, ownership.adopted, ownership.released]
            .map(|pods| pods.into_iter().map(|pod| pod.meta.name).collect())
    }

    #[test]
    fn only_pods_with_the_sets_labels_and_name_are_its_own() {
        assert_eq!(
            names(false),
            [
                vec!["web-0", "web-1"],
                vec!["web-4", "web-99999999999"],
                vec!["web-2", "xweb-3"]
            ]
        );
    }

    #[test]
    fn a_set_being_deleted_adopts_and_releases_nothing() {
        assert_eq!(names(true), [vec!["web-0", "web-1"], vec![], vec![]]);
    }
}
