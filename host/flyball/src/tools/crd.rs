//! `flyball crd`: prints the CustomResourceDefinitions of a project.

use std::path::Path;

use flyball_author::Project;

use super::output::Manifests;

/// Prints the definitions of the project in `dir`.
pub(super) fn run(dir: &Path, format: Manifests) -> anyhow::Result<String> {
    format.print("", &Project::open(dir)?.definitions()?)
}
