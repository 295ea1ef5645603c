//! Checks a file before it is compiled: it must be a component for the world `flyball:controller`, and the host must
//! provide its imports. Each error tells the author what to do.

use wasmparser::{BinaryReaderError, Encoding, Parser, Payload};

use crate::error::LoadError;

/// The version of the world that this host provides. Equal to the version in `wit/`.
const WORLD: &str = "0.2.0";
/// The export that a controller must have.
const GUEST: &str = "flyball:controller/guest@0.2.0";
/// The package of the world.
const PACKAGE: &str = "flyball:controller";
/// The prefix of the world's versions that this host is compatible with.
const COMPATIBLE: &str = "0.2.";

/// The package of the world of clouds, its version that this host provides, and the prefix of the compatible ones.
const CLOUD_PACKAGE: &str = "flyball:cloud";
const CLOUD_WORLD: &str = "0.1.0";
const CLOUD_COMPATIBLE: &str = "0.1.";

/// The interfaces that the host provides: the package, the prefix of the compatible versions, and the names.
const PROVIDED: [(&str, &str, &[&str]); 9] = [
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
        CLOUD_PACKAGE,
        CLOUD_COMPATIBLE,
        &["types", "calls", "credentials"],
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

/// Default of the maximum size of a component, in bytes. A Python guest takes 18 MiB.
pub(crate) const MAX_BYTES: usize = 64 << 20;
/// The most imports and exports of a component together. A Python guest has 60.
const MAX_EXTERNS: usize = 1000;
/// The deepest nesting of components and modules. Toolchains nest up to five.
const MAX_DEPTH: usize = 100;

/// The names that an error holds at most, and the longest of them in bytes. The file may have any number of any length.
const MAX_NAMES: usize = 10;
const MAX_NAME: usize = 100;

/// Returns the world that this host provides, as in `flyball:controller@0.2.0`.
pub fn provided_world() -> String {
    format!("{PACKAGE}@{WORLD}")
}

/// Checks by its imports and exports that a file is a component that this host can run. `limit` is the maximum size in
/// bytes. Does not compile the component. Takes time in proportion to the size of the file, and little memory.
///
/// # Errors
/// Fails if the host can't run the file. No retry helps.
pub fn check(bytes: &[u8], limit: usize) -> Result<(), LoadError> {
    check_header(bytes, limit)?;
    check_names(bytes)
}

/// Checks the size and the first bytes of a file.
pub(crate) fn check_header(bytes: &[u8], limit: usize) -> Result<(), LoadError> {
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
    Ok(())
}

/// Checks the imports and exports of a component.
pub(crate) fn check_names(bytes: &[u8]) -> Result<(), LoadError> {
    let ExternNames { imports, exports } = extern_names(bytes)?;
    for (package, provided, compatible) in [
        (PACKAGE, WORLD, COMPATIBLE),
        (CLOUD_PACKAGE, CLOUD_WORLD, CLOUD_COMPATIBLE),
    ] {
        let names = exports.iter().chain(&imports);
        if let Some(compiled) = incompatible_world(names, package, compatible) {
            return Err(LoadError::OtherWorld {
                package,
                compiled,
                provided,
            });
        }
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
        .filter(|name| !is_provided(name))
        .map(shortened)
        .take(MAX_NAMES)
        .collect();
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(LoadError::UnknownImports(unknown))
    }
}

/// The names of a component's imports and exports.
#[derive(Default)]
struct ExternNames<'a> {
    imports: Vec<&'a str>,
    exports: Vec<&'a str>,
}

impl ExternNames<'_> {
    fn check_count(&self) -> Result<(), LoadError> {
        if self.imports.len() + self.exports.len() <= MAX_EXTERNS {
            return Ok(());
        }
        Err(LoadError::Malformed(format!(
            "it has more than {MAX_EXTERNS} imports and exports"
        )))
    }
}

fn extern_names(bytes: &[u8]) -> Result<ExternNames<'_>, LoadError> {
    let malformed = |error: BinaryReaderError| LoadError::Malformed(error.to_string());
    let mut names = ExternNames::default();
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
            Payload::Version { encoding, .. } => {
                depth += 1;
                debug_assert!(depth > 1 || encoding == Encoding::Component);
                if depth > MAX_DEPTH {
                    return Err(LoadError::Malformed(format!(
                        "it nests more than {MAX_DEPTH} components"
                    )));
                }
            }
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    names.imports.push(import.map_err(malformed)?.name.name);
                    names.check_count()?;
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    names.exports.push(export.map_err(malformed)?.name.name);
                    names.check_count()?;
                }
            }
            _ => {}
        }
    }
    Ok(names)
}

/// The version of a package's world that a component was compiled against, if this host is not compatible with it.
fn incompatible_world<'a>(
    names: impl IntoIterator<Item = &'a &'a str>,
    package: &str,
    compatible: &str,
) -> Option<String> {
    let version = |name: &'a &'a str| {
        let interface = name.strip_prefix(package)?.strip_prefix('/')?;
        let (_, version) = interface.split_once('@')?;
        (!version.starts_with(compatible)).then(|| shortened(version))
    };
    names.into_iter().find_map(version)
}

fn is_provided(name: &str) -> bool {
    PROVIDED.iter().any(|(package, version, interfaces)| {
        name.strip_prefix(package)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|rest| {
                interfaces
                    .iter()
                    .any(|interface| is_version_of(rest, interface, version))
            })
    })
}

/// True if a name is `base@` followed by a version with this prefix.
fn is_version_of(name: &str, base: &str, version: &str) -> bool {
    name.split_once('@')
        .is_some_and(|(found, at)| found == base && at.starts_with(version))
}

/// The exports of a component, as a clause of an error message.
fn describe(exports: &[&str]) -> String {
    if exports.is_empty() {
        "it exports nothing".into()
    } else {
        let some = exports.iter().take(MAX_NAMES);
        let some: Vec<String> = some.map(|name| shortened(name)).collect();
        format!("it exports {}", some.join(", "))
    }
}

/// The beginning of a text of the file.
fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_NAME)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_invalid_file_has_its_own_error() {
        let refuse = |bytes: &[u8]| check(bytes, 100).unwrap_err().to_string();
        assert!(refuse(b"#!/bin/sh").contains("not WebAssembly"));
        assert!(refuse(b"").contains("not WebAssembly"));
        assert!(refuse(b"\0asm\x01\0\0\0").contains("wasm-tools component new"));
        assert!(refuse(b"\0asm\x0d\0\x01\0\xff\xff").contains("not a valid component"));
        assert!(refuse(b"\0asm\x0d\0").contains("not a valid component"));
        assert!(refuse(&[0; 101]).contains("101 bytes, more than the limit of 100"));
    }

    #[test]
    fn the_error_for_another_world_names_the_missing_export() {
        let message = check(b"\0asm\x0d\0\x01\0", 100).unwrap_err().to_string();
        assert!(
            message.contains(GUEST) && message.contains("exports nothing"),
            "{message}"
        );
    }

    #[test]
    fn the_constants_match_the_world() {
        let world = include_str!("../../../wit/world.wit");
        let package = format!("package {PACKAGE}@{WORLD};");
        assert_eq!(world.lines().next(), Some(package.as_str()));
        assert_eq!(GUEST, format!("{PACKAGE}/guest@{WORLD}"));
        assert!(WORLD.starts_with(COMPATIBLE));
        let world = include_str!("../../../wit/cloud/world.wit");
        let package = format!("package {CLOUD_PACKAGE}@{CLOUD_WORLD};");
        assert_eq!(world.lines().next(), Some(package.as_str()));
        let provider = format!("{CLOUD_PACKAGE}/provider@{CLOUD_WORLD}");
        assert_eq!(crate::cloud::PROVIDER, provider);
        assert!(CLOUD_WORLD.starts_with(CLOUD_COMPATIBLE));
    }

    #[test]
    fn the_error_for_another_version_of_the_world_says_to_rebuild() {
        let exports = r#"(component
            (instance $instance)
            (export "flyball:controller/guest@0.1.0" (instance $instance)))"#;
        let imports = r#"(component (import "flyball:controller/clock@0.1.3" (instance)))"#;
        let cloud = r#"(component (import "flyball:cloud/calls@0.2.0" (instance)))"#;
        let message = check(&wat::parse_str(cloud).unwrap(), 1000).unwrap_err();
        let message = message.to_string();
        assert!(
            message.contains("version 0.2.0 of the world `flyball:cloud`"),
            "{message}"
        );
        for (component, version) in [(exports, "0.1.0"), (imports, "0.1.3")] {
            let wasm = wat::parse_str(component).unwrap();
            let message = check(&wasm, 1000).unwrap_err().to_string();
            assert_eq!(
                message,
                format!(
                    "the component was compiled against version {version} of the world `flyball:controller`, and this host \
                     provides version 0.2.0: rebuild it with an SDK of version 0.2"
                )
            );
        }
    }

    #[test]
    fn an_error_holds_few_and_short_names() {
        let long = "a".repeat(10_000);
        let many = |extern_: &str, item: &str| -> String {
            let each = |n| format!("({extern_} \"t:p/{long}{n}@1.0.0\" {item})");
            (0..100).map(each).collect()
        };
        let guest = format!("(instance $i) (export \"{GUEST}\" (instance $i))");
        for content in [
            many("import", "(instance)") + &guest,
            "(instance $i)".to_owned() + &many("export", "(instance $i)"),
            format!("(import \"{PACKAGE}/clock@1.0.0-{long}\" (instance))"),
        ] {
            let wasm = wat::parse_str(format!("(component {content})")).unwrap();
            let message = check(&wasm, 10 << 20).unwrap_err().to_string();
            assert!(message.len() < 2000 && message.contains("aaa"), "{message}");
        }
    }

    #[test]
    fn a_component_of_many_names_or_levels_is_refused() {
        let imports: String = (0..=MAX_EXTERNS)
            .map(|n| format!("(import \"i{n}\" (instance))"))
            .collect();
        let imports = wat::parse_str(format!("(component {imports})")).unwrap();
        for (wasm, reason) in [
            (imports, "more than 1000 imports and exports"),
            (nested(MAX_DEPTH), "nests more than 100 components"),
        ] {
            let message = check(&wasm, 1 << 20).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }

    /// Returns a component with this number of components, each inside of the one before. The text format does not nest
    /// so deep.
    fn nested(levels: usize) -> Vec<u8> {
        let header = b"\0asm\x0d\0\x01\0";
        (0..levels).fold(header.to_vec(), |inner, _| {
            let mut size = inner.len();
            let mut component = header.to_vec();
            // The identifier of the section of a component, and its size in LEB128.
            component.push(4);
            while size >= 0x80 {
                component.push((size & 0x7f) as u8 | 0x80);
                size >>= 7;
            }
            component.push(size as u8);
            component.extend(inner);
            component
        })
    }

    #[test]
    fn compatible_versions_of_interfaces_are_provided() {
        for name in [
            "flyball:controller/lister@0.2.0",
            "flyball:controller/types@0.2.7",
            "flyball:cloud/calls@0.1.2",
            "wasi:http/types@0.2.0",
            "wasi:io/poll@0.2.11",
        ] {
            assert!(is_provided(name), "{name}");
        }
        for name in [
            "flyball:controller/lister@0.1.0",
            "wasi:http/incoming-handler@0.2.0",
            "wasi:io/poll@0.3.0",
            "wasi:io/poll",
            "x",
        ] {
            assert!(!is_provided(name), "{name}");
        }
    }
}
