//! `flyball build`: builds a project into a component, and validates the component as the host would.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use flyball_author::{Language, Project};
use flyball_policy::Policy;

use super::load::load;

/// Builds the project in `dir`.
pub(super) async fn run(
    dir: &Path,
    output: Option<PathBuf>,
    toolchain: Option<String>,
) -> anyhow::Result<String> {
    let mut project = Project::open(dir)?;
    ensure!(
        toolchain.is_none() || project.language == Language::Rust,
        "--toolchain names a toolchain of rustup, and {} is not written in Rust: leave it out",
        dir.display()
    );
    project.toolchain = toolchain;
    let component = project.build(&project.work())?;
    let output = output.unwrap_or_else(|| dir.join(format!("{}.wasm", project.name)));
    std::fs::write(&output, &component)
        .with_context(|| format!("can't write {}", output.display()))?;
    let description = load(&output, &Policy::default()).await?.description;
    Ok(format!(
        "built {} {}: {}, {} bytes\n",
        description.name,
        description.version,
        output.display(),
        component.len()
    ))
}
