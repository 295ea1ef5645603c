//! Builds, tests, demonstrates and measures Flyball: `cargo xtask COMMAND`.

#[cfg(test)]
mod architecture;
mod bench;
mod build;
mod demo;
mod differential;
mod dist;
mod docs;
mod failures;
mod fuzz;
mod guests;
mod prerequisites;
mod release;
mod run;
mod test;
mod toolchain;

use std::process::ExitCode;

use clap::Parser;

/// Builds, tests, demonstrates and measures Flyball.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
enum Command {
    /// Build the guests and the host, with the built-in controllers embedded
    Build,
    /// Build the site from docs/ into target/book, with mdBook
    Docs,
    /// Build the host as it is installed, optimised across crates, and write it to target/dist, with its symbols beside it
    Release,
    Dist(dist::Arguments),
    Test(test::Arguments),
    Demo(demo::Arguments),
    Differential(differential::Arguments),
    Bench(bench::Arguments),
    Fuzz(fuzz::Arguments),
    Guests(guests::Arguments),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Build => {
            build::all(build::Profile::Release).map(|built| println!("{}", built.host.display()))
        }
        Command::Docs => docs::build().map(|folder| println!("{}", folder.display())),
        Command::Release => release::build().map(|binary| println!("{}", binary.display())),
        Command::Dist(arguments) => dist::write(&arguments),
        Command::Test(arguments) => test::run_all(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Differential(arguments) => differential::run(&arguments),
        Command::Bench(arguments) => bench::measure(&arguments),
        Command::Fuzz(arguments) => fuzz::feed(&arguments),
        Command::Guests(arguments) => guests::build(&arguments.languages),
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

    #[test]
    fn the_trailing_arguments_of_test_are_passed_to_cargo_unchanged() {
        let line = "xtask test --full --package a -- --nocapture";
        let Command::Test(arguments) = Command::parse_from(line.split(' ')) else {
            panic!("another command");
        };
        assert!(arguments.full);
        assert_eq!(arguments.cargo, ["--package", "a", "--", "--nocapture"]);
    }
}
