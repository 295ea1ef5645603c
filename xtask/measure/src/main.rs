//! `cargo xtask bench` and `cargo xtask differential`: a program of its own, so that the other tasks don't wait until
//! the differential suite is compiled.

mod bench;
mod differential;

use std::process::ExitCode;

use clap::Parser;
use xtask::run::exit_code;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
enum Command {
    Differential(differential::Arguments),
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    exit_code(match Command::parse() {
        Command::Differential(arguments) => differential::run(&arguments),
        Command::Bench(arguments) => bench::measure(&arguments),
    })
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
