//! Builds, tests, demonstrates and measures Flyball: `cargo xtask COMMAND`.

#[cfg(test)]
mod architecture;
mod dist;
mod docs;
mod failures;
mod fuzz;
mod packages;
mod release;
mod test;
mod upstream;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Parser;
use xtask::run::{command, exit_code, run, workspace};
use xtask::{build, guests};

/// Builds, tests, demonstrates and measures Flyball.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
enum Command {
    /// Build the guests and the host, with the built-in controllers embedded
    Build {
        /// Build a host that serves heap profiles at /debug/pprof/heap. It takes more memory
        #[arg(long)]
        heap_profiles: bool,
    },
    /// Build the site from docs/ into target/book, with mdBook
    Docs {
        /// Write the texts of the files that the pages name into the pages, and build nothing
        #[arg(long)]
        write: bool,
    },
    /// Build the host as it is installed, optimised across crates, and write it to target/dist, with its symbols beside
    /// it
    Release,
    Dist(dist::Arguments),
    Packages(packages::Arguments),
    Test(test::Arguments),
    /// Show a small cluster whose only controller manager is Flyball
    #[command(disable_help_flag = true)]
    Demo(Passed),
    /// Play scenarios under Flyball, and compare the results with those of the stock kube-controller-manager
    #[command(disable_help_flag = true)]
    Differential(Passed),
    /// Measure Flyball and the stock kube-controller-manager
    #[command(disable_help_flag = true)]
    Bench(Passed),
    Fuzz(fuzz::Arguments),
    Guests(guests::Arguments),
    Upstream(upstream::Arguments),
}

/// Arguments for another program.
#[derive(clap::Args)]
struct Passed {
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    arguments: Vec<OsString>,
}

/// Builds a program that the other tasks need not wait for, and continues as it.
fn continue_as(program: &str, passed: &Passed) -> Result<()> {
    run(command("cargo").args(["build", "--workspace", "--bin", program]))?;
    let path = workspace().join("target/debug").join(program);
    let error = command(&path).args(&passed.arguments).exec();
    Err(anyhow!("can't run {}: {error}", path.display()))
}

fn main() -> ExitCode {
    exit_code(match Command::parse() {
        Command::Build { heap_profiles } => {
            let profile = match heap_profiles {
                true => build::Profile::HeapProfiles,
                false => build::Profile::Dev,
            };
            build::all_guests_too(profile).map(|built| println!("{}", built.host.display()))
        }
        Command::Docs { write: true } => docs::write(),
        Command::Docs { write: false } => {
            docs::build().map(|folder| println!("{}", folder.display()))
        }
        Command::Release => release::build().map(|binary| println!("{}", binary.display())),
        Command::Dist(arguments) => dist::write(&arguments),
        Command::Packages(arguments) => packages::write(&arguments),
        Command::Test(arguments) => test::run_all(&arguments),
        Command::Demo(arguments) => continue_as("flyball-demo", &arguments),
        Command::Differential(arguments) => continue_as("differential", &arguments),
        Command::Bench(arguments) => continue_as("flyball-bench", &arguments),
        Command::Fuzz(arguments) => fuzz::feed(&arguments),
        Command::Guests(arguments) => guests::build(&arguments.languages),
        Command::Upstream(arguments) => upstream::run(&arguments),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use xtask::run::output;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Command::command().debug_assert();
    }

    /// The first build of Flyball waits until the dependencies of xtask are compiled.
    #[test]
    fn xtask_builds_on_neither_the_engine_nor_the_differential_suite() {
        let tree = output(command("cargo").args([
            "tree",
            "--locked",
            "--package=xtask",
            "--edges=normal,build",
            "--prefix=none",
        ]));
        let tree = tree.expect("`cargo tree` succeeds");
        let is_built = |name: &str| {
            tree.lines()
                .any(|line| line.split(' ').next() == Some(name))
        };
        assert!(is_built("xtask") && is_built("flyball-author"), "{tree}");
        for name in ["wasmtime", "flyball-differential", "flyball-cluster-tests"] {
            assert!(!is_built(name), "{name}");
        }
    }

    #[test]
    fn options_of_benchmarks_are_passed_on() {
        let Command::Bench(passed) = Command::parse_from(["xtask", "bench", "--help", "--quick"])
        else {
            panic!("another command");
        };
        assert_eq!(passed.arguments, ["--help", "--quick"]);
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
