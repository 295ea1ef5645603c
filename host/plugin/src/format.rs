//! Checks a file before any of it is compiled: that it is a component for our world, and that the host provides what it
//! imports. Each error tells the author what to do.

use wasmparser::{Encoding, Parser, Payload};

use crate::error::LoadError;

/// The version of the world that this host provides, as in `wit/`.
const WORLD: &str = "0.2.0";
/// What a controller exports.
const GUEST: &str = "flyball:controller/guest@0.2.0";
/// The package of the world.
const PACKAGE: &str = "flyball:controller";
/// The versions of the world whose components this host runs.
const COMPATIBLE: &str = "0.2.";

/// The interfaces that the host offers, by package and the prefix of the versions that it is compatible with.
const OFFERED: [(&str, &str, &[&str]); 8] = [
    (
        PACKAGE,
        COMPATIBLE,
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
    if let Some(compiled) = other_world(exports.iter().chain(&imports)) {
        return Err(LoadError::OtherWorld {
            compiled,
            provided: WORLD,
        });
    }
    if !exports
        .iter()
        .any(|name| is_version_of(name, "flyball:controller/guest", COMPATIBLE))
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

/// The version of the world that a component was compiled against, if this host does not run it.
fn other_world<'a>(names: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let version = |name: &'a String| {
        let interface = name.strip_prefix(PACKAGE)?.strip_prefix('/')?;
        let (_, version) = interface.split_once('@')?;
        (!version.starts_with(COMPATIBLE)).then(|| version.to_owned())
    };
    names.into_iter().find_map(version)
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
            sentence.contains(GUEST) && sentence.contains("exports nothing"),
            "{sentence}"
        );
    }

    #[test]
    fn the_version_is_that_of_the_world() {
        let world = include_str!("../../../wit/world.wit");
        let package = format!("package {PACKAGE}@{WORLD};");
        assert_eq!(world.lines().next(), Some(package.as_str()));
        assert_eq!(GUEST, format!("{PACKAGE}/guest@{WORLD}"));
        assert!(WORLD.starts_with(COMPATIBLE));
    }

    #[test]
    fn a_component_of_another_version_of_the_world_is_told_to_rebuild() {
        let exports = r#"(component
            (instance $instance)
            (export "flyball:controller/guest@0.1.0" (instance $instance)))"#;
        let imports = r#"(component (import "flyball:controller/clock@0.1.3" (instance)))"#;
        for (component, version) in [(exports, "0.1.0"), (imports, "0.1.3")] {
            let wasm = wat::parse_str(component).unwrap();
            let sentence = check(&wasm, 1000).unwrap_err().to_string();
            assert_eq!(
                sentence,
                format!(
                    "the component was compiled against version {version} of the world `flyball:controller`, and this host \
                     provides version 0.2.0: rebuild it with an SDK of version 0.2"
                )
            );
        }
    }

    #[test]
    fn interfaces_are_offered_by_their_compatible_versions() {
        for name in [
            "flyball:controller/lister@0.2.0",
            "flyball:controller/types@0.2.7",
            "wasi:http/types@0.2.0",
            "wasi:io/poll@0.2.11",
        ] {
            assert!(is_offered(name), "{name}");
        }
        for name in [
            "flyball:controller/lister@0.1.0",
            "wasi:http/incoming-handler@0.2.0",
            "wasi:io/poll@0.3.0",
            "wasi:io/poll",
            "x",
        ] {
            assert!(!is_offered(name), "{name}");
        }
    }
}
