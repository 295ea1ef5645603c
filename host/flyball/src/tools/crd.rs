//! `flyball crd`: prints the CustomResourceDefinitions of a project.

use std::path::Path;

use flyball_author::Project;
use serde_json::json;

use super::{Manifests, output};

/// Prints the definitions of the project in `dir`.
pub(super) fn run(dir: &Path, format: Manifests) -> anyhow::Result<String> {
    let definitions = Project::open(dir)?.definitions()?;
    match format {
        Manifests::Yaml => output::yaml(&definitions),
        Manifests::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions});
            Ok(output::pretty_json(&list))
        }
    }
}
