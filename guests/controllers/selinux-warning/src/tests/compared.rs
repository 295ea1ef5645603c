//! Comparisons of two pods.

use super::world::*;
use crate::conflicts::{User, between};

fn user(pod: &str, label: &str, policy: &str) -> User {
    User {
        pod: pod.into(),
        label: label.into(),
        policy: policy.into(),
    }
}

/// The messages for two pods with these labels and the same policy.
fn messages(one: &str, other: &str) -> Vec<String> {
    let conflicts = between(
        &user("team/a", one, "MountOption"),
        &user("team/b", other, "MountOption"),
    );
    conflicts
        .iter()
        .map(|conflict| conflict.message())
        .collect()
}

#[test]
fn labels_conflict_if_a_part_differs_that_no_node_fills_in() {
    for (one, other, expected) in [
        ("u:r:t:s0", "u:r:t:s0", false),
        ("u:r:t:s0", "v:r:t:s0", true),
        ("u:r:t:s0", "u:x:t:s0", true),
        ("u:r:t:s0", "u:r:x:s0", true),
        ("u:r:t:s0:c1,c2", "u:r:t:s0:c1,c3", true),
        // Nodes may fill in the user, the role and the type, but no level.
        (":::s0", "u:r:t:s0", false),
        ("u:::s0", "::t:s0", false),
        ("u:r:t:", "u:r:t:s0", true),
        ("", ":::s0", true),
        ("", "u:r:t:", false),
        ("", "", false),
    ] {
        assert_eq!(!messages(one, other).is_empty(), expected, "{one} {other}");
        assert_eq!(!messages(other, one).is_empty(), expected, "{other} {one}");
    }
}

#[test]
fn both_pods_are_told_of_the_other() {
    assert_eq!(
        messages(":::s0:c1", ":::s0:c2"),
        [
            "SELinuxLabel \":::s0:c1\" conflicts with pod b that uses the same volume as this pod with SELinuxLabel \
             \":::s0:c2\". If both pods land on the same node, only one of them may access the volume.",
            "SELinuxLabel \":::s0:c2\" conflicts with pod a that uses the same volume as this pod with SELinuxLabel \
             \":::s0:c1\". If both pods land on the same node, only one of them may access the volume.",
        ]
    );
}

#[test]
fn a_pod_of_another_namespace_is_not_named() {
    let one = user("team/a", ":::s0:c1", "MountOption");
    let other = user("secret/b", ":::s0:c2", "MountOption");
    let conflicts = between(&one, &other);
    assert_eq!(
        conflicts[0].message(),
        "SELinuxLabel\":::s0:c1\" conflicts with another pod that uses the same volume as this pod with a different \
         SELinuxLabel. If both pods land on the same node, only one of them may access the volume."
    );
    assert!(!conflicts[0].message().contains("secret"));
}

#[test]
fn different_policies_conflict_in_addition_to_labels() {
    let one = user("team/a", ":::s0:c1", "MountOption");
    let reasons = |other: &User| -> Vec<String> {
        let conflicts = between(&one, other).into_iter();
        let line = |conflict: crate::conflicts::Conflict| {
            format!("{} {}", conflict.pod.name, conflict.reason())
        };
        conflicts.map(line).collect()
    };
    let [of_a, of_b] = label_conflict("a", "b");
    assert_eq!(
        reasons(&user("team/b", "", "Recursive")),
        [
            "a SELinuxChangePolicyConflict",
            "b SELinuxChangePolicyConflict",
            &of_a,
            &of_b
        ]
    );
    let policies = between(&one, &user("team/b", "", "Recursive"));
    assert_eq!(
        policies[0].message(),
        "SELinuxChangePolicy \"MountOption\" conflicts with pod b that uses the same volume as this pod with \
         SELinuxChangePolicy \"Recursive\". If both pods land on the same node, only one of them may access the volume."
    );
    // A policy that later releases may add.
    assert_eq!(
        reasons(&user("team/b", ":::s0:c1", "Other")),
        [
            "a SELinuxChangePolicyConflict",
            "b SELinuxChangePolicyConflict"
        ]
    );
}
