//! Generates the table of the built-in controllers from the folder that `FLYBALL_BUILTINS` names, which
//! `host/plugin/src/bin/embed.rs` writes. Without the variable, the table is empty.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=FLYBALL_BUILTINS");
    let folder = env::var_os("FLYBALL_BUILTINS").filter(|folder| !folder.is_empty());
    let (mut shared, mut builtins) = (String::from("&[]"), String::new());
    if let Some(folder) = folder {
        let folder = fs::canonicalize(&folder)
            .map_err(|error| format!("FLYBALL_BUILTINS={}: {error}", folder.display()))?;
        shared = embed(&folder, "shared")?;
        let index = existing(folder.join("index"))?;
        for line in fs::read_to_string(index)?.lines() {
            writeln!(builtins, "    {},", entry(&folder, line)?)?;
        }
    }
    let table = format!(
        "/// The frame of the code that built-in controllers share.\n\
         pub(crate) static SHARED: &[u8] = {shared};\n\
         /// The built-in controllers.\n\
         pub(crate) static BUILTINS: &[Builtin] = &[\n{builtins}];\n"
    );
    fs::write(Path::new(&env::var("OUT_DIR")?).join("builtins.rs"), table)?;
    Ok(())
}

/// The entry of the table for a line of the index.
fn entry(folder: &Path, line: &str) -> Result<String, Box<dyn Error>> {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, digest, size, part) = match words[..] {
        [name, digest, size] => (
            name,
            digest,
            size,
            format!("Frame({})", embed(folder, name)?),
        ),
        [name, digest, size, start, end] => (name, digest, size, format!("Shared({start}..{end})")),
        _ => return Err(format!("{}/index: not a line: {line}", folder.display()).into()),
    };
    Ok(format!(
        "Builtin {{ name: {name:?}, digest: {digest:?}, size: {size}, part: Part::{part} }}"
    ))
}

/// The expression that embeds a frame.
fn embed(folder: &Path, name: &str) -> Result<String, Box<dyn Error>> {
    let file = existing(folder.join(format!("{name}.zst")))?;
    Ok(format!("include_bytes!({file:?})"))
}

fn existing(file: PathBuf) -> Result<PathBuf, Box<dyn Error>> {
    if !file.exists() {
        return Err(format!("FLYBALL_BUILTINS lacks {}", file.display()).into());
    }
    println!("cargo::rerun-if-changed={}", file.display());
    Ok(file)
}
