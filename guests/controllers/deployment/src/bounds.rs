//! The limits of a rolling update: how many pods may exist beyond the desired number, and how many
//! may be unavailable.
//!
//! Upstream: pkg/controller/deployment/util/deployment_util.go: MaxUnavailable, MinAvailable, MaxSurge,
//! ResolveFenceposts.

use crate::views::Deployment;

/// Number of pods that may exist beyond the desired number; 0 unless the strategy is RollingUpdate.
pub fn max_surge(deployment: &Deployment) -> i64 {
    if deployment.is_rolling() {
        fenceposts(deployment).0
    } else {
        0
    }
}

/// Number of desired pods that may be unavailable; 0 unless the strategy is RollingUpdate.
pub fn max_unavailable(deployment: &Deployment) -> i64 {
    let wanted = deployment.replicas();
    if deployment.is_rolling() && wanted != 0 {
        fenceposts(deployment).1.min(wanted)
    } else {
        0
    }
}

/// Number of pods that must be available: all desired pods, unless the strategy is RollingUpdate.
pub fn min_available(deployment: &Deployment) -> i64 {
    deployment.replicas() - max_unavailable(deployment)
}

/// Resolves surge and unavailability to numbers. If both are 0, one pod may be unavailable, because
/// a surge could be blocked by a quota.
fn fenceposts(deployment: &Deployment) -> (i64, i64) {
    let wanted = i32::try_from(deployment.replicas()).unwrap_or(i32::MAX);
    match (
        deployment.max_surge.of(wanted, true),
        deployment.max_unavailable.of(wanted, false),
    ) {
        (Ok(0), Ok(0)) => (0, 1),
        (Ok(surge), Ok(unavailable)) => (surge.into(), unavailable.into()),
        // The API's validation rejects such values.
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use flyball_sdk::prelude::*;
    use flyball_sdk::testing::view;

    use super::*;

    fn rolling(replicas: i64, surge: Value, unavailable: Value) -> Deployment {
        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        view(
            json!({"spec": {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}}),
        )
    }

    #[test]
    fn surge_is_rounded_up_and_unavailability_down() {
        for (surge, unavailable, wanted, expected) in [
            (json!("39%"), json!("39%"), 10, (4, 3)),
            (json!("25%"), json!("25%"), 1, (1, 0)),
            (json!("1%"), json!("25%"), 2, (1, 0)),
            (json!("100%"), json!("100%"), 3, (3, 3)),
            (json!(2), json!(3), 10, (2, 3)),
            (json!(null), json!("39%"), 10, (0, 3)),
            (json!("39%"), json!(null), 10, (4, 0)),
        ] {
            let deployment = rolling(wanted, surge, unavailable);
            assert_eq!(
                (max_surge(&deployment), max_unavailable(&deployment)),
                expected,
                "{deployment:?}"
            );
        }
    }

    #[test]
    fn one_pod_may_be_unavailable_if_both_limits_are_zero() {
        for (surge, unavailable) in [
            (json!(0), json!("1%")),
            (json!("0%"), json!("0%")),
            (json!(null), json!(null)),
        ] {
            let deployment = rolling(2, surge, unavailable);
            assert_eq!(
                (max_surge(&deployment), max_unavailable(&deployment)),
                (0, 1)
            );
        }
    }

    #[test]
    fn max_unavailable_is_at_most_the_desired_number() {
        assert_eq!(max_unavailable(&rolling(3, json!(0), json!(5))), 3);
        assert_eq!(max_unavailable(&rolling(0, json!(0), json!(5))), 0);
        assert_eq!(min_available(&rolling(10, json!(0), json!("25%"))), 8);
    }

    #[test]
    fn an_invalid_percentage_sets_both_limits_to_zero() {
        let deployment = rolling(10, json!("oops"), json!("39%"));
        assert_eq!(
            (max_surge(&deployment), max_unavailable(&deployment)),
            (0, 0)
        );
    }

    #[test]
    fn recreate_has_no_surge_and_requires_all_pods() {
        let deployment = Deployment {
            strategy: "Recreate".into(),
            ..rolling(4, json!(1), json!(1))
        };
        assert_eq!(
            (
                max_surge(&deployment),
                max_unavailable(&deployment),
                min_available(&deployment)
            ),
            (0, 0, 4)
        );
    }
}
