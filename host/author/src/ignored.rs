//! Files and folders inside projects and SDKs that are not part of the source. The build script reads this file too.

/// Build outputs and caches of the languages' tools: names of files and folders.
const OUTPUTS: [&str; 6] = [
    "target",
    "build",
    "bindings",
    "dist",
    "node_modules",
    "__pycache__",
];
/// The prefix of files that the build copies into the SDK for Go.
const COPIED: &str = "zz_upstream_";

/// Whether a file or folder of this name is an output of a build, and not a source.
pub(crate) fn is_ignored(name: &str) -> bool {
    OUTPUTS.contains(&name) || name.starts_with(COPIED)
}
