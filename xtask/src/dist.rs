//! `cargo xtask dist` builds the files of a release: a binary without symbols for each architecture, alone and in an archive,
//! an image, the chart, an SBOM, and the checksums of all files.

mod archives;
mod files;
mod image;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use xtask::machine::Architecture;
use xtask::run::{command, output, say, workspace};
use xtask::toolchain::prepare_toolchain;

use crate::release;

/// Build the files of a release for x86_64 and aarch64, and write them to target/dist
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build for this architecture only; may be repeated. Other architectures than this machine's need a C compiler and
    /// Rust's standard library for them
    #[arg(long, value_enum, value_name = "NAME")]
    architecture: Vec<Architecture>,
    /// Package this binary of the host, for the architecture of this machine, instead of building one
    #[arg(long, value_name = "FILE", conflicts_with = "architecture")]
    binary: Option<PathBuf>,
}

impl Arguments {
    fn architectures(&self) -> Result<Vec<Architecture>> {
        if self.binary.is_some() {
            let own = Architecture::own();
            return Ok(vec![own.context(
                "no release is built for the architecture of this machine: images are for x86_64 and aarch64",
            )?]);
        }
        let is_wanted = |architecture: &Architecture| {
            self.architecture.is_empty() || self.architecture.contains(architecture)
        };
        Ok(Architecture::ALL.into_iter().filter(is_wanted).collect())
    }
}

/// Writes the files of a release.
pub(crate) fn write(arguments: &Arguments) -> Result<()> {
    let architectures = arguments.architectures()?;
    require_tools(&architectures)?;
    let folder = workspace().join("target/dist");
    let mut binaries = Vec::new();
    for architecture in architectures {
        let folder = folder.join(architecture.name());
        fs::create_dir_all(&folder)
            .with_context(|| format!("can't create {}", folder.display()))?;
        let binary = match &arguments.binary {
            Some(given) => {
                let binary = folder.join("flyball");
                release::separate("objcopy", given, &binary)?;
                binary
            }
            None => release::build_for(architecture.if_foreign(), &folder)?,
        };
        check(architecture, &binary)?;
        binaries.push((architecture, binary));
    }
    package(&binaries, &folder)?;
    say(&format!(
        "the release is in {}: a folder and an archive for each architecture with its binary; flyball.tar (the image; its layout \
         is in image/), the chart, flyball.cdx.json, SHA256SUMS",
        folder.display()
    ));
    Ok(())
}

/// Fails before anything is built if a tool for another architecture is missing.
fn require_tools(architectures: &[Architecture]) -> Result<()> {
    for architecture in architectures.iter().filter_map(|one| one.if_foreign()) {
        let prepared = architecture
            .require_compiler()
            .and_then(|()| prepare_toolchain(&architecture.target()));
        prepared.with_context(|| {
            format!(
                "can't build for {0} on this machine; `cargo xtask dist --architecture {1}` builds without it",
                architecture.name(),
                std::env::consts::ARCH
            )
        })?;
    }
    Ok(())
}

/// Runs a binary, in an emulator if it is for another architecture and there is one.
fn check(architecture: Architecture, binary: &Path) -> Result<()> {
    let mut version = match architecture.if_foreign() {
        None => command(binary),
        Some(foreign) => {
            let emulator = format!("qemu-{}", foreign.name());
            if output(command(&emulator).arg("--version")).is_none() {
                say(&format!(
                    "{} is not tried, because {emulator} is missing: on Debian, `sudo apt-get install qemu-user`",
                    binary.display()
                ));
                return Ok(());
            }
            let mut emulated = command(emulator);
            emulated.arg("-L").arg(foreign.sysroot()).arg(binary);
            emulated
        }
    };
    let printed = output(version.arg("--version"));
    let printed = printed.with_context(|| format!("`{} --version` fails", binary.display()))?;
    let expected = env!("CARGO_PKG_VERSION");
    ensure!(
        printed.contains(expected),
        "`{} --version` prints `{printed}`, and not {expected}",
        binary.display()
    );
    Ok(())
}

/// Writes the image, the SBOM and the checksums for the binaries of these architectures.
fn package(binaries: &[(Architecture, PathBuf)], folder: &Path) -> Result<()> {
    let image = folder.join("image");
    let archive = folder.join("flyball.tar");
    let contents = binaries.iter().map(|(architecture, binary)| {
        let files = files::of_image(*architecture, binary)?;
        Ok((*architecture, files))
    });
    image::write(&contents.collect::<Result<Vec<_>>>()?, &image)?;
    image::archive(&image, &archive)?;
    let architectures: Vec<Architecture> = binaries.iter().map(|(one, _)| *one).collect();
    let sbom = folder.join("flyball.cdx.json");
    fs::write(&sbom, sbom::of_host(&architectures)?)?;
    let mut downloads = vec![archives::of_chart(folder)?];
    for (architecture, binary) in binaries {
        downloads.push(archives::of_binary(*architecture, binary, folder)?);
    }
    let binaries = binaries.iter().map(|(_, binary)| binary);
    let sums = binaries
        .chain([&archive, &sbom])
        .chain(&downloads)
        .map(|file| line(folder, file))
        .collect::<Result<String>>()?;
    fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(())
}

/// The line of a file in `SHA256SUMS`.
fn line(folder: &Path, file: &Path) -> Result<String> {
    let content = fs::read(file).with_context(|| format!("can't read {}", file.display()))?;
    ensure!(!content.is_empty(), "{} is empty", file.display());
    let name = file.strip_prefix(folder)?;
    Ok(format!("{}  {}\n", digest(&content), name.display()))
}

/// The SHA-256 in hex.
fn digest(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}
