//! Generates the table of the built-in controllers from the folder that `FLYBALL_BUILTINS` names. The folder contains
//! `<name>.wasm`, `<name>.cwasm` and `<name>.sha256` for each. Without the variable, the table is empty.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed=FLYBALL_BUILTINS");
    let mut table = String::from(
        "/// The built-in controllers.\npub(crate) static BUILTINS: &[Builtin] = &[\n",
    );
    if let Some(folder) = env::var_os("FLYBALL_BUILTINS").filter(|folder| !folder.is_empty()) {
        let folder = fs::canonicalize(&folder)
            .map_err(|error| format!("FLYBALL_BUILTINS={folder:?}: {error}"))?;
        println!("cargo::rerun-if-changed={}", folder.display());
        for wasm in components(&folder)? {
            let (cwasm, digest) = (wasm.with_extension("cwasm"), wasm.with_extension("sha256"));
            for file in [&wasm, &cwasm, &digest] {
                if !file.exists() {
                    return Err(format!(
                        "FLYBALL_BUILTINS has {}, but not {}",
                        wasm.display(),
                        file.display()
                    )
                    .into());
                }
                println!("cargo::rerun-if-changed={}", file.display());
            }
            let name = wasm.file_stem().unwrap_or_default().to_string_lossy();
            writeln!(
                table,
                "    Builtin {{ name: {name:?}, digest: include_str!({digest:?}), wasm: include_bytes!({wasm:?}), \
                 cwasm: include_bytes!({cwasm:?}) }},"
            )?;
        }
    }
    table.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("builtins.rs"), table)?;
    Ok(())
}

fn components(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut components = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "wasm")
        {
            components.push(path);
        }
    }
    components.sort();
    Ok(components)
}
