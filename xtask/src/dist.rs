//! `cargo xtask dist`: what a release consists of, for the architecture of this machine: the binary without symbols, its
//! image, a list of what it is built from, and their checksums.

mod image;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::release;
use crate::run::{say, workspace};

/// Build what a release consists of, for the architecture of this machine, and write it to target/dist
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Package this binary of the host, instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Writes the files of a release.
pub(crate) fn write(arguments: &Arguments) -> Result<()> {
    let folder = workspace().join("target/dist");
    fs::create_dir_all(&folder).with_context(|| format!("can't create {}", folder.display()))?;
    let binary = match &arguments.binary {
        Some(given) => {
            let binary = folder.join("flyball");
            release::separate(given, &binary)?;
            binary
        }
        None => release::build()?,
    };
    let image = folder.join("image");
    let archive = folder.join("flyball.tar");
    image::write(&binary, &image)?;
    image::archive(&image, &archive)?;
    let sbom = folder.join("flyball.cdx.json");
    fs::write(&sbom, sbom::of_host()?)?;
    let sums = [&binary, &archive, &sbom].map(|file| line(file));
    let sums = sums.into_iter().collect::<Result<String>>()?;
    fs::write(folder.join("SHA256SUMS"), sums)?;
    say(&format!(
        "the release is in {}: flyball, flyball.tar (the image; its layout is in image/), flyball.cdx.json, SHA256SUMS",
        folder.display()
    ));
    Ok(())
}

/// The line of a file in `SHA256SUMS`.
fn line(file: &Path) -> Result<String> {
    let content = fs::read(file).with_context(|| format!("can't read {}", file.display()))?;
    ensure!(!content.is_empty(), "{} is empty", file.display());
    let name = file.file_name().unwrap_or_default();
    Ok(format!("{}  {}\n", digest(&content), name.display()))
}

/// The SHA-256 in hex.
fn digest(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}
