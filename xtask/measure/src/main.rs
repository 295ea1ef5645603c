//! `cargo xtask bench` and `cargo xtask differential`: a program of its own, so that the other tasks don't wait until the
//! differential suite is compiled.

mod bench;
mod differential;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
enum Command {
    Differential(differential::Arguments),
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Differential(arguments) => differential::run(&arguments),
        Command::Bench(arguments) => bench::measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Command::command().debug_assert();
    }
}
