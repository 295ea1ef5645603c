//! Claims a Deployment's ReplicaSets. Orphans that match its selector are adopted; ReplicaSets that
//! it controls and that no longer match are released.
//!
//! Upstream: pkg/controller/deployment/deployment_controller.go: getReplicaSetsForDeployment.
//! Upstream: pkg/controller/controller_ref_manager.go: ClaimReplicaSets, ClaimObject, RecheckDeletionTimestamp.

use flyball_ownership::{Adoptable, Facts, Ownership, adoption, may_adopt, release};
use flyball_sdk::prelude::*;

use crate::rollout::{VERSION_FIELDS, set_version};
use crate::views::{Deployment, Identity, ReplicaSet};

impl Adoptable for ReplicaSet {
    fn facts(&self) -> Facts<'_, impl Labels> {
        self.meta.facts()
    }

    fn set_adopted(&mut self, answer: &Answer) -> Result<(), Error> {
        set_version(&mut self.meta, answer)
    }
}

/// Returns the Deployment's ReplicaSets after adopting and releasing.
///
/// # Errors
/// The selector is invalid, or a read or a write failed. All other writes were carried out.
pub fn replica_sets(host: &Host, deployment: &Deployment) -> Result<Vec<ReplicaSet>, Error> {
    let key = deployment.meta.key();
    let selector =
        LabelSelector::of_json(deployment.selector.text().as_bytes()).map_err(|error| {
            Error::terminal(format!(
                "deployment {key} has invalid label selector: {error}"
            ))
        })?;
    let own = || host.list::<ReplicaSet>().namespace(&key.namespace);
    let controlled = own().controller(&deployment.meta.uid).all()?;
    let orphans = if selector.is_nothing() {
        Vec::new()
    } else {
        own().orphans().labels(&selector).all()?
    };

    // The cache may not show yet that the Deployment is being deleted, or that another one has its name: only a live
    // read after the list can tell (kubernetes/kubernetes#42639).
    let recheck = || {
        let live = host.live().get::<Identity>(&key.namespace, &key.name)?;
        may_adopt(&deployment.meta, live.as_ref().map(|live| &live.meta))
    };
    let owner = deployment.meta.controller_reference(Deployment::KIND);
    Ownership::of(&deployment.meta, &selector, controlled, orphans).carry_out(
        host,
        &deployment.meta,
        "ReplicaSet",
        recheck,
        |set| adoption(ReplicaSet::KIND, &key.namespace, set, &owner).returning(VERSION_FIELDS),
        |set| release(ReplicaSet::KIND, set, &deployment.meta),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, app: &str, owner: Option<&str>, deleting: bool) -> ReplicaSet {
        let owner = owner.map(|uid| OwnerReference {
            uid: uid.into(),
            controller: true,
            ..OwnerReference::default()
        });
        let meta = Meta {
            name: name.into(),
            uid: format!("uid-{name}"),
            labels: [("app".to_owned(), app.to_owned())].into(),
            owner_references: owner.into_iter().collect(),
            deletion_timestamp: deleting.then(Time::default),
            ..Meta::default()
        };
        ReplicaSet {
            meta,
            ..ReplicaSet::default()
        }
    }

    fn names(ownership: &Ownership<ReplicaSet>) -> [Vec<&str>; 3] {
        [&ownership.kept, &ownership.adopted, &ownership.released]
            .map(|sets| sets.iter().map(|set| set.meta.name.as_str()).collect())
    }

    fn ownership(deleting: bool) -> Ownership<ReplicaSet> {
        let meta = Meta {
            deletion_timestamp: deleting.then(Time::default),
            ..Meta::default()
        };
        let controlled = vec![
            set("own", "web", Some("me"), false),
            set("own-going", "web", Some("me"), true),
            set("strayed", "other", Some("me"), false),
        ];
        let orphans = vec![
            set("orphan", "web", None, false),
            set("orphan-going", "web", None, true),
            set("stranger", "other", None, false),
            set("taken", "web", Some("they"), false),
        ];
        Ownership::of(&meta, &"app=web".parse().unwrap(), controlled, orphans)
    }

    #[test]
    fn matching_orphans_are_adopted_and_sets_that_no_longer_match_are_released() {
        assert_eq!(
            names(&ownership(false)),
            [vec!["own", "own-going"], vec!["orphan"], vec!["strayed"]]
        );
    }

    #[test]
    fn a_deployment_being_deleted_adopts_and_releases_nothing() {
        assert_eq!(
            names(&ownership(true)),
            [vec!["own", "own-going"], vec![], vec![]]
        );
    }
}
