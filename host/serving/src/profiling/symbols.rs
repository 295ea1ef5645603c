//! Names of functions and the mappings of the process, for the addresses of a profile.

use std::path::Path;

use procfs::process::{MMapPath, Process};

/// A function at an address; several, innermost first, if some are inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: u32,
}

/// A mapping of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: usize,
    /// The first address behind it.
    pub(super) end: usize,
    pub(super) offset: u64,
    /// A file, or a name in brackets.
    pub(super) name: String,
}

/// Returns the functions at an address; none if they are not known, as for guests or in a stripped binary.
pub(super) fn resolve(address: usize) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    // It takes an address to return to, which is behind the call.
    let behind = std::ptr::without_provenance_mut(address.wrapping_add(1));
    backtrace::resolve(behind, |symbol| {
        if let Some(name) = symbol.name() {
            symbols.push(Symbol {
                // Without the hash at its end.
                name: format!("{name:#}"),
                file: symbol
                    .filename()
                    .map(|file| file.display().to_string())
                    .unwrap_or_default(),
                line: symbol.lineno().unwrap_or_default(),
            });
        }
    });
    symbols
}

/// Frees the memory of the debug information that was read.
pub(super) fn forget() {
    backtrace::clear_symbol_cache();
}

/// Returns the mappings of this process that contain code, the binary's first.
pub(super) fn mappings() -> Vec<Mapping> {
    let maps = Process::myself().and_then(|process| process.maps());
    let binary = std::env::current_exe().unwrap_or_default();
    let mut mappings: Vec<Mapping> = maps
        .into_iter()
        .flatten()
        .filter(|map| map.perms.contains(procfs::process::MMPermissions::EXECUTE))
        .map(|map| Mapping {
            start: map.address.0 as usize,
            end: map.address.1 as usize,
            offset: map.offset,
            name: name(&map.pathname),
        })
        .collect();
    mappings.sort_by_key(|mapping| (Path::new(&mapping.name) != binary, mapping.start));
    mappings
}

fn name(path: &MMapPath) -> String {
    match path {
        MMapPath::Path(path) => path.display().to_string(),
        MMapPath::Vdso => "[vdso]".to_owned(),
        MMapPath::Vsyscall => "[vsyscall]".to_owned(),
        // Compiled guests.
        _ => "[anon]".to_owned(),
    }
}
