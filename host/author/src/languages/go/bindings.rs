//! Generates the bindings of the world into a copy of the SDK. Each set is a world of its own, so that a plugin has the
//! imports and exports of the packages that it uses, and no others.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::Result;
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::WorldId;

use super::MODULE;
use crate::componentize::WORLD;
use crate::embedded;
use crate::parts::{CLOUD, HTTP, Packages};

/// A set of bindings.
struct Set {
    /// The package of the SDK that uses them. They are in its folder `internal/bindings`, and what the exports call is in
    /// its package `internal/guest`.
    package: &'static str,
    /// The name of their world, and its items.
    world: &'static str,
    items: &'static [&'static str],
    /// The package of the bindings that has the functions behind the exports; none if nothing is exported.
    exports: Option<&'static str>,
}

/// All sets but that of controllers, whose world has a name.
const SETS: [Set; 2] = [
    Set {
        package: "cloud",
        world: "provider",
        items: &CLOUD,
        exports: Some("export_flyball_cloud_provider"),
    },
    Set {
        package: "wasihttp",
        world: "requests",
        items: &HTTP,
        exports: None,
    },
];

/// Writes all bindings. `wit` is the folder of the world.
pub(super) fn generate(wit: &Path, sdk: &Path) -> Result<()> {
    let mut packages = Packages::read(wit)?;
    let controller = [format!("include {}", packages.of_controller(WORLD))];
    let items = controller.each_ref().map(String::as_str);
    let world = packages.add("controllers", &items)?;
    let exports = Some("export_flyball_controller_guest");
    write(&mut packages, world, sdk, MODULE, exports)?;
    for set in SETS {
        let world = packages.add(set.world, set.items)?;
        let package = format!("{MODULE}/{}", set.package);
        let folder = sdk.join(set.package);
        write(&mut packages, world, &folder, &package, set.exports)?;
    }
    Ok(())
}

/// Writes the bindings of a world for a package into its folder.
fn write(
    packages: &mut Packages,
    world: WorldId,
    folder: &Path,
    package: &str,
    exports: Option<&str>,
) -> Result<()> {
    let bindings = format!("{package}/internal/bindings");
    let options = wit_bindgen_go::Opts {
        format: wit_bindgen_go::Format::False,
        pkg_name: Some(bindings.clone()),
        ..Default::default()
    };
    let mut files = Files::default();
    options
        .build()
        .generate(&mut packages.resolve, world, &mut files)?;
    // The upstream runtime is replaced by the SDK's own, whose comments give the reason.
    let mut replaced = vec![(
        "\"go.bytecodealliance.org/pkg/wit/".to_owned(),
        format!("\"{MODULE}/internal/wit/"),
    )];
    if let Some(exports) = exports {
        replaced.push((
            format!("\"{bindings}/{exports}\""),
            format!("{exports} \"{package}/internal/guest\""),
        ));
    }
    for (path, content) in files.iter() {
        let is_exports = path.starts_with("wit_exports");
        let is_code = matches!(
            Path::new(path).extension().and_then(OsStr::to_str),
            Some("go" | "s")
        );
        if is_code && (exports.is_some() || !is_exports) {
            let mut text = std::str::from_utf8(content)?.to_owned();
            for (from, to) in &replaced {
                text = text.replace(from, to);
            }
            // It is compiled for WebAssembly alone.
            let text = format!("//go:build wasip1\n\n{text}");
            let file = folder.join("internal/bindings").join(path);
            embedded::write(&file, text.as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_import_only_the_standard_library_and_the_sdk() {
        let folder = tempfile::tempdir().unwrap();
        let wit = folder.path().join("wit");
        embedded::write_all(&embedded::WIT, &wit).unwrap();
        let sdk = folder.path().join("sdk");
        generate(&wit, &sdk).unwrap();
        let read = |path: &str| std::fs::read_to_string(sdk.join(path)).unwrap();
        for (file, guest) in [
            (
                "internal/bindings/wit_exports/wit_exports.go",
                "\"flyball.dev/sdk/internal/guest\"",
            ),
            (
                "cloud/internal/bindings/wit_exports/wit_exports.go",
                "\"flyball.dev/sdk/cloud/internal/guest\"",
            ),
        ] {
            let exports = read(file);
            assert!(exports.starts_with("//go:build wasip1\n"), "{exports}");
            for import in [guest, "\"flyball.dev/sdk/internal/wit/runtime\""] {
                assert!(exports.contains(import), "{exports}");
            }
            assert!(!exports.contains("go.bytecodealliance.org"), "{exports}");
            assert!(!exports.contains("bindings/export_"), "{exports}");
        }
        let http = read("wasihttp/internal/bindings/wasi_http_outgoing_handler/wit_bindings.go");
        assert!(http.contains("//go:wasmimport wasi:http/outgoing-handler@0.2."));
        assert!(!sdk.join("wasihttp/internal/bindings/wit_exports").exists());
    }
}
