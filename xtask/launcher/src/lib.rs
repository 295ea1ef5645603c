//! Commands that run in the workspace.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// What cargo tells a program that it runs about that program.
const TOLD: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_ENCODED_"];
const CHOSEN: [&str; 5] = [
    "CARGO",
    "RUSTC",
    "RUSTDOC",
    "RUSTUP_TOOLCHAIN",
    "CARGO_TARGET_DIR",
];

/// A command in the workspace, without what cargo told this program about itself: another toolchain would be misled, and
/// build scripts that look at it would run again.
pub fn command(program: impl AsRef<OsStr>, workspace: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace);
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if CHOSEN.contains(&&*name) || TOLD.iter().any(|start| name.starts_with(start)) {
            command.env_remove(variable);
        }
    }
    command
}
