//! The flyball binary. It parses the command line (`cli.rs`) into a configuration (`config.rs`) and starts the parts in
//! order (`startup.rs`). `tools.rs` has the commands for authors and installers, `admin.rs` those for a running host.

mod admin;
mod builtins;
mod ccm;
mod cli;
mod cluster;
mod config;
mod controllers;
mod engine;
mod flags;
mod kcm;
mod logging;
mod memory;
mod output;
mod selection;
mod serving;
mod startup;
mod tools;
mod user_folders;

use std::process::ExitCode;

use flyball_types::{error_chain, printable};

use crate::cli::Action;
use crate::config::{ConfigError, RunConfig};

fn main() -> ExitCode {
    // The host compiles each plugin in a child process, which is this binary again.
    if let Some(code) = flyball_plugin::run_compiler(std::env::args_os()) {
        return code;
    }
    let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    let args: Vec<String> = args.collect();
    let usage_code = cli::usage_code(&args);
    match cli::parse(args) {
        Ok(Action::Run(matches)) => end(start(RunConfig::read(&matches))),
        Ok(Action::RunCloud(matches)) => end(start(RunConfig::read_cloud(&matches))),
        Ok(Action::Tool(tool)) => run_tool(*tool),
        Ok(Action::Admin(command)) => end(admin::run(*command)),
        Ok(Action::Print(text)) => {
            print(&mut std::io::stdout(), &text);
            ExitCode::SUCCESS
        }
        Err(text) => {
            print(&mut std::io::stderr(), &text);
            ExitCode::from(usage_code)
        }
    }
}

fn start(config: Result<RunConfig, ConfigError>) -> anyhow::Result<()> {
    run(config?)
}

fn end(ended: anyhow::Result<()>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(&mut std::io::stderr(), &error_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// Number of tasks that a thread runs between two polls of connections and timers. tokio's default of 61 is too many
/// here: some tasks are guest calls of several milliseconds, and no other thread may be idle.
const TASKS_BETWEEN_POLLS: u32 = 4;

/// Runs the host on half of the cores. Most tasks take a few microseconds, which is less than the cost of waking
/// another thread. Long computations have threads of their own.
fn run(config: RunConfig) -> anyhow::Result<()> {
    memory::fix_allocator();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores / 2).max(1))
        .event_interval(TASKS_BETWEEN_POLLS)
        .enable_all()
        .build()?;
    runtime.spawn(memory::give_back());
    let ended = runtime.block_on(startup::run(config));
    // Work on blocking threads, such as the compilation of a plugin, is abandoned.
    runtime.shutdown_background();
    ended
}

fn run_tool(tool: tools::Tool) -> ExitCode {
    let done = tools::run(tool, cli::command()).unwrap_or_else(|error| tools::Done {
        out: String::new(),
        err: error_line(&error),
        code: ExitCode::FAILURE,
    });
    print(&mut std::io::stdout(), &done.out);
    print(&mut std::io::stderr(), &done.err);
    done.code
}

/// Returns an error and its causes on one line. They may quote a plugin or the API server.
fn error_line(error: &anyhow::Error) -> String {
    format!("flyball: {}\n", printable(&error_chain(error.as_ref())))
}

/// Writes the text. A closed pipe is not an error.
fn print(to: &mut impl std::io::Write, text: &str) {
    let _ = to.write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_printed_on_one_line_with_each_cause_once() {
        let error = anyhow::anyhow!("no such file\nat line 1")
            .context("can't read a: no such file")
            .context("can't start");
        assert_eq!(
            error_line(&error),
            "flyball: can't start: can't read a: no such file\n"
        );
        let error = anyhow::anyhow!("no plugin `\u{1b}[2J`");
        assert_eq!(error_line(&error), "flyball: no plugin `\\u001b[2J`\n");
    }
}
