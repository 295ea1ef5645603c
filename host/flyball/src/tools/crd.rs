//! `flyball crd`: prints the CustomResourceDefinitions of a project, and writes the file that is generated so that they
//! and the types in its code stay the same.

use std::path::PathBuf;

use anyhow::ensure;
use flyball_author::Project;

use super::output::Manifests;

/// Print the CustomResourceDefinitions of a project, for `kubectl apply -f -`
///
/// In Rust (`examples/crd.rs`) and Go (controller-gen's markers), types describe them. In other projects, they are those in
/// `crd.yaml`. With --write, also keeps both equal: writes `crd.yaml` from types in Rust and Go, and types from `crd.yaml` in
/// TypeScript (`src/api.ts`), JavaScript (`src/api.d.ts`) and Python (`api.py`).
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project's folder
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Manifests,
    /// Write the generated file of the project, and print its path instead
    #[arg(long, conflicts_with = "output")]
    write: bool,
    /// Exit with 1 if the generated file of the project is not what --write would write
    #[arg(long, conflicts_with_all = ["output", "write"])]
    check: bool,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let project = Project::open(&arguments.dir)?;
    if !arguments.write && !arguments.check {
        return arguments.output.print("", &project.definitions()?);
    }
    let generated = project.generated()?;
    let path = generated.path.display();
    if arguments.check {
        ensure!(
            generated.is_current,
            "{path} is not what the project's {} describe: run `flyball crd --write`",
            match path.to_string().ends_with(".yaml") {
                true => "types",
                false => "CustomResourceDefinitions",
            }
        );
    }
    generated.write()?;
    Ok(match generated.is_current {
        true => format!("{path} is up to date\n"),
        false => format!("wrote {path}\n"),
    })
}
