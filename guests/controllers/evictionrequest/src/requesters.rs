//! The requesters in an Eviction's status: one entry for each, with its intent.
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_controller.go: updateRequestersForEvictionStatusApply.
//! Upstream: pkg/controller/evictionrequest/eviction_utils.go: sortEvictionRequestsByRelevance.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use flyball_sdk::prelude::*;

use crate::views::{EVICTION, EvictionRequest, Requester};

/// The maximum number of requesters in a status, by the API.
pub const MOST: usize = 100;
const WITHDRAWN: &str = "Withdrawn";

/// One wish of a requester.
struct Wish<'a> {
    requester: &'a str,
    intent: &'a str,
    /// Whether an EvictionRequest expresses it. Otherwise it is only in the status.
    exists: bool,
    /// Whether it counts.
    is_valid: bool,
    created: Option<Time>,
}

/// Returns the requesters for a status, with those of the present one, and whether they differ from these. A requester whose
/// EvictionRequests are gone has withdrawn.
pub fn all(
    present: &[Requester],
    requests: &[EvictionRequest],
    most: usize,
) -> (Vec<Requester>, bool) {
    let existing = requests.iter().map(|request| Wish {
        requester: &request.requester,
        intent: &request.intent,
        exists: true,
        is_valid: !request.meta.is_deleting(),
        created: request.meta.creation_timestamp,
    });
    let former = present.iter().map(|requester| Wish {
        requester: &requester.name,
        intent: &requester.intent,
        exists: false,
        is_valid: false,
        created: None,
    });
    let mut wishes: Vec<Wish> = existing.chain(former).collect();
    // The oldest of the same relevance come first: the status has them already.
    wishes.sort_by_key(|wish| {
        let wants = wish.is_valid && wish.intent == EVICTION;
        (
            Reverse((wish.exists, wish.is_valid, wants)),
            wish.created,
            wish.requester,
        )
    });
    let mut seen = BTreeSet::new();
    let requesters: Vec<Requester> = { wishes.iter() }
        .filter(|wish| seen.insert(wish.requester))
        .take(most)
        .map(|wish| Requester {
            name: wish.requester.into(),
            intent: (if wish.is_valid {
                wish.intent
            } else {
                WITHDRAWN
            })
            .into(),
        })
        .collect();
    let has_changed = requesters.iter().any(|one| !present.contains(one));
    (requesters, has_changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(requester: &str, intent: &str, created: i64) -> EvictionRequest {
        EvictionRequest {
            meta: Meta {
                creation_timestamp: Some(Time::of_seconds(created)),
                ..Meta::default()
            },
            requester: requester.into(),
            intent: intent.into(),
            ..EvictionRequest::default()
        }
    }

    fn requester(name: &str, intent: &str) -> Requester {
        Requester {
            name: name.into(),
            intent: intent.into(),
        }
    }

    fn deleting(mut request: EvictionRequest) -> EvictionRequest {
        request.meta.deletion_timestamp = Some(Time::of_seconds(9));
        request
    }

    #[test]
    fn a_requester_has_the_intent_of_its_most_relevant_request() {
        let requests = [
            request("b", WITHDRAWN, 1),
            request("b", EVICTION, 2),
            deleting(request("c", EVICTION, 3)),
            request("a", WITHDRAWN, 4),
        ];
        let expected = [
            requester("b", EVICTION),
            requester("a", WITHDRAWN),
            requester("c", WITHDRAWN),
            requester("d", WITHDRAWN),
        ];
        let (first, has_changed) = all(&[requester("d", EVICTION)], &requests, MOST);
        assert_eq!((first.as_slice(), has_changed), (&expected[..], true));
        assert_eq!(all(&first, &requests, MOST), (first.clone(), false));
    }

    #[test]
    fn beyond_the_maximum_the_least_relevant_are_left_out() {
        let requests = [request("b", WITHDRAWN, 1), request("a", EVICTION, 2)];
        let present = [requester("c", WITHDRAWN)];
        let (some, _) = all(&present, &requests, 2);
        assert_eq!(some, [requester("a", EVICTION), requester("b", WITHDRAWN)]);
    }
}
