//! Encodes core modules as components, and checks the imports of components.

use std::ops::Range;
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
/// The interface of the world that output is written to.
const LOG: &str = "log";
/// Implements the functions of WASI preview 1 without WASI.
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
/// folder of the world. What the module prints goes to the host's log, line by line, if there is a `buffer` for a line: memory
/// that the module leaves alone.
pub fn component_of_wasi(
    mut module: Vec<u8>,
    wit: &Path,
    buffer: Option<Range<u32>>,
) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_dir(wit)
        .with_context(|| format!("can't read the world in {}", wit.display()))?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)?;
    let log = resolve.packages[package].name.interface_id(LOG);
    let mut adapter = wat::parse_str(adapter(&log, buffer.clone()))?;
    if buffer.is_some() {
        let text = format!("package flyball:adapter;\nworld adapter {{ import {log}; }}");
        let package = resolve.push_str("adapter.wit", &text)?;
        let world = resolve.select_world(&[package], Some("adapter"))?;
        embed_component_metadata(&mut adapter, &resolve, world, StringEncoding::UTF8, false)?;
    }
    let mut encoder = ComponentEncoder::default();
    encoder
        .validate(true)
        .module(&module)?
        .adapter("wasi_snapshot_preview1", &adapter)?
        .encode()
}

/// Returns the text of the adapter. Without a buffer, it drops output and imports nothing.
fn adapter(log: &str, buffer: Option<Range<u32>>) -> String {
    let function = "(func $log (param i32 i32 i32 i32 i32)";
    let function = match buffer {
        Some(_) => format!("(import \"{log}\" \"write\" {function}))"),
        None => format!("{function})"),
    };
    let buffer = buffer.unwrap_or_default();
    DENY.replace("{{LOG}}", &function)
        .replace("{{BUFFER}}", &buffer.start.to_string())
        .replace("{{SIZE}}", &buffer.len().to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions of WASI preview 1, which toolchains import as they need them.
    const FUNCTIONS: &str = "args_get args_sizes_get clock_res_get clock_time_get environ_get environ_sizes_get fd_advise \
        fd_allocate fd_close fd_datasync fd_fdstat_get fd_fdstat_set_flags fd_fdstat_set_rights fd_filestat_get \
        fd_filestat_set_size fd_filestat_set_times fd_pread fd_prestat_dir_name fd_prestat_get fd_pwrite fd_read fd_readdir \
        fd_renumber fd_seek fd_sync fd_tell fd_write path_create_directory path_filestat_get path_filestat_set_times path_link \
        path_open path_readlink path_remove_directory path_rename path_symlink path_unlink_file poll_oneoff proc_exit \
        proc_raise random_get sched_yield sock_accept sock_recv sock_send sock_shutdown";

    #[test]
    fn the_adapter_has_every_function_of_wasi() {
        for name in FUNCTIONS.split_whitespace() {
            let export = format!("(export \"{name}\")");
            assert_eq!(DENY.matches(&export).count(), 1, "{name}");
        }
        for buffer in [None, Some(4096..8192)] {
            wat::parse_str(adapter("flyball:controller/log", buffer)).expect("it is valid");
        }
    }
}
