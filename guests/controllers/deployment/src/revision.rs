//! The annotations of a Deployment and its ReplicaSets: revisions, their history and the sizes used
//! for proportional scaling.
//!
//! Upstream: pkg/controller/deployment/util/deployment_util.go: MaxRevision, LastRevision, Revision,
//! SetNewReplicaSetAnnotations, skipCopyAnnotation, copyDeploymentAnnotationsToReplicaSet,
//! GetDesiredReplicasAnnotation, getMaxReplicasAnnotation, getNonNegativeInt32FromAnnotation, SetReplicasAnnotations,
//! ReplicasAnnotationsNeedUpdate.

use flyball_sdk::StringMap;

use crate::bounds::max_surge;
use crate::views::{Deployment, ReplicaSet};

/// On both: the revision number. The new ReplicaSet has the greatest.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// On a ReplicaSet: its earlier revisions, separated by commas. A ReplicaSet gets a new revision
/// when it is rolled back to.
pub const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// On a ReplicaSet: the Deployment's size when it was last scaled. If it differs from the current
/// size, the Deployment was resized.
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// On a ReplicaSet: the same size plus the surge, used to compute its share when the Deployment is
/// resized.
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// On a Deployment: the revision to roll back to. It replaces a field that earlier API versions
/// had.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// The configuration last applied by `kubectl apply`.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Maximum length of a history, in bytes.
const HISTORY_LIMIT: usize = 2000;

/// Whether an annotation is not copied between a Deployment and its ReplicaSets (kubernetes/kubernetes#20035).
pub fn is_own(annotation: &str) -> bool {
    [LAST_APPLIED, REVISION, HISTORY, DESIRED, MAX, ROLLBACK_TO].contains(&annotation)
}

/// Returns a ReplicaSet's revision: 0 if it has none, `None` if it is not a number.
pub fn revision(set: &ReplicaSet) -> Option<i64> {
    set.meta
        .annotation(REVISION)
        .map_or(Some(0), |text| text.parse().ok())
}

/// The greatest revision; 0 if there is none.
pub fn greatest<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    sets.into_iter().filter_map(revision).fold(0, i64::max)
}

/// The revision after those of these ReplicaSets. After the greatest number comes the smallest, as in Go.
pub fn next<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    greatest(sets).wrapping_add(1)
}

/// The second-greatest revision, which is the one before the current; 0 if there is none.
pub fn before_last<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    let mut revisions: Vec<i64> = sets.into_iter().filter_map(revision).collect();
    revisions.sort_unstable_by(|one, other| other.cmp(one));
    revisions.get(1).map_or(0, |&revision| revision.max(0))
}

/// Returns the size in an annotation of a ReplicaSet; `None` if it is absent or invalid.
pub fn remembered(set: &ReplicaSet, annotation: &str) -> Option<i64> {
    let text = set.meta.annotation(annotation)?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse::<i32>().ok().map(i64::from))?
}

/// The size annotations of a ReplicaSet that is scaled now.
pub fn sizes(deployment: &Deployment) -> [(&'static str, String); 2] {
    let wanted = deployment.replicas();
    [
        (DESIRED, wanted.to_string()),
        (MAX, (wanted + max_surge(deployment)).to_string()),
    ]
}

/// Returns the annotations of the new ReplicaSet, given its present ones: the Deployment's
/// annotations are copied, and the revision is set if the present one is smaller. The former
/// revision, which exists after a rollback, is appended to the history.
pub fn of_new_set(deployment: &Deployment, present: &StringMap, revision: i64) -> StringMap {
    let former = present.get(REVISION);
    let number = match former.map_or("", String::as_str) {
        "" => Ok(0),
        text => text.parse::<i64>(),
    };
    let number = match number {
        Ok(number) => number,
        // Another client's value: the annotations stay unchanged.
        Err(_) => return present.clone(),
    };
    let mut annotations = present.clone();
    let copied = deployment
        .meta
        .annotations
        .iter()
        .filter(|(key, _)| !is_own(key));
    annotations.extend(copied.map(|(key, value)| (key.clone(), value.clone())));
    if number < revision {
        annotations.insert(REVISION.into(), revision.to_string());
        if let Some(former) = former {
            let history = present.get(HISTORY).map_or("", String::as_str);
            if let Some(history) = remember(history, former) {
                annotations.insert(HISTORY.into(), history);
            }
        }
    }
    annotations
}

/// Appends a revision to a history, dropping the oldest ones if needed. `None` if it does not fit
/// even alone.
fn remember(history: &str, former: &str) -> Option<String> {
    if history.split(',').next().is_none_or(str::is_empty) {
        return Some(former.to_owned());
    }
    let mut kept = history;
    while kept.len() + 1 + former.len() > HISTORY_LIMIT {
        match kept.split_once(',') {
            Some((_, rest)) => kept = rest,
            None => return (former.len() <= HISTORY_LIMIT).then(|| former.to_owned()),
        }
    }
    Some(format!("{kept},{former}"))
}

#[cfg(test)]
mod tests {
    use flyball_sdk::{IntOrPercent, Meta};

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> StringMap {
        pairs
            .iter()
            .map(|&(key, value)| (key.into(), value.into()))
            .collect()
    }

    fn deployment(annotations: &[(&str, &str)]) -> Deployment {
        Deployment {
            meta: Meta {
                annotations: map(annotations),
                ..Meta::default()
            },
            ..Deployment::default()
        }
    }

    fn sets(revisions: &[&str]) -> Vec<ReplicaSet> {
        let set = |revision: &&str| ReplicaSet {
            meta: Meta {
                annotations: map(&[(REVISION, revision)]),
                ..Meta::default()
            },
            ..ReplicaSet::default()
        };
        revisions.iter().map(set).collect()
    }

    #[test]
    fn revisions_that_are_not_numbers_are_ignored() {
        for (revisions, last, before) in [
            (&[][..], 0, 0),
            (&["3"], 3, 0),
            (&["1", "3", "2"], 3, 2),
            (&["2", "2"], 2, 2),
            (&["x", "5", "", "1"], 5, 1),
        ] {
            let sets = sets(revisions);
            assert_eq!(
                (greatest(&sets), before_last(&sets)),
                (last, before),
                "{revisions:?}"
            );
        }
        assert_eq!(revision(&ReplicaSet::default()), Some(0));
        assert_eq!(next(&sets(&["9223372036854775807"])), i64::MIN);
    }

    #[test]
    fn an_invalid_size_is_ignored() {
        for (text, expected) in [
            ("3", Some(3)),
            ("0", Some(0)),
            ("-1", None),
            ("+1", None),
            ("", None),
            ("x", None),
            ("2147483648", None),
        ] {
            let meta = Meta {
                annotations: map(&[(DESIRED, text)]),
                ..Meta::default()
            };
            assert_eq!(
                remembered(
                    &ReplicaSet {
                        meta,
                        ..ReplicaSet::default()
                    },
                    DESIRED
                ),
                expected,
                "{text}"
            );
        }
        assert_eq!(remembered(&ReplicaSet::default(), DESIRED), None);
    }

    #[test]
    fn the_maximum_size_includes_the_surge() {
        let rolling = Deployment {
            replicas: Some(10),
            strategy: "RollingUpdate".into(),
            max_surge: IntOrPercent::Percent("25%".into()),
            ..Deployment::default()
        };
        assert_eq!(
            sizes(&rolling),
            [(DESIRED, "10".into()), (MAX, "13".into())]
        );
    }

    #[test]
    fn a_new_set_takes_the_deployments_annotations_but_not_the_controllers_own() {
        let deployment = deployment(&[
            ("team", "a"),
            (LAST_APPLIED, "{}"),
            (REVISION, "9"),
            (DESIRED, "1"),
            (ROLLBACK_TO, "2"),
        ]);
        let annotations = of_new_set(&deployment, &map(&[("team", "b"), ("extra", "1")]), 3);
        assert_eq!(
            annotations,
            map(&[("team", "a"), ("extra", "1"), (REVISION, "3")])
        );
    }

    #[test]
    fn a_revision_only_grows_and_is_kept_in_the_history() {
        for (present, revision, expected) in [
            (&[(REVISION, "2")][..], 2, &[(REVISION, "2")][..]),
            (&[(REVISION, "4")], 2, &[(REVISION, "4")]),
            (&[(REVISION, "1")], 3, &[(REVISION, "3"), (HISTORY, "1")]),
            (
                &[(REVISION, "3"), (HISTORY, "1")],
                5,
                &[(REVISION, "5"), (HISTORY, "1,3")],
            ),
            // An empty revision is one, too.
            (&[(REVISION, "")], 5, &[(REVISION, "5"), (HISTORY, "")]),
            (
                &[(REVISION, ""), (HISTORY, "1")],
                5,
                &[(REVISION, "5"), (HISTORY, "1,")],
            ),
            (&[(REVISION, "mine")], 5, &[(REVISION, "mine")]),
        ] {
            assert_eq!(
                of_new_set(&deployment(&[]), &map(present), revision),
                map(expected)
            );
        }
    }

    #[test]
    fn a_history_drops_the_oldest_revisions_beyond_its_limit() {
        let long = (100..600)
            .map(|revision| revision.to_string())
            .collect::<Vec<_>>()
            .join(",");
        assert_eq!(long.len(), 1999);
        let longer = remember(&long, "600").unwrap();
        assert!(
            longer.len() <= HISTORY_LIMIT
                && longer.starts_with("101,")
                && longer.ends_with(",599,600")
        );
        assert_eq!(remember(&"1".repeat(1999), "2"), Some("2".into()));
        assert_eq!(remember("1", &"2".repeat(2001)), None);
    }
}
