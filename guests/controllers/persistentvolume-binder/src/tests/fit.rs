//! Whether a claim can have the volume that it names.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::view;

use super::world::*;
use crate::fit::check;

fn problem(volume: Value, claim: Value) -> String {
    check(&view(volume), &view(claim), true).unwrap_err()
}

#[test]
fn a_fitting_volume_may_be_larger_and_offer_more_modes() {
    let modes = json!(["ReadWriteOnce", "ReadWriteMany"]);
    let disk = with(volume("disk", "1Ti"), "/spec/accessModes", modes);
    assert_eq!(
        check(&view(disk), &view(claim("data", "1Gi")), true),
        Ok(())
    );
}

#[test]
fn each_requirement_has_its_text() {
    let (disk, data) = (|| volume("disk", "2Gi"), || claim("data", "1Gi"));
    for (volume, claim, expected) in [
        (
            deleting(disk()),
            data(),
            "the volume is marked for deletion \"disk\"",
        ),
        (disk(), claim("data", "3Gi"), "requested PV is too small"),
        (
            in_class(disk(), "fast"),
            data(),
            "storageClassName does not match",
        ),
        (
            with(disk(), "/spec/volumeAttributesClassName", "gold"),
            data(),
            "volumeAttributesClassName does not match",
        ),
        (
            with(disk(), "/spec/volumeMode", "Block"),
            data(),
            "incompatible volumeMode",
        ),
        (
            disk(),
            with(data(), "/spec/accessModes", json!(["ReadWriteMany"])),
            "incompatible accessMode",
        ),
    ] {
        assert_eq!(problem(volume, claim), expected);
    }
}

#[test]
fn without_the_gate_no_attributes_class_is_supported() {
    let disk = with(
        volume("disk", "2Gi"),
        "/spec/volumeAttributesClassName",
        "gold",
    );
    let data = with(
        claim("data", "1Gi"),
        "/spec/volumeAttributesClassName",
        "gold",
    );
    let expected = "volumeAttributesClassName is not supported when the feature-gate VolumeAttributesClass is disabled";
    assert_eq!(check(&view(disk), &view(data), false), Err(expected.into()));
}
