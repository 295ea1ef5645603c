//! The controllers, flags and feature gates of kube-controller-manager 1.37.

#[cfg(test)]
mod controllers;
pub(crate) mod feature_gates;
pub(crate) mod flags;
pub(crate) mod leader_migration;
pub(crate) mod shown;
pub(crate) mod versions;
