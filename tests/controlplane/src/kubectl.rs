//! The stock kubectl, for tests that run what a page tells its reader to type.

use std::path::PathBuf;

use crate::go_binary::GoBinary;

static BINARY: GoBinary = GoBinary {
    folder: "kubectl",
    below: "",
    name: "kubectl",
    of: "kubectl",
    package: ".",
    tags: "",
    folders: &[],
    needs_newer_go: false,
    link: |_| Ok("-s -w".to_owned()),
};

/// Returns the path of kubectl. It is built if it is missing or its sources have changed, which needs Go and takes
/// minutes.
pub async fn kubectl() -> anyhow::Result<PathBuf> {
    BINARY.built().await
}
