//! Writes the table of controllers from the manifests.

#[path = "build/manifest.rs"]
mod manifest;
#[path = "build/table.rs"]
mod table;

use std::path::Path;
use std::{env, fs};

use manifest::Described;

/// The folder of the built-in controllers, relative to this crate.
const CONTROLLERS: &str = "../../guests/controllers";

fn main() {
    if let Err(error) = write_table() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn write_table() -> Result<(), String> {
    let folder = Path::new(CONTROLLERS)
        .canonicalize()
        .map_err(|error| format!("can't find {CONTROLLERS}: {error}"))?;
    let controllers = manifest::read_all(&folder)?;
    let out = env::var("OUT_DIR").map_err(|error| format!("OUT_DIR: {error}"))?;
    let path = Path::new(&out).join("table.rs");
    fs::write(&path, table::code(&controllers))
        .map_err(|error| format!("can't write {}: {error}", path.display()))?;
    print_sources(&folder, &controllers);
    Ok(())
}

/// Tells cargo which files the table depends on. A build script that failed runs again in any case, and cargo would show
/// these lines with its error.
fn print_sources(folder: &Path, controllers: &[Described]) {
    let print = |path: &Path| println!("cargo::rerun-if-changed={}", path.display());
    // A new folder changes the modification time of this one.
    print(folder);
    for one in controllers {
        print(&one.folder.join("controller.toml"));
        print(&one.folder.join("policy.toml"));
    }
}
