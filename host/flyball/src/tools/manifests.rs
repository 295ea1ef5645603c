//! Reads Kubernetes objects from files.

use std::path::Path;

use anyhow::Context;
use flyball_testserver::manifests::parse;
use serde_json::Value;

/// Reads the objects of a file: documents in YAML or JSON, and the items of lists.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    parse(&text).with_context(|| format!("{} is not YAML", file.display()))
}
