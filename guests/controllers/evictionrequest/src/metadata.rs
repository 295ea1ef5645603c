//! Reconciles the labels and owners of an Eviction. Responders find their Evictions by the labels, and the garbage collector
//! deletes an Eviction with its last request.
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_controller.go: syncEvictionMetaRefresh.
//! Upstream: pkg/controller/evictionrequest/evictionrequest_utils.go: computeEvictionLabels, evictionLabelsNeedSSAUpdate.

use flyball_sdk::prelude::*;
use flyball_sdk::{StringMap, error};

use crate::eviction::requests_for;
use crate::request::REQUESTER;
use crate::target::Target;
use crate::views::{Eviction, EvictionRequest};
use crate::write::{self, Labelled};

const RESPONDER: &str = "responder";
/// Both at once.
const BOTH: &str = "requester-responder";

/// Applies labels and owners if some are missing.
///
/// # Errors
/// A read or the write failed.
pub fn reconcile(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let Some(eviction) = host.get_by_key::<Eviction>(key)? else {
        return Ok(Outcome::Done);
    };
    let Some(pod) = &eviction.pod else {
        error!(
            host,
            "the target of the Eviction {key} is of an unknown kind"
        );
        return Ok(Outcome::Done);
    };
    let target = Target::read(host, &key.namespace, pod)?;
    let requests = requests_for(host, &key.namespace, pod)?;
    let new = Labelled {
        name: key.name.clone(),
        namespace: key.namespace.clone(),
        labels: labels(&eviction.meta.labels, &target, &requests),
        owners: owners(&eviction.meta.owner_references, &requests),
        target: pod.clone(),
    };
    let lacks_owners = {
        let own = { eviction.meta.owner_references.iter() }.filter(|owner| is_request(owner));
        new.owners.len() > own.count()
    };
    if lacks_owners || lacks_labels(&eviction.meta.labels, &new.labels) {
        write::eviction(host, &new)?;
    }
    Ok(Outcome::Done)
}

/// The labels: the requesters, and the responders of the target. Once that is gone, the responders are those of the present
/// labels.
fn labels(present: &StringMap, target: &Target, requests: &[EvictionRequest]) -> StringMap {
    let mut labels: StringMap = { requests.iter() }
        .map(|request| (request.requester.clone(), REQUESTER.into()))
        .collect();
    let responders: Vec<String> = if target.is_gone() {
        let was_responder = |(_, role): &(&String, &String)| [RESPONDER, BOTH].contains(&&***role);
        let present = present.iter().filter(was_responder);
        present.map(|(name, _)| name.clone()).collect()
    } else {
        { target.responders().into_iter() }
            .map(|one| one.name)
            .collect()
    };
    for responder in responders {
        let role = match labels.get(&responder) {
            Some(_) => BOTH,
            None => RESPONDER,
        };
        labels.insert(responder, role.into());
    }
    labels
}

/// Whether labels have to be applied: one is missing or differs, or a requester has gone. Responders never go.
fn lacks_labels(present: &StringMap, wanted: &StringMap) -> bool {
    let differs = |(key, value): (&String, &String)| present.get(key) != Some(value);
    let has_gone = |(key, role): (&String, &String)| role == REQUESTER && !wanted.contains_key(key);
    wanted.iter().any(differs) || present.iter().any(has_gone)
}

/// The owners: the present ones, which only the garbage collector removes, and the requests that are missing. A request that is
/// being deleted is not added, since its dependents may just have been orphaned.
fn owners(present: &[OwnerReference], requests: &[EvictionRequest]) -> Vec<OwnerReference> {
    let bare = |owner: &OwnerReference| OwnerReference {
        controller: false,
        block_owner_deletion: false,
        ..owner.clone()
    };
    let mut owners: Vec<OwnerReference> = { present.iter() }
        .filter(|owner| is_request(owner))
        .map(bare)
        .collect();
    for request in requests.iter().filter(|one| !one.meta.is_deleting()) {
        let owner = write::owner(&request.meta);
        if !owners.contains(&owner) {
            owners.push(owner);
        }
    }
    owners
}

fn is_request(owner: &OwnerReference) -> bool {
    let own = write::owner(&Meta::default());
    (&owner.api_version, &owner.kind) == (&own.api_version, &own.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::{Pod, PodReference, Responder};

    fn map(labels: &[(&str, &str)]) -> StringMap {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        labels.iter().map(pair).collect()
    }

    fn request(name: &str, requester: &str) -> EvictionRequest {
        EvictionRequest {
            meta: Meta {
                name: name.into(),
                uid: format!("uid-{name}"),
                ..Meta::default()
            },
            requester: requester.into(),
            ..EvictionRequest::default()
        }
    }

    fn target(responders: &[&str]) -> Target {
        let responder = |name: &&str| Responder {
            name: (*name).to_owned(),
            priority: Some(10_000),
        };
        Target {
            reference: PodReference::default(),
            pod: Some(Pod {
                responders: responders.iter().map(responder).collect(),
                ..Pod::default()
            }),
        }
    }

    #[test]
    fn labels_are_the_roles_of_requesters_and_responders() {
        let requests = [request("a", "x.io/a"), request("b", "y.io/b")];
        let present = map(&[("x.io/a", REQUESTER), ("own", "kept")]);
        let found = labels(&present, &target(&["y.io/b", "z.io/c"]), &requests);
        let expected = map(&[
            ("imperative-eviction.k8s.io/evictor", RESPONDER),
            ("x.io/a", REQUESTER),
            ("y.io/b", BOTH),
            ("z.io/c", RESPONDER),
        ]);
        assert_eq!(found, expected);
        // The pod is gone, and so is the second request, while another one has come.
        let requests = [request("a", "x.io/a"), request("c", "z.io/c")];
        let found = labels(&found, &Target::default(), &requests);
        let expected = map(&[
            ("imperative-eviction.k8s.io/evictor", RESPONDER),
            ("x.io/a", REQUESTER),
            ("y.io/b", RESPONDER),
            ("z.io/c", BOTH),
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn only_missing_labels_and_gone_requesters_are_a_reason_to_write() {
        let wanted = map(&[("x.io/a", REQUESTER)]);
        for (present, expected) in [
            (map(&[]), true),
            (map(&[("x.io/a", RESPONDER)]), true),
            (wanted.clone(), false),
            (map(&[("x.io/a", REQUESTER), ("own", "kept")]), false),
            (map(&[("x.io/a", REQUESTER), ("y.io/b", REQUESTER)]), true),
            (map(&[("x.io/a", REQUESTER), ("y.io/b", RESPONDER)]), false),
        ] {
            assert_eq!(lacks_labels(&present, &wanted), expected, "{present:?}");
        }
    }

    #[test]
    fn owners_are_added_and_never_removed() {
        let mut deleting = request("d", "x.io/d");
        deleting.meta.deletion_timestamp = Some(Time::default());
        let gone = write::owner(&request("g", "").meta);
        let foreign = OwnerReference {
            kind: "Pod".into(),
            ..gone.clone()
        };
        let present = [
            foreign,
            OwnerReference {
                block_owner_deletion: true,
                ..gone.clone()
            },
        ];
        let requests = [request("a", "x.io/a"), deleting];
        let found = owners(&present, &requests);
        assert_eq!(found, [gone, write::owner(&requests[0].meta)]);
        assert_eq!(owners(&found, &requests), found);
    }
}
