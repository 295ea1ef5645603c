//! The files of the image: where they are in it, and on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use xtask::machine::Architecture;
use xtask::run::{command, output};

/// The authorities of the registries that plugins are pulled from.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The binary, the C library and the authorities.
pub(super) fn of_image(
    architecture: Architecture,
    binary: &Path,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut files = match architecture.if_foreign() {
        None => own_libraries(binary)?,
        Some(foreign) => foreign_libraries(foreign, binary)?,
    };
    ensure!(
        files.keys().any(|path| path.contains("/libc.so")),
        "{} needs no C library: {files:?}",
        binary.display()
    );
    ensure!(
        Path::new(AUTHORITIES).is_file(),
        "{AUTHORITIES} is missing: the image needs it to pull plugins; on Debian, `sudo apt-get install ca-certificates`"
    );
    files.insert(AUTHORITIES.to_owned(), AUTHORITIES.into());
    files.insert("/flyball".to_owned(), binary.to_owned());
    Ok(files)
}

/// The libraries that this machine's loader finds.
fn own_libraries(binary: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let libraries = output(command("ldd").arg(binary));
    let libraries = libraries
        .with_context(|| format!("`ldd` can't list the libraries of {}", binary.display()))?;
    Ok(libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(|path| (path.to_owned(), PathBuf::from(path)))
        .collect())
}

/// The loader and the libraries that the C compiler of another architecture has, in Debian's folders.
fn foreign_libraries(
    architecture: Architecture,
    binary: &Path,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut readelf = command("readelf");
    readelf.args(["--dynamic", "--program-headers", "--wide"]);
    let text = output(readelf.arg(binary).env("LC_ALL", "C"));
    let text = text.with_context(|| format!("`readelf` can't read {}", binary.display()))?;
    let Needed { loader, libraries } =
        needed(&text).with_context(|| format!("{} is not linked to a loader", binary.display()))?;
    let mut files = BTreeMap::new();
    for name in libraries {
        let path = format!("/lib/{}-linux-gnu/{name}", architecture.name());
        files.insert(path, architecture.library(&name)?);
    }
    let (_, name) = loader.rsplit_once('/').unwrap_or(("", &loader));
    files.insert(loader.clone(), architecture.library(name)?);
    Ok(files)
}

/// The libraries and symbol versions that a binary requires.
#[derive(Debug, PartialEq, Eq)]
struct Needed {
    /// A path.
    loader: String,
    /// Names, without the loader's.
    libraries: Vec<String>,
}

/// Reads the output of `readelf`. None without a loader.
fn needed(text: &str) -> Option<Needed> {
    let within = |before: &str, line: &str| {
        let (_, after) = line.split_once(before)?;
        Some(after.split_once(']')?.0.to_owned())
    };
    let find = |before: &'static str| text.lines().filter_map(move |line| within(before, line));
    let loader = find("[Requesting program interpreter: ").next()?;
    let libraries = find("(NEEDED)             Shared library: [")
        .filter(|name| !loader.ends_with(name.as_str()))
        .collect();
    Some(Needed { loader, libraries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_binary_are_read_without_running_it() {
        let text = "
  INTERP         0x000318 0x0000000000000318 0x0000000000000318 0x00001b 0x00001b R   0x1
      [Requesting program interpreter: /lib/ld-linux-aarch64.so.1]

Dynamic section at offset 0x1000 contains 30 entries:
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [ld-linux-aarch64.so.1]
 0x000000000000000c (INIT)               0x1000";
        let expected = Needed {
            loader: "/lib/ld-linux-aarch64.so.1".into(),
            libraries: vec!["libgcc_s.so.1".into(), "libc.so.6".into()],
        };
        assert_eq!(needed(text), Some(expected));
        assert_eq!(needed("There is no dynamic section in this file."), None);
    }

    #[test]
    fn readelf_and_the_loader_agree_on_this_machine() {
        let own = Architecture::own().expect("a release is built for this machine");
        let binary = std::env::current_exe().unwrap();
        let names = |files: BTreeMap<String, PathBuf>| -> Vec<String> {
            let names = files.keys().filter_map(|path| path.rsplit_once('/'));
            let mut names: Vec<String> = names.map(|(_, name)| name.to_owned()).collect();
            names.sort();
            names
        };
        let read = names(foreign_libraries(own, &binary).unwrap());
        assert!(read.iter().any(|name| name == "libc.so.6"), "{read:?}");
        assert_eq!(read, names(own_libraries(&binary).unwrap()));
    }
}
