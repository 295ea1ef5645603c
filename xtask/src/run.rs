//! Runs commands, and reports how a task ended.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").is_file())
        .expect("xtask is in a folder of the workspace")
        .to_owned()
}

/// Prints a heading for the following step.
pub fn say(what: &str) {
    eprintln!("\x1b[1m==> {what}\x1b[0m");
}

/// Prints the error of a task, if it failed. Returns the exit code of the process.
pub fn exit_code(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The variables that cargo sets for a program that it runs, by prefix and by name.
const PREFIXES: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_ENCODED_"];
const NAMES: [&str; 5] = [
    "CARGO",
    "RUSTC",
    "RUSTDOC",
    "RUSTUP_TOOLCHAIN",
    "CARGO_TARGET_DIR",
];

/// A command in the workspace, without the variables that cargo sets for xtask. They would mislead another toolchain,
/// and would make cargo rerun build scripts that read them.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace());
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if NAMES.contains(&&*name) || PREFIXES.iter().any(|start| name.starts_with(start)) {
            command.env_remove(variable);
        }
    }
    command
}

/// Runs a command with its output shown. Fails if the command does.
pub fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("can't start `{name}`"))?;
    if !status.success() {
        bail!("`{name}` failed: {status}");
    }
    Ok(())
}

/// Runs a command whose standard output is shown and read line by line. Fails if the command does.
pub fn run_and_read(mut command: Command, mut read: impl FnMut(&str) + Send) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (output, input) = std::io::pipe().context("can't create a pipe")?;
    command.stdout(input);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || -> std::io::Result<()> {
            for line in BufReader::new(output).split(b'\n') {
                let line = line?;
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                read(&line);
            }
            Ok(())
        });
        let ran = run(&mut command);
        // Closes this side of the pipe, which ends the reader.
        drop(command);
        reader
            .join()
            .expect("the reader does not panic")
            .with_context(|| format!("can't read the output of `{name}`"))?;
        ran
    })
}

/// The standard output of a command; `None` if it can't be started or fails.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether `built` exists and is not older than any of `sources`, which are files or whole folders.
pub fn is_fresh(built: &Path, sources: &[&Path]) -> bool {
    let modified = |path: &Path| {
        path.metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    modified(built).is_some_and(|built| {
        sources
            .iter()
            .all(|source| newest(source).is_some_and(|source| source <= built))
    })
}

/// The newest modification time of a file, or of a folder and all files in it.
fn newest(path: &Path) -> Option<std::time::SystemTime> {
    let own = path
        .metadata()
        .and_then(|metadata| metadata.modified())
        .ok()?;
    let below = path
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| newest(&entry.path()));
    Some(below.fold(own, std::time::SystemTime::max))
}
