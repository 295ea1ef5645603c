//! Encodes core modules as components, and checks the imports of components.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use wit_component::{ComponentEncoder, DecodedWasm, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The world that guests are compiled against.
pub const WORLD: &str = "controller";
/// The prefix of the interfaces of the world.
pub const WORLD_ALONE: [&str; 1] = ["flyball:controller/"];
/// The prefixes of the interfaces of the world, and of those for HTTP requests.
pub const WITH_HTTP: [&str; 3] = ["flyball:controller/", "wasi:http/", "wasi:io/"];
/// Implements the functions of WASI preview 1 without importing anything.
const DENY: &str = include_str!("deny.wat");

/// Encodes a core module in which the bindings have recorded the world. Returns a component unchanged.
pub fn component(module: &[u8]) -> Result<Vec<u8>> {
    if module.get(4..8) != Some(&[1, 0, 0, 0]) {
        return Ok(module.to_owned());
    }
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(module)?.encode()
}

/// Encodes a core module for WASI preview 1 that doesn't record the world. The component doesn't import WASI. `wit` is the
/// folder of the world.
pub fn component_of_wasi(mut module: Vec<u8>, wit: &Path) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_dir(wit)
        .with_context(|| format!("can't read the world in {}", wit.display()))?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)?;
    let mut encoder = ComponentEncoder::default();
    encoder
        .validate(true)
        .module(&module)?
        .adapter("wasi_snapshot_preview1", &wat::parse_str(DENY)?)?
        .encode()
}

/// Checks that a component imports only interfaces with these prefixes.
pub fn check(component: &[u8], prefixes: &[&str]) -> Result<()> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(component)? else {
        bail!("the file is a WIT package, not a component");
    };
    let imports = resolve.worlds[world]
        .imports
        .keys()
        .map(|key| resolve.name_world_key(key));
    let is_known = |name: &String| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let foreign: Vec<String> = imports.filter(|name| !is_known(name)).collect();
    ensure!(
        foreign.is_empty(),
        "the component has imports that guests may not have: {}",
        foreign.join(", ")
    );
    Ok(())
}
