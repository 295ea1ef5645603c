//! The controllers, flags and feature gates of kube-controller-manager 1.36.

pub(crate) mod controllers;
pub(crate) mod flags;
pub(crate) mod keys;
mod time_zone;
pub(crate) mod values;

/// Whether kube-controller-manager has a feature gate of this name. `AllAlpha` and `AllBeta` count.
pub(crate) fn is_feature_gate(name: &str) -> bool {
    matches!(name, "AllAlpha" | "AllBeta")
        || include_str!("kcm/feature-gates.txt")
            .lines()
            .any(|gate| gate == name)
}
