//! What kube-controller-manager 1.36 knows: its controllers, flags and feature gates.

pub(crate) mod controllers;
pub(crate) mod flags;
pub(crate) mod keys;
pub(crate) mod values;

/// The names of its feature gates, with those of whole stages.
pub(crate) fn is_feature_gate(name: &str) -> bool {
    matches!(name, "AllAlpha" | "AllBeta")
        || include_str!("kcm/feature-gates.txt")
            .lines()
            .any(|gate| gate == name)
}
