//! Commands that run in the workspace.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The variables that cargo sets for a program that it runs, by prefix and by name.
const PREFIXES: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_ENCODED_"];
const NAMES: [&str; 5] = [
    "CARGO",
    "RUSTC",
    "RUSTDOC",
    "RUSTUP_TOOLCHAIN",
    "CARGO_TARGET_DIR",
];

/// A command in the workspace, without the variables that cargo set for this program. They would
/// mislead another toolchain, and would make cargo rerun build scripts that read them.
pub fn command(program: impl AsRef<OsStr>, workspace: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace);
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if NAMES.contains(&&*name) || PREFIXES.iter().any(|start| name.starts_with(start)) {
            command.env_remove(variable);
        }
    }
    command
}
