//! Converts core modules to components, and checks their imports.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use wit_component::{ComponentEncoder, DecodedWasm, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::run::workspace;

/// The world that guests are compiled against.
const WORLD: &str = "controller";
/// The prefixes of interfaces that guests may import: the world's, and those for HTTP requests.
pub(crate) const WORLD_ALONE: [&str; 1] = ["flyball:controller/"];
const WITH_HTTP: [&str; 3] = ["flyball:controller/", "wasi:http/", "wasi:io/"];
/// Implements the functions of WASI preview 1, which Go's runtime calls, without importing
/// anything.
const DENY: &str = include_str!("deny.wat");

/// Converts a core module in which the bindings have recorded the world.
pub(crate) fn componentize(core: &Path, component: &Path) -> Result<()> {
    let module = std::fs::read(core).with_context(|| format!("can't read {}", core.display()))?;
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(&module)?;
    write(&mut encoder, component, &WITH_HTTP)
}

/// Converts a core module for WASI preview 1, which doesn't record the world.
pub(crate) fn componentize_wasi(core: &Path, component: &Path) -> Result<()> {
    let mut module =
        std::fs::read(core).with_context(|| format!("can't read {}", core.display()))?;
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(workspace().join("wit"))?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)?;
    let mut encoder = ComponentEncoder::default();
    encoder
        .validate(true)
        .module(&module)?
        .adapter("wasi_snapshot_preview1", &wat::parse_str(DENY)?)?;
    write(&mut encoder, component, &WORLD_ALONE)
}

fn write(encoder: &mut ComponentEncoder, component: &Path, packages: &[&str]) -> Result<()> {
    let bytes = encoder
        .encode()
        .with_context(|| format!("can't create the component {}", component.display()))?;
    check(&bytes, packages).with_context(|| component.display().to_string())?;
    std::fs::create_dir_all(
        component
            .parent()
            .context("a component's path has no folder")?,
    )?;
    std::fs::write(component, bytes).with_context(|| format!("can't write {}", component.display()))
}

/// Checks that a component imports only interfaces of these packages.
pub(crate) fn check(component: &[u8], packages: &[&str]) -> Result<()> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(component)? else {
        bail!("the file is a WIT package, not a component");
    };
    let imports = resolve.worlds[world]
        .imports
        .keys()
        .map(|key| resolve.name_world_key(key));
    let is_known = |name: &String| packages.iter().any(|package| name.starts_with(package));
    let foreign: Vec<String> = imports.filter(|name| !is_known(name)).collect();
    ensure!(
        foreign.is_empty(),
        "the component has imports that guests may not have: {}",
        foreign.join(", ")
    );
    Ok(())
}
