//! `cargo xtask`: builds xtask with the features of the whole workspace, as the host and the tests
//! are built, and runs it. Built with its own features alone, most of its dependencies would be
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
    // It takes this process's place, unless it can't be run.
    let error = Command::new(&xtask)
        .args(std::env::args_os().skip(1))
        .exec();
    eprintln!("error: can't run {}: {error}", xtask.display());
    ExitCode::FAILURE
}
