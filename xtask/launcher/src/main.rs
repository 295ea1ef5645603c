//! `cargo xtask`: builds xtask with the features of the whole workspace, and runs it. The host and
//! the tests are built with the same features. With other features, most dependencies would be
//! compiled twice.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut build = xtask_launcher::command("cargo", &workspace);
    build.args(["build", "--release", "--workspace", "--bin", "xtask"]);
    match build.status() {
        Ok(status) if status.success() => {}
        Ok(_) => return ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: can't run cargo: {error}");
            return ExitCode::FAILURE;
        }
    }
    let xtask = workspace.join("target/release/xtask");
    // `exec` returns only if it fails.
    let error = Command::new(&xtask)
        .args(std::env::args_os().skip(1))
        .exec();
    eprintln!("error: can't run {}: {error}", xtask.display());
    ExitCode::FAILURE
}
