//! The time for which a pod tolerates the taints of its node.
//!
//! Upstream: pkg/controller/tainteviction/taint_eviction.go: getMinTolerationTime, processPodOnNode.
//! Upstream: pkg/apis/core/v1/helper/helpers.go: GetMatchingTolerations.

use std::time::Duration;

use flyball_taints::{Taint, Toleration};

/// How long a pod may stay on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// The pod does not tolerate a taint.
    None,
    /// The time is zero if `tolerationSeconds` is not positive.
    For(Duration),
    Forever,
}

/// Returns how long tolerations tolerate taints. The first toleration that matches a taint counts for it, and the
/// shortest of all taints is the result. `compares` is the value of
/// [`COMPARISON_OPERATORS`](flyball_taints::COMPARISON_OPERATORS).
pub fn tolerance(taints: &[Taint], tolerations: &[Toleration], compares: bool) -> Tolerance {
    let mut shortest: Option<i64> = None;
    for taint in taints {
        let used = tolerations
            .iter()
            .find(|toleration| toleration.tolerates(taint, compares));
        let Some(used) = used else {
            return Tolerance::None;
        };
        let seconds = used.toleration_seconds;
        shortest = shortest.into_iter().chain(seconds).min();
    }
    match shortest {
        // As in kube-controller-manager, the greatest number means for ever.
        None | Some(i64::MAX) => Tolerance::Forever,
        Some(seconds) => Tolerance::For(Duration::from_secs(seconds.try_into().unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use flyball_taints::NO_EXECUTE;

    use super::*;

    fn taint(key: &str) -> Taint {
        Taint {
            key: key.into(),
            effect: NO_EXECUTE.into(),
            ..Taint::default()
        }
    }

    /// A toleration of a key, or of all if it is empty.
    fn toleration(key: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: key.into(),
            operator: "Exists".into(),
            toleration_seconds: seconds,
            ..Toleration::default()
        }
    }

    fn seconds(number: u64) -> Tolerance {
        Tolerance::For(Duration::from_secs(number))
    }

    #[test]
    fn the_shortest_of_the_used_tolerations_counts() {
        let taints = [taint("a"), taint("b")];
        for (tolerations, expected) in [
            (vec![], Tolerance::None),
            (vec![toleration("a", None)], Tolerance::None),
            (vec![toleration("", None)], Tolerance::Forever),
            (vec![toleration("", Some(5))], seconds(5)),
            (
                vec![toleration("a", Some(9)), toleration("b", Some(5))],
                seconds(5),
            ),
            (
                vec![toleration("a", None), toleration("b", Some(5))],
                seconds(5),
            ),
            (
                vec![toleration("a", Some(0)), toleration("b", None)],
                seconds(0),
            ),
            (
                vec![toleration("a", Some(-3)), toleration("b", Some(5))],
                seconds(0),
            ),
            (vec![toleration("", Some(i64::MAX))], Tolerance::Forever),
            (
                vec![toleration("a", Some(i64::MAX)), toleration("b", Some(5))],
                seconds(5),
            ),
            // No taint has this key.
            (
                vec![toleration("", Some(9)), toleration("c", Some(1))],
                seconds(9),
            ),
        ] {
            assert_eq!(
                tolerance(&taints, &tolerations, false),
                expected,
                "{tolerations:?}"
            );
        }
    }

    #[test]
    fn only_the_first_matching_toleration_of_a_taint_is_used() {
        let tolerations = [toleration("a", Some(60)), toleration("", Some(1))];
        assert_eq!(tolerance(&[taint("a")], &tolerations, false), seconds(60));
        assert_eq!(
            tolerance(&[taint("a"), taint("b")], &tolerations, false),
            seconds(1)
        );
    }

    #[test]
    fn without_taints_all_pods_stay() {
        assert_eq!(tolerance(&[], &[], false), Tolerance::Forever);
    }
}
