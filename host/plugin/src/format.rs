//! Looks at a file before any of it is compiled: is it a component for our world, and does the host have what it wants?
//! Each answer is a sentence that tells the author what to do.

use wasmparser::{Encoding, Parser, Payload};

use crate::error::LoadError;

/// What a controller exports, up to its patch version.
const GUEST: &str = "flyball:controller/guest@0.1.0";

/// The interfaces that the host offers, by package and the prefix of the versions that it is compatible with.
const OFFERED: [(&str, &str, &[&str]); 8] = [
    (
        "flyball:controller",
        "0.1.",
        &[
            "types",
            "lister",
            "reader",
            "discovery",
            "writer",
            "events",
            "queue",
            "clock",
            "random",
            "log",
            "metrics",
            "config",
            "memo",
            "signer",
        ],
    ),
    (
        "wasi:cli",
        "0.2.",
        &[
            "environment",
            "exit",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
    ),
    ("wasi:clocks", "0.2.", &["wall-clock", "monotonic-clock"]),
    ("wasi:filesystem", "0.2.", &["types", "preopens"]),
    ("wasi:http", "0.2.", &["types", "outgoing-handler"]),
    ("wasi:io", "0.2.", &["error", "poll", "streams"]),
    (
        "wasi:random",
        "0.2.",
        &["random", "insecure", "insecure-seed"],
    ),
    (
        "wasi:sockets",
        "0.2.",
        &[
            "network",
            "instance-network",
            "ip-name-lookup",
            "tcp",
            "tcp-create-socket",
            "udp",
            "udp-create-socket",
        ],
    ),
];

/// Checks that a file is a component that this host can run, as far as its outside tells. `limit` is how many bytes it may
/// have. Nothing is compiled.
///
/// # Errors
/// It is not. No retry helps.
pub fn check(bytes: &[u8], limit: usize) -> Result<(), LoadError> {
    if bytes.len() > limit {
        return Err(LoadError::TooLarge {
            size: bytes.len(),
            limit,
        });
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadError::NotWasm);
    }
    if bytes.get(4..8) == Some(&[1, 0, 0, 0]) {
        return Err(LoadError::CoreModule);
    }
    let Outside { imports, exports } =
        outside(bytes).map_err(|error| LoadError::Malformed(error.to_string()))?;
    if !exports
        .iter()
        .any(|name| is_version_of(name, "flyball:controller/guest", "0.1."))
    {
        return Err(LoadError::NoGuest {
            expected: GUEST,
            found: describe(&exports),
        });
    }
    let unknown: Vec<String> = imports
        .into_iter()
        .filter(|name| !is_offered(name))
        .collect();
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(LoadError::UnknownImports(unknown))
    }
}

/// The names of what a component imports and exports.
struct Outside {
    imports: Vec<String>,
    exports: Vec<String>,
}

fn outside(bytes: &[u8]) -> wasmparser::Result<Outside> {
    let mut found = Outside {
        imports: Vec::new(),
        exports: Vec::new(),
    };
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding, .. } => {
                depth += 1;
                debug_assert!(depth > 1 || encoding == Encoding::Component);
            }
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    found.imports.push(import?.name.name.to_string());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    found.exports.push(export?.name.name.to_string());
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn is_offered(name: &str) -> bool {
    OFFERED.iter().any(|(package, version, interfaces)| {
        name.strip_prefix(package)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|rest| {
                interfaces
                    .iter()
                    .any(|interface| is_version_of(rest, interface, version))
            })
    })
}

/// Whether a name is `base@` and a version with this prefix.
fn is_version_of(name: &str, base: &str, version: &str) -> bool {
    name.split_once('@')
        .is_some_and(|(found, at)| found == base && at.starts_with(version))
}

/// What a component exports, as half a sentence.
fn describe(exports: &[String]) -> String {
    if exports.is_empty() {
        "it exports nothing".into()
    } else {
        format!("it exports {}", exports.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_component_is_named() {
        let refuse = |bytes: &[u8]| check(bytes, 100).unwrap_err().to_string();
        assert!(refuse(b"#!/bin/sh").contains("not WebAssembly"));
        assert!(refuse(b"").contains("not WebAssembly"));
        assert!(refuse(b"\0asm\x01\0\0\0").contains("wasm-tools component new"));
        assert!(refuse(b"\0asm\x0d\0\x01\0\xff\xff").contains("not a valid component"));
        assert!(refuse(b"\0asm\x0d\0").contains("not a valid component"));
        assert!(refuse(&[0; 101]).contains("101 bytes, more than the 100"));
    }

    #[test]
    fn a_component_of_another_world_is_told_what_is_expected() {
        let sentence = check(b"\0asm\x0d\0\x01\0", 100).unwrap_err().to_string();
        assert!(
            sentence.contains("flyball:controller/guest@0.1.0")
                && sentence.contains("exports nothing"),
            "{sentence}"
        );
    }

    #[test]
    fn interfaces_are_offered_by_their_compatible_versions() {
        for name in [
            "flyball:controller/lister@0.1.0",
            "flyball:controller/types@0.1.7",
            "wasi:http/types@0.2.0",
            "wasi:io/poll@0.2.11",
        ] {
            assert!(is_offered(name), "{name}");
        }
        for name in [
            "flyball:controller/lister@0.2.0",
            "wasi:http/incoming-handler@0.2.0",
            "wasi:io/poll@0.3.0",
            "wasi:io/poll",
            "x",
        ] {
            assert!(!is_offered(name), "{name}");
        }
    }
}
