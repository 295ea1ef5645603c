//! The code of the built-in controllers, which the build embeds.

use flyball_controllers::{Need, built_in};
use flyball_manager::BuiltIn;
use flyball_plugin::{EmbeddedCode, EmbeddedComponent, Part, SharedCode};

/// A built-in controller.
#[derive(Debug)]
pub(crate) struct Builtin {
    /// The canonical name.
    pub(crate) name: &'static str,
    /// The component's SHA-256, in hex.
    pub(crate) digest: &'static str,
    /// The size of the component, in bytes.
    pub(crate) size: usize,
    /// The part of the binary that holds its compiled code.
    pub(crate) part: Part,
}

/// The controller that gives nodes ranges of addresses.
pub(crate) const NODE_IPAM: &str = "node-ipam-controller";

include!(concat!(env!("OUT_DIR"), "/builtins.rs"));

/// Returns the names of the built-in controllers that need something of the host.
pub(crate) fn that_need(need: Need) -> impl Iterator<Item = &'static str> {
    built_in()
        .filter(move |(controller, _)| controller.needs.contains(&need))
        .map(|(controller, _)| controller.name)
}

/// Returns built-in controllers with their code, which the binary holds.
pub(crate) fn embedded(builtins: &[&'static Builtin]) -> Vec<BuiltIn> {
    let shared = SharedCode::new(SHARED);
    let embedded = |builtin: &&'static Builtin| BuiltIn {
        name: builtin.name,
        component: EmbeddedComponent {
            digest: builtin.digest,
            size: builtin.size,
            code: EmbeddedCode {
                shared: shared.clone(),
                part: builtin.part.clone(),
            },
        },
    };
    builtins.iter().map(embedded).collect()
}
