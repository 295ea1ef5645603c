//! `cargo xtask upstream`: checks which Go code the controllers stand for, and shows how it changed between two
//! releases of Kubernetes.
//!
//! A manifest ([`manifest`]) names files and functions of a release. [`release`] finds them in the Go module cache,
//! [`go`] splits them into functions, [`check`] verifies that they exist, and [`diff`] compares two releases.

mod check;
mod diff;
mod go;
mod manifest;
mod release;

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result, ensure};
use xtask::run::workspace;

use manifest::Manifest;
use release::Release;

/// Check and compare the sources in Kubernetes that the controllers stand for
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Check that the files and functions that manifests and modules name exist in the manifest's release
    Check,
    /// Show what changed between two releases, for each controller and library
    Diff {
        /// The tag of the old release, such as v1.36.3
        old: String,
        /// The tag of the new release
        new: String,
        /// Print one line for each controller and library instead of the changes
        #[arg(long)]
        summary: bool,
        /// Compare only this controller or library, named as its folder
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
    },
}

/// Runs a task. It downloads Go modules that are missing in the module cache.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let manifests = Manifest::read_all(&workspace().join("guests"))?;
    match &arguments.task {
        Task::Check => {
            let problems = check::problems(&manifests, Release::open)?;
            ensure!(problems.is_empty(), "{}", problems.join("\n"));
            println!("{} manifests name what exists", manifests.len());
        }
        Task::Diff {
            old,
            new,
            summary,
            only,
        } => {
            let (old, new) = (Release::open(old)?, Release::open(new)?);
            let selected = selected(manifests, only.as_deref())?;
            let compared = selected
                .iter()
                .map(|manifest| diff::Comparison::new(manifest, &old, &new))
                .collect::<Result<Vec<_>>>()?;
            let text = match summary {
                true => diff::table(&compared),
                false => compared.iter().map(ToString::to_string).collect(),
            };
            print(&text)?;
        }
    }
    Ok(())
}

/// Prints a text that may be long. A reader such as `head` may close the pipe early.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("can't write to the standard output")
        }
        _ => Ok(()),
    }
}

/// The manifest with this name; all if none is named.
fn selected(mut manifests: Vec<Manifest>, only: Option<&str>) -> Result<Vec<Manifest>> {
    if let Some(name) = only {
        manifests.retain(|manifest| manifest.name == name);
        ensure!(
            !manifests.is_empty(),
            "no controller or library named `{name}` has a manifest with a section `upstream`"
        );
    }
    Ok(manifests)
}
