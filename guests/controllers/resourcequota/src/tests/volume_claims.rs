//! The usage by PersistentVolumeClaims, and the scope VolumeAttributesClass.

use flyball_sdk::prelude::*;

use super::world::*;

fn claim(storage: &str) -> Value {
    let claim = object("v1/PersistentVolumeClaim", "a");
    with(claim, "/spec/resources/requests/storage", storage)
}

#[test]
fn claims_and_their_storage_are_counted_of_all_classes_and_of_each() {
    let gold = with(claim("10Gi"), "/spec/storageClassName", "gold");
    let none = with(claim("5Gi"), "/metadata/name", "b");
    let names = [
        "persistentvolumeclaims",
        "count/persistentvolumeclaims",
        "requests.storage",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
        "gold.storageclass.storage.k8s.io/requests.storage",
        "iron.storageclass.storage.k8s.io/requests.storage",
    ];
    assert_eq!(
        used_of([gold, none], names),
        ["2", "2", "15Gi", "1", "10Gi", "0"]
    );
    assert_eq!(
        used_of(
            [claim("1")],
            ["gold.storageclass.storage.k8s.io/storage", "storage"]
        ),
        ["-", "-"]
    );
}

#[test]
fn the_annotation_with_the_class_takes_precedence_even_if_it_is_empty() {
    let annotated = |class: &str| {
        let claim = with(claim("1Gi"), "/spec/storageClassName", "gold");
        with(
            claim,
            "/metadata/annotations/volume.beta.kubernetes.io~1storage-class",
            class,
        )
    };
    let names = [
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
        "iron.storageclass.storage.k8s.io/persistentvolumeclaims",
    ];
    assert_eq!(used_of([annotated("iron")], names), ["0", "1"]);
    assert_eq!(used_of([annotated("")], names), ["0", "0"]);
}

#[test]
fn storage_is_counted_in_whole_bytes() {
    for (storage, used) in [
        ("1500m", "2"),
        ("1.1", "2"),
        ("1024.0001Ki", "1048577"),
        ("1Gi", "1Gi"),
    ] {
        assert_eq!(
            used_of([claim(storage)], ["requests.storage"]),
            [used],
            "{storage}"
        );
    }
}

#[test]
fn what_an_expansion_has_reserved_counts_if_it_is_more() {
    for (allocated, used) in [
        ("20Gi", "20Gi"),
        ("5Gi", "10Gi"),
        ("10737418241500m", "10737418242"),
    ] {
        let claim = with(
            claim("10Gi"),
            "/status/allocatedResources/storage",
            allocated,
        );
        assert_eq!(used_of([claim], ["requests.storage"]), [used]);
    }
    let unsized_claim = object("v1/PersistentVolumeClaim", "a");
    let unsized_claim = with(unsized_claim, "/status/allocatedResources/storage", "1Gi");
    assert_eq!(used_of([unsized_claim], ["requests.storage"]), ["0"]);
}

#[test]
fn claims_are_selected_by_the_attributes_classes_that_they_refer_to() {
    let plain = || claim("1Gi");
    let changing = || {
        let claim = with(plain(), "/spec/volumeAttributesClassName", "silver");
        let claim = with(claim, "/status/currentVolumeAttributesClassName", "gold");
        let target = json!({"targetVolumeAttributesClassName": "iron", "status": "Pending"});
        with(claim, "/status/modifyVolumeStatus", target)
    };
    let steady = || with(plain(), "/spec/volumeAttributesClassName", "gold");
    let selects = |claim: Value, operator: &str, values: &[&str]| {
        let requirement =
            json!({"scopeName": "VolumeAttributesClass", "operator": operator, "values": values});
        let spec = json!({"scopeSelector": {"matchExpressions": [requirement]}});
        let [count] = used_under([claim], ["persistentvolumeclaims"], spec);
        count == "1"
    };
    for (operator, values, expected) in [
        ("Exists", &[][..], [false, true, true]),
        ("DoesNotExist", &[], [true, false, false]),
        ("In", &["gold"], [false, true, true]),
        ("In", &["silver"], [false, false, true]),
        ("In", &["iron"], [false, false, true]),
        ("In", &["other"], [false, false, false]),
        ("NotIn", &["gold"], [true, false, true]),
        ("NotIn", &["gold", "silver", "iron"], [true, false, false]),
        ("In", &["no/class"], [false, false, false]),
        ("NotIn", &["no/class"], [false, false, false]),
    ] {
        let selected =
            [plain(), steady(), changing()].map(|claim| selects(claim, operator, values));
        assert_eq!(selected, expected, "{operator} {values:?}");
    }
}

#[test]
fn the_scope_can_be_named_alone() {
    let spec = json!({"scopes": ["VolumeAttributesClass"]});
    let claims = [
        claim("1Gi"),
        with(
            with(claim("2Gi"), "/metadata/name", "b"),
            "/spec/volumeAttributesClassName",
            "gold",
        ),
    ];
    assert_eq!(used_under(claims, ["requests.storage"], spec), ["2Gi"]);
}
