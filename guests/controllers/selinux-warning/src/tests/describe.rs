//! The description.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::permissions;

use super::world::*;
use crate::SelinuxWarnings;

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = SelinuxWarnings::describe();
    description.check().unwrap();
    assert_eq!(
        (description.name.as_str(), description.concurrency),
        ("selinux-warning-controller", 1)
    );
    assert_eq!(description.queues[0].name, "selinux_warning");
    assert_eq!(description.event_source, "selinux_warning");
    let metric = &description.metrics[0];
    assert_eq!(
        metric.name,
        "selinux_warning_controller_selinux_volume_conflict"
    );
    assert_eq!(
        metric.labels,
        [
            "property",
            "pod1_namespace",
            "pod1_name",
            "pod1_value",
            "pod2_namespace",
            "pod2_name",
            "pod2_value"
        ]
    );
}

#[test]
fn nothing_is_written_and_only_four_kinds_are_read() {
    let description = SelinuxWarnings::describe();
    assert!(permissions(&description).is_empty());
    let kinds = description.watches.iter();
    let kinds: Vec<String> = kinds
        .map(|watch| watch.kind.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(kinds, [POD, CLAIM, VOLUME, DRIVER]);
}

#[test]
fn of_pods_neither_images_nor_other_volumes_are_cached() {
    let description = SelinuxWarnings::describe();
    let fields = &description.watches[0].fields;
    for whole in ["spec", "spec.containers", "spec.volumes", "status"] {
        assert!(!fields.contains(&whole.into()), "{whole}");
    }
    assert!(fields.contains(&"spec.volumes[*].iscsi".into()));
}
