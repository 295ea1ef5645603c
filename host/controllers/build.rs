//! Writes the table of controllers from the manifests.

#[path = "build/manifest.rs"]
mod manifest;
#[path = "build/table.rs"]
mod table;

use std::path::Path;
use std::{env, fs};

/// The folder of the built-in controllers, relative to this crate.
const CONTROLLERS: &str = "../../guests/controllers";

fn main() {
    if let Err(error) = write_table() {
        // Cargo shows only the standard error of a build script that fails.
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn write_table() -> Result<(), String> {
    let folder = Path::new(CONTROLLERS)
        .canonicalize()
        .map_err(|error| format!("can't find {CONTROLLERS}: {error}"))?;
    // A new folder changes the modification time of this one.
    println!("cargo::rerun-if-changed={}", folder.display());
    let controllers = manifest::read_all(&folder)?;
    let out = env::var("OUT_DIR").map_err(|error| format!("OUT_DIR: {error}"))?;
    let path = Path::new(&out).join("table.rs");
    fs::write(&path, table::code(&controllers))
        .map_err(|error| format!("can't write {}: {error}", path.display()))
}
