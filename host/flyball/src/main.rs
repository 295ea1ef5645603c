//! The flyball binary: it reads the command line (`cli.rs`) into plain settings (`config.rs`), and starts the parts in
//! their order (`startup.rs`). The commands that need no cluster are in `tools.rs`, those that ask a running host in `admin.rs`.

mod admin;
mod builtins;
mod cli;
mod cluster;
mod config;
mod flag;
mod kcm;
mod logging;
mod manager;
mod selection;
mod startup;
mod tools;

use std::process::ExitCode;

use crate::cli::Action;
use crate::config::RunConfig;

fn main() -> ExitCode {
    let matches =
        match cli::parse(std::env::args_os().map(|arg| arg.to_string_lossy().into_owned())) {
            Ok(Action::Run(matches)) => matches,
            Ok(Action::Tool(tool)) => return use_tool(*tool),
            Ok(Action::Ask(ask)) => return end(admin::run(*ask)),
            Ok(Action::Print(text)) => {
                print(&mut std::io::stdout(), &text);
                return ExitCode::SUCCESS;
            }
            Err(text) => {
                print(&mut std::io::stderr(), &text);
                return ExitCode::FAILURE;
            }
        };
    end(RunConfig::read(&matches)
        .map_err(anyhow::Error::from)
        .and_then(run))
}

fn end(ended: anyhow::Result<()>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(
                &mut std::io::stderr(),
                &format!("flyball: {}\n", sentence(&error)),
            );
            ExitCode::FAILURE
        }
    }
}

/// How many tasks a thread does between two looks at connections and timers. The usual 61 would be too many where some of
/// them are guests' calls, of milliseconds each, and another thread need not be there to look.
const TASKS_BETWEEN_LOOKS: u32 = 4;

/// Runs the host on half of the cores: most of its tasks take some microseconds, which is less than it costs to wake another
/// thread for them. What computes for long has threads of its own.
fn run(config: RunConfig) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores / 2).max(1))
        .event_interval(TASKS_BETWEEN_LOOKS)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(startup::run(config));
    // What a blocking thread still does, such as compiling a plugin, is not waited for.
    runtime.shutdown_background();
    ended
}

fn use_tool(tool: tools::Tool) -> ExitCode {
    let done = tools::run(tool, cli::command()).unwrap_or_else(|error| tools::Done {
        out: String::new(),
        err: format!("flyball: {}\n", sentence(&error)),
        code: ExitCode::FAILURE,
    });
    print(&mut std::io::stdout(), &done.out);
    print(&mut std::io::stderr(), &done.err);
    done.code
}

/// The error and its causes on one line; a cause that was told already is left out.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        let cause = cause
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .trim_end_matches('.');
        if text.is_empty() {
            text.push_str(cause);
        } else if !text.contains(cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Writes the text; a reader that has gone away is no error.
fn print(to: &mut impl std::io::Write, text: &str) {
    let _ = to.write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("no such file\nat line 1")
            .context("can't read a: no such file")
            .context("can't start");
        assert_eq!(sentence(&error), "can't start: can't read a: no such file");
    }
}
