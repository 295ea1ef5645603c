//! The architectures that hosts are built for, and the tools that build for another one than this machine's.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flyball_author::tools::{Tool, require};

use crate::run::{command, output};

/// An architecture of machines that run Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Architecture {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
}

impl Architecture {
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The architecture of this machine; none if no release is built for it.
    pub fn own() -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|architecture| architecture.name() == std::env::consts::ARCH)
    }

    /// The name that Rust and Linux use.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The name that images use: Go's.
    pub fn of_images(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// None if this is the architecture of this machine.
    pub fn if_foreign(self) -> Option<Self> {
        (Self::own() != Some(self)).then_some(self)
    }

    /// Rust's target.
    pub fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// The program of the C compiler or of one of its tools for this architecture, such as `objcopy`.
    pub fn program(self, name: &str) -> String {
        match self.if_foreign() {
            None => name.to_owned(),
            Some(_) => format!("{}-linux-gnu-{name}", self.name()),
        }
    }

    /// The path at which the C compiler finds a shared library.
    pub fn library(self, name: &str) -> Result<PathBuf> {
        let compiler = self.program("gcc");
        let found = output(command(&compiler).arg(format!("-print-file-name={name}")));
        let found = found.with_context(|| format!("`{compiler}` can't be run"))?;
        // It prints the name itself if it does not find the file.
        ensure!(
            found.starts_with('/'),
            "`{compiler}` doesn't find {name}: install the C library of {} for it",
            self.name()
        );
        Ok(PathBuf::from(found))
    }

    /// The folder in which Debian installs the C library of another architecture.
    pub fn sysroot(self) -> PathBuf {
        format!("/usr/{}-linux-gnu", self.name()).into()
    }

    /// Fails if this machine lacks a C compiler for another architecture.
    pub fn require_compiler(self) -> Result<()> {
        let (name, package) = (self.program("gcc"), self.package());
        require(&[Tool::new(
            &[&name, "--version"],
            &format!(
                "links hosts for {}: on Debian, `sudo apt-get install {package}`",
                self.name()
            ),
        )])
    }

    /// Debian's package of the C compiler on machines of another architecture.
    pub fn package(self) -> &'static str {
        match self {
            Self::X86_64 => "gcc-x86-64-linux-gnu",
            Self::Aarch64 => "gcc-aarch64-linux-gnu",
        }
    }

    /// Lets cargo link for another architecture, unless the environment already names a linker. Crates with C code find
    /// the compiler by the same name.
    pub fn set_linker(self, cargo: &mut Command) {
        let target = self.target().to_uppercase().replace('-', "_");
        let variable = format!("CARGO_TARGET_{target}_LINKER");
        if std::env::var_os(&variable).is_none() {
            cargo.env(variable, self.program("gcc"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_linker_is_named_by_its_target() {
        for architecture in Architecture::ALL {
            let mut cargo = Command::new("cargo");
            architecture.set_linker(&mut cargo);
            let (variable, linker) = cargo.get_envs().next().expect("a variable is set");
            let variable = variable.to_string_lossy().into_owned();
            let linker = linker.unwrap().to_string_lossy().into_owned();
            if Architecture::own() == Some(architecture) {
                assert_eq!(linker, "gcc");
            } else if architecture == Architecture::Aarch64 {
                assert_eq!(variable, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER");
                assert_eq!(linker, "aarch64-linux-gnu-gcc");
            }
        }
    }
}
