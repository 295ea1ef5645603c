//! The Eviction of a target that counts: a succeeded one, or else the oldest active one, or else the one that failed last.
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_utils.go: findRelevantEviction, compareConditionTransitionTime.

use flyball_sdk::condition;
use flyball_sdk::prelude::*;

use crate::names;
use crate::views::{EVICTED, Eviction, FAILED};

/// The Eviction that counts.
#[derive(Clone, Copy, Debug)]
pub struct Relevant<'a> {
    pub eviction: Option<&'a Eviction>,
    /// Whether another one may begin: there is none, or all have failed.
    pub may_begin_again: bool,
}

/// Returns the Eviction that counts among those of a target.
pub fn of(all: &[Eviction]) -> Relevant<'_> {
    let succeeded = all.iter().filter(|one| one.has_succeeded());
    if let Some(last) = last(succeeded, EVICTED) {
        return Relevant {
            eviction: Some(last),
            may_begin_again: false,
        };
    }
    let active = all.iter().filter(|one| !one.has_failed());
    let oldest = active.min_by(|a, b| {
        let by_age = a.meta.creation_timestamp.cmp(&b.meta.creation_timestamp);
        by_age.then_with(|| names::compare(&a.meta.name, &b.meta.name))
    });
    Relevant {
        eviction: oldest.or_else(|| last(all.iter(), FAILED)),
        may_begin_again: oldest.is_none(),
    }
}

/// The one whose condition changed last; the first of several.
fn last<'a>(
    evictions: impl DoubleEndedIterator<Item = &'a Eviction>,
    condition_type: &str,
) -> Option<&'a Eviction> {
    let time = |one: &&Eviction| -> Option<Time> {
        condition::get(&one.conditions, condition_type)?.last_transition_time
    };
    // `max_by_key` returns the last of several.
    evictions.rev().max_by_key(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eviction(name: &str, created: i64, ended: Option<(&str, i64)>) -> Eviction {
        let condition = ended.map(|(condition_type, at)| Condition {
            last_transition_time: Some(Time::of_seconds(at)),
            ..Condition::new(condition_type, "True", "", "")
        });
        Eviction {
            meta: Meta {
                name: name.into(),
                creation_timestamp: Some(Time::of_seconds(created)),
                ..Meta::default()
            },
            conditions: condition.into_iter().collect(),
            ..Eviction::default()
        }
    }

    fn name_of(all: &[Eviction]) -> (Option<&str>, bool) {
        let found = of(all);
        let name = found.eviction.map(|one| one.meta.name.as_str());
        (name, found.may_begin_again)
    }

    #[test]
    fn success_counts_before_activity_and_activity_before_failure() {
        let mut all = vec![
            eviction("pod-1-a", 1, Some((FAILED, 5))),
            eviction("pod-2-a", 2, Some((FAILED, 9))),
            eviction("pod-3-a", 3, Some((FAILED, 7))),
        ];
        assert_eq!(name_of(&[]), (None, true));
        assert_eq!(name_of(&all), (Some("pod-2-a"), true));
        all.extend([
            eviction("pod-10-a", 4, None),
            eviction("pod-9-a", 4, None),
            eviction("pod-4-a", 5, None),
        ]);
        assert_eq!(name_of(&all), (Some("pod-9-a"), false));
        all.extend([
            eviction("pod-5-a", 6, Some((EVICTED, 20))),
            eviction("pod-6-a", 6, Some((EVICTED, 19))),
        ]);
        assert_eq!(name_of(&all), (Some("pod-5-a"), false));
    }
}
