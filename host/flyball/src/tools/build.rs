//! `flyball build`: builds a project into a component, and checks the component as the host would. Progress is shown on
//! standard error.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use flyball_author::{Language, Project};
use flyball_policy::Policy;
use flyball_types::printable;

use super::load::load;
use super::output::brief;

/// Build a plugin's project into a WebAssembly component
///
/// Runs the ordinary tools of the project's language, turns the result into a component, and checks it as the host would
/// when it loads it: it is compiled to machine code, and describes itself. What the tools keep in the project's folder
/// makes the next build quicker; a component that has not changed is not compiled again. Names the missing tools with
/// how to get them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project's folder
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Output file; by default `NAME.wasm` in the project's folder
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The rustup toolchain to build a project in Rust with; by default `FLYBALL_RUST_TOOLCHAIN` or else the active one
    #[arg(long, value_name = "NAME")]
    toolchain: Option<String>,
    /// Don't check the component: the host does when it loads it
    #[arg(long)]
    no_check: bool,
    /// Don't show progress
    #[arg(short, long)]
    quiet: bool,
    /// Show progress and no result, as a part of `flyball dev`
    #[arg(long, hide = true, conflicts_with = "quiet")]
    progress_only: bool,
}

/// Says on standard error what begins.
pub(super) fn progress(text: &str) {
    // A closed pipe is not an error.
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

/// Says that a project is built.
pub(super) fn begins(project: &Project) -> String {
    format!("building {} ({})", project.name, project.language.name())
}

/// Says that a component of this size, built in this time, is checked. That takes long if it was never compiled before.
pub(super) fn checks(size: usize, built: Duration) -> String {
    let megabytes = size as f64 / 1e6;
    format!(
        "built {megabytes:.1} MB in {}; checking it as a host would: compiling it to machine code",
        brief(built)
    )
}

/// Builds a project.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<String> {
    let Arguments {
        dir,
        output,
        toolchain,
        no_check,
        quiet,
        progress_only,
    } = arguments;
    let mut project = Project::open(&dir)?;
    ensure!(
        toolchain.is_none() || project.language == Language::Rust,
        "--toolchain names a toolchain of rustup, and {} is not written in Rust: leave it out",
        dir.display()
    );
    project.toolchain = toolchain;
    let progress = |text: &str| {
        if !quiet {
            progress(text);
        }
    };
    let start = Instant::now();
    progress(&begins(&project));
    let component = project.build(&project.work())?;
    let output = output.unwrap_or_else(|| dir.join(format!("{}.wasm", project.name)));
    std::fs::write(&output, &component)
        .with_context(|| format!("can't write {}", output.display()))?;
    let (path, size) = (output.display(), component.len());
    if no_check {
        let took = brief(start.elapsed());
        return Ok(format!(
            "built {path}, {size} bytes, in {took}; `flyball validate` checks it\n"
        ));
    }
    progress(&checks(size, start.elapsed()));
    let description = load(&output, &Policy::default()).await?.description;
    if progress_only {
        return Ok(String::new());
    }
    Ok(format!(
        "built {} {}: {path}, {size} bytes, in {}\n",
        description.name,
        description.version,
        brief(start.elapsed())
    ))
}
