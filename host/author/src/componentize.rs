//! Encodes core modules as components, and checks the imports of components.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use wit_component::{ComponentEncoder, DecodedWasm, StringEncoding, embed_component_metadata};

use crate::parts::{Packages, Parts, WAITING as WAITING_ITEMS};
use crate::placeholder;

/// The world that guests are compiled against.
pub const WORLD: &str = "controller";
/// The prefix of the interfaces of the world.
pub const WORLD_ALONE: [&str; 1] = ["flyball:controller/"];
/// The prefixes of the interfaces of the world, of those for clouds, and of those for HTTP requests.
pub const WITH_HTTP: [&str; 5] = [
    "flyball:controller/",
    "flyball:cloud/",
    "wasi:clocks/",
    "wasi:http/",
    "wasi:io/",
];
/// The interface of the world that output is written to.
const LOG: &str = "log";
/// The same, with the package and the version of the world.
const ADAPTER_LOG: &str = env!("ADAPTER_LOG");
/// Adapters, assembled from `deny.wat`, that implement the functions of WASI preview 1. `WAITING` waits when the guest
/// sleeps.
const LOGGING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/logging.wasm"));
const WAITING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/waiting.wasm"));

/// Encodes a core module in which the bindings have recorded the world. Returns a component unchanged.
pub fn component(module: &[u8]) -> Result<Vec<u8>> {
    if module.get(4..8) != Some(&[1, 0, 0, 0]) {
        return Ok(module.to_owned());
    }
    let encoder = ComponentEncoder::default().validate(true);
    encoder.module(module)?.encode()
}

/// Encodes a core module for WASI preview 1 that doesn't record the world. The component doesn't import WASI. `wit` is
/// the folder of the world. `buffer` is memory that the module doesn't use itself. It holds one line of output, so that
/// each line that the module prints goes to the host's log.
pub fn component_of_wasi(module: Vec<u8>, wit: &Path, buffer: Range<u32>) -> Result<Vec<u8>> {
    component_with(module, wit, buffer, Parts::default())
}

/// Does the same for a guest with these parts of the world, some of which import WASI.
pub(crate) fn component_with(
    mut module: Vec<u8>,
    wit: &Path,
    buffer: Range<u32>,
    parts: Parts,
) -> Result<Vec<u8>> {
    let mut packages = Packages::read(wit)?;
    let world = packages.add_guest(parts)?;
    embed_component_metadata(&mut module, &packages.resolve, world, StringEncoding::UTF8)?;
    let log = packages.of_controller(LOG);
    ensure!(
        log == ADAPTER_LOG,
        "the world in {} has the interface {log}, and this program builds for {ADAPTER_LOG}: use the SDK of its version",
        wit.display()
    );
    let import = format!("import {log}");
    let mut items = vec![import.as_str()];
    if parts.cloud {
        items.extend(WAITING_ITEMS);
    }
    let world = packages.add("adapter", &items)?;
    let mut adapter = adapter(if parts.cloud { WAITING } else { LOGGING }, buffer)?;
    embed_component_metadata(&mut adapter, &packages.resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .adapter("wasi_snapshot_preview1", &adapter)?
        .encode()
}

/// Returns an adapter that uses this buffer.
fn adapter(assembled: &[u8], buffer: Range<u32>) -> Result<Vec<u8>> {
    let mut adapter = assembled.to_owned();
    let size = buffer.end.saturating_sub(buffer.start);
    for (placeholder, number) in [
        (placeholder::BUFFER, buffer.start),
        (placeholder::SIZE, size),
    ] {
        ensure!(number < 1 << 31, "the buffer {buffer:?} is out of range");
        let at = placeholder::find(&adapter, placeholder)
            .context("the adapter has no place for the buffer")?;
        adapter[at..at + 5].copy_from_slice(&placeholder::leb128(number));
    }
    Ok(adapter)
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

    /// The functions of WASI preview 1. Toolchains import those that they need.
    const FUNCTIONS: &str = "args_get args_sizes_get clock_res_get clock_time_get environ_get environ_sizes_get fd_advise \
        fd_allocate fd_close fd_datasync fd_fdstat_get fd_fdstat_set_flags fd_fdstat_set_rights fd_filestat_get \
        fd_filestat_set_size fd_filestat_set_times fd_pread fd_prestat_dir_name fd_prestat_get fd_pwrite fd_read fd_readdir \
        fd_renumber fd_seek fd_sync fd_tell fd_write path_create_directory path_filestat_get path_filestat_set_times path_link \
        path_open path_readlink path_remove_directory path_rename path_symlink path_unlink_file poll_oneoff proc_exit \
        proc_raise random_get sched_yield sock_accept sock_recv sock_send sock_shutdown";

    const DENY: &str = include_str!("deny.wat");

    #[test]
    fn the_adapter_has_every_function_of_wasi() {
        for name in FUNCTIONS.split_whitespace() {
            let export = format!("(export \"{name}\")");
            assert_eq!(DENY.matches(&export).count(), 1, "{name}");
        }
    }

    /// The values of the adapter's immutable globals, if it is valid.
    fn constants(adapter: &[u8]) -> Vec<i32> {
        wasmparser::validate(adapter).expect("it is valid");
        let mut constants = Vec::new();
        for payload in wasmparser::Parser::new(0).parse_all(adapter) {
            if let wasmparser::Payload::GlobalSection(globals) = payload.unwrap() {
                for global in globals.into_iter().map(Result::unwrap) {
                    let first = global.init_expr.get_operators_reader().read().unwrap();
                    if let (false, wasmparser::Operator::I32Const { value }) =
                        (global.ty.mutable, first)
                    {
                        constants.push(value);
                    }
                }
            }
        }
        constants
    }

    #[test]
    fn the_adapter_has_the_buffer_that_it_is_given() {
        for assembled in [LOGGING, WAITING] {
            for (start, end) in [(4096, 8192), (0, 1), (0x7f00_0000, 0x7fff_ffff)] {
                let adapter = adapter(assembled, start..end).unwrap();
                let expected = [start, end - start].map(|number| number as i32);
                assert_eq!(constants(&adapter), expected);
            }
        }
        let error = adapter(LOGGING, 0x8000_0000..0x8000_0001).unwrap_err();
        assert!(error.to_string().contains("out of range"), "{error}");
    }
}
