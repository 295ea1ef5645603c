//! The controllers that are part of the binary, and what each is granted: what RBAC grants its counterpart.

/// A controller that is part of the binary.
#[derive(Debug)]
pub(crate) struct Builtin {
    /// The name of its files: the controller's canonical name or an alias.
    pub(crate) name: &'static str,
    /// The component.
    pub(crate) wasm: &'static [u8],
    /// The component, compiled for the host that built the binary.
    pub(crate) cwasm: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/builtins.rs"));

/// The policies by canonical name, in TOML.
pub(crate) const POLICIES: &[(&str, &str)] = &[
    ("deployment-controller", include_str!("../policies/deployment-controller.toml")),
    ("replicaset-controller", include_str!("../policies/replicaset-controller.toml")),
    ("serviceaccount-controller", include_str!("../policies/serviceaccount-controller.toml")),
];

impl Builtin {
    /// The controller's canonical name.
    pub(crate) fn canonical_name(&self) -> &'static str {
        crate::kcm::controllers::canonical(self.name).unwrap_or(self.name)
    }
}
