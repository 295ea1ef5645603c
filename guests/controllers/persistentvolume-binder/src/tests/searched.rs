//! The search for the best volume.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, view};

use super::world::*;
use crate::search::Search;

/// The best of these volumes for a claim.
fn best(volumes: impl IntoIterator<Item = Value>, claim: Value) -> Option<String> {
    search(volumes, claim, false, true).unwrap()
}

fn search(
    volumes: impl IntoIterator<Item = Value>,
    claim: Value,
    is_delayed: bool,
    has_attributes_classes: bool,
) -> Result<Option<String>, Error> {
    let search = Search {
        claim: &view(claim),
        is_delayed,
        has_attributes_classes,
    };
    let candidates = volumes.into_iter().map(view).collect();
    Ok(search.best_of(candidates)?.map(|best| best.name))
}

fn modes(volume: Value, modes: &[&str]) -> Value {
    with(volume, "/spec/accessModes", json!(modes))
}

#[test]
fn the_smallest_volume_that_is_large_enough_wins() {
    let volumes = [volume("a", "3Gi"), volume("b", "2Gi"), volume("c", "1Gi")];
    assert_eq!(best(volumes.clone(), claim("data", "1500Mi")).unwrap(), "b");
    assert_eq!(best(volumes.clone(), claim("data", "1Gi")).unwrap(), "c");
    assert_eq!(best(volumes, claim("data", "4Gi")), None);
}

#[test]
fn volumes_with_fewer_modes_come_first_even_before_a_reserved_one() {
    let large = volume("large", "9Gi");
    let many = modes(volume("many", "1Gi"), &["ReadWriteOnce", "ReadWriteMany"]);
    let many = with(many, "/spec/claimRef", reservation("data"));
    let volumes = [many, large];
    assert_eq!(
        best(volumes.clone(), claim("data", "1Gi")).unwrap(),
        "large"
    );
    let shared = with(
        claim("data", "1Gi"),
        "/spec/accessModes",
        json!(["ReadWriteMany"]),
    );
    assert_eq!(best(volumes, shared).unwrap(), "many");
}

#[test]
fn a_reserved_volume_wins_whatever_its_size_class_labels_and_phase() {
    let reserved = in_class(volume("reserved", "9Gi"), "other");
    let reserved = with(reserved, "/spec/claimRef", reservation("data"));
    let reserved = with(reserved, "/status/phase", "Released");
    let data = with(
        claim("data", "1Gi"),
        "/spec/selector",
        json!({"matchLabels": {"tier": "gold"}}),
    );
    for is_delayed in [false, true] {
        let volumes = [volume("free", "1Gi"), reserved.clone()];
        let found = search(volumes, data.clone(), is_delayed, true);
        assert_eq!(found.unwrap().unwrap(), "reserved");
    }
    // But it must be large enough, have the mode, and not be deleted.
    let small = with(reserved.clone(), "/spec/capacity/storage", "1Mi");
    let block = with(reserved.clone(), "/spec/volumeMode", "Block");
    let volumes = [small, block, deleting(reserved)];
    assert_eq!(best(volumes, data), None);
}

#[test]
fn only_the_scheduler_chooses_among_free_volumes_for_a_delayed_claim() {
    let found = search([volume("free", "1Gi")], claim("data", "1Gi"), true, true);
    assert_eq!(found.unwrap(), None);
}

#[test]
fn a_free_volume_must_be_available_and_fit_in_every_way() {
    let free = || volume("free", "1Gi");
    for (unfit, why) in [
        (with(free(), "/status/phase", "Pending"), "phase"),
        (in_class(free(), "fast"), "class"),
        (
            annotated(free(), "volume.beta.kubernetes.io/storage-class", "fast"),
            "annotated class",
        ),
        (with(free(), "/spec/volumeMode", "Block"), "mode"),
        (
            with(free(), "/spec/volumeAttributesClassName", "gold"),
            "attributes class",
        ),
        (modes(free(), &["ReadOnlyMany"]), "access modes"),
        (
            with(free(), "/spec/claimRef", reservation("other")),
            "reserved",
        ),
        (deleting(free()), "deleted"),
    ] {
        assert_eq!(best([unfit], claim("data", "1Gi")), None, "{why}");
    }
}

#[test]
fn the_selector_applies_to_the_labels() {
    let labelled = |tier: &str| {
        with(
            volume(tier, "1Gi"),
            "/metadata/labels",
            json!({"tier": tier}),
        )
    };
    let volumes = || [volume("bare", "1Gi"), labelled("gold"), labelled("silver")];
    let selecting = |selector: Value| with(claim("data", "1Gi"), "/spec/selector", selector);
    let silver =
        json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["silver"]}]});
    assert_eq!(best(volumes(), selecting(silver)).unwrap(), "silver");
    assert_eq!(best(volumes(), selecting(json!({}))).unwrap(), "bare");
    let invalid = json!({"matchExpressions": [{"key": "tier", "operator": "Near"}]});
    search(volumes(), selecting(invalid), false, true).unwrap_err();
}

#[test]
fn without_the_gate_a_claim_with_an_attributes_class_is_an_error() {
    let data = with(
        claim("data", "1Gi"),
        "/spec/volumeAttributesClassName",
        "gold",
    );
    search([], data, false, false).unwrap_err();
    let gold = with(
        volume("gold", "1Gi"),
        "/spec/volumeAttributesClassName",
        "gold",
    );
    let found = search([gold], claim("data", "1Gi"), false, false);
    assert_eq!(found.unwrap(), None);
}

#[test]
fn the_cache_is_searched_by_phase_and_by_reservation() {
    let reserved = with(
        volume("reserved", "3Gi"),
        "/spec/claimRef",
        reservation("data"),
    );
    let reserved = with(reserved, "/status/phase", "Pending");
    let of_others = |n: usize| bound_to(volume(&format!("other-{n}"), "1Gi"), "other");
    let others = (0..8).map(of_others);
    let cluster =
        Cluster::with(others.chain([reserved, volume("free", "1Gi"), claim("data", "1Gi")]));
    sync_claim(&cluster, "data");
    assert_eq!(chosen(&cluster, "data"), "reserved");
}
