//! The limits of an update.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::view;

use super::world::*;
use crate::observed::Observed;
use crate::placement::{Fit, Fits};
use crate::rollout::{Limits, limits};

/// The surge and the unavailable nodes that a set allows of this number of nodes.
fn of(set: Value, nodes: usize) -> Result<(usize, usize), String> {
    let mut fits: Fits = (0..nodes).map(|at| (format!("n{at}"), Fit::Fits)).collect();
    fits.insert("unfit".into(), Fit::Unfit);
    fits.insert("tainted".into(), Fit::MayStay);
    let set = view(set);
    let observed = Observed {
        set: &set,
        fits: &fits,
        hash: "",
        now: Time::default(),
    };
    let limits = limits(&observed).map_err(|error| error.to_string());
    limits.map(|Limits { surge, unavailable }| (surge, unavailable))
}

#[test]
fn limits_are_numbers_or_percentages_rounded_up() {
    for (set, nodes, expected) in [
        (unavailable(1), 2, (0, 1)),
        (unavailable(5), 2, (0, 5)),
        (unavailable("50%"), 2, (0, 1)),
        (unavailable("50%"), 3, (0, 2)),
        (unavailable("1%"), 2, (0, 1)),
        (surging(1), 2, (1, 0)),
        (surging("50%"), 2, (1, 0)),
        (surging("34%"), 3, (2, 0)),
        (surging("100%"), 2, (2, 0)),
    ] {
        assert_eq!(
            of(set.clone(), nodes),
            Ok(expected),
            "{}",
            set["spec"]["updateStrategy"]
        );
    }
}

#[test]
fn if_both_are_zero_one_node_may_be_unavailable() {
    for set in [
        unavailable(0),
        unavailable("0%"),
        surging("0%"),
        set_with([("/spec/updateStrategy/rollingUpdate", json!(null))]),
    ] {
        assert_eq!(of(set, 2), Ok((0, 1)));
    }
    assert_eq!(of(unavailable(0), 0), Ok((0, 0)));
}

#[test]
fn any_other_text_is_an_error() {
    for (set, field) in [
        (unavailable("some"), "MaxUnavailable"),
        (surging("some"), "MaxSurge"),
    ] {
        let error = of(set, 2).unwrap_err();
        assert!(
            error.starts_with(&format!(
                "couldn't get unavailable numbers: invalid value for {field}"
            )),
            "{error}"
        );
    }
}

#[test]
fn the_error_of_an_update_does_not_keep_the_status_from_being_written() {
    let world = World::of(unavailable("some"), 0);
    assert!(world.try_sync().0.unwrap_err().is_terminal());
    assert_eq!(world.status()["observedGeneration"], 1);
}
