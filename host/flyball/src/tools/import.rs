//! `flyball import`: makes a plugin of a Go project that is written for controller-runtime, builds it, and drafts its
//! policy.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use flyball_author::{Import, Imported, Project};
use flyball_policy::Policy;
use flyball_types::description::Description;
use flyball_types::{error_chain, printable};

use super::output::{Done, brief};
use super::{build, grant, load};

const POLICY: &str = "policy.toml";

/// Make a plugin of a Go project that is written for controller-runtime, such as kubebuilder's
///
/// Finds the reconcilers that the project's main function sets up, and writes a module for the plugin in a new folder:
/// its main function, the role that it asks for, and a copy of the SDK. Then it builds the plugin and drafts a policy.
/// The project's own files stay as they are. Says which parts of the project a plugin can't have.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project's folder
    #[arg(default_value = ".")]
    project: PathBuf,
    /// The plugin's name; by default the last part of the project's module
    #[arg(long)]
    name: Option<String>,
    /// Folder to create; by default `plugin` in the project's folder
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only write the module: build nothing, and draft no policy
    #[arg(long)]
    no_build: bool,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<Done> {
    let import = Import {
        project: arguments.project,
        name: arguments.name,
        dir: arguments.dir,
    };
    let imported = import.run()?;
    if arguments.no_build {
        return Ok((said(&imported, &[]) + &next(&imported)).into());
    }
    match built(&imported).await {
        Ok(built) => Ok((said(&imported, &built.notes) + &next_of_built(&imported, &built)).into()),
        // What was written is useful all the same: the author may correct it.
        Err(error) => Ok(Done {
            out: said(&imported, &[]),
            err: format!(
                "{}: the module is written; correct it and run `flyball build {}`\n",
                printable(&error_chain(error.as_ref())),
                imported.dir.display()
            ),
            code: ExitCode::FAILURE,
        }),
    }
}

/// A plugin that was built, whose policy is drafted.
struct Built {
    /// The size of the component in bytes.
    size: usize,
    took: Duration,
    /// Remarks about its description.
    notes: Vec<String>,
}

/// Builds the plugin and drafts its policy. Shows progress.
async fn built(imported: &Imported) -> anyhow::Result<Built> {
    let project = Project::open(&imported.dir)?;
    let start = Instant::now();
    build::progress(&build::begins(&project));
    let component = project.build(&project.work())?;
    let size = component.len();
    let file = imported.dir.join(format!("{}.wasm", project.name));
    std::fs::write(&file, component).with_context(|| format!("can't write {}", file.display()))?;
    build::progress(&build::checks(size, start.elapsed()));
    let description = load::load(&file, &Policy::default()).await?.description;
    let policy = imported.dir.join(POLICY);
    std::fs::write(&policy, grant::policy(&description))
        .with_context(|| format!("can't write {}", policy.display()))?;
    Ok(Built {
        size,
        took: start.elapsed(),
        notes: uncached(&description),
    })
}

/// Returns a remark about each kind that the plugin may get or list and does not watch.
fn uncached(description: &Description) -> Vec<String> {
    let is_watched = |kind: &str| {
        let mut kinds = description
            .watches
            .iter()
            .filter_map(|watch| watch.kind.as_ref());
        kinds.any(|watched| watched.to_string() == kind)
    };
    let reads = description.permissions.iter().filter(|permission| {
        let is_read = permission
            .verbs
            .iter()
            .any(|verb| verb == "get" || verb == "list");
        is_read && permission.subresource.is_empty() && !is_watched(&permission.kind.to_string())
    });
    reads
        .map(|permission| {
            format!(
                "no controller watches {}, so that each read of it is a request; list it in Reads in main.go to \
                 read it from the host's cache",
                permission.kind
            )
        })
        .collect()
}

/// Describes what was written, and what the plugin lacks.
fn said(imported: &Imported, notes: &[String]) -> String {
    let report = &imported.report;
    let mut text = format!(
        "wrote the plugin {} into {}: {}\n",
        imported.name,
        imported.dir.display(),
        report.wrote.join(", ")
    );
    let mut list = |title: &str, items: &mut dyn Iterator<Item = &String>| {
        for (number, item) in items.enumerate() {
            if number == 0 {
                let _ = writeln!(text, "\n{title}:");
            }
            let _ = writeln!(text, "  {}", printable(item));
        }
    };
    list("it sets up", &mut report.controllers.iter());
    list("left out", &mut report.left.iter());
    list("notes", &mut report.notes.iter().chain(notes));
    text
}

/// The next steps if nothing was built.
fn next(imported: &Imported) -> String {
    let name = &imported.name;
    format!(
        "\n  cd {dir}\n  flyball build                    # builds {name}.wasm\n  \
         flyball policy {name}.wasm >{POLICY}\n{}",
        steps(name),
        dir = imported.dir.display()
    )
}

/// What was built, and the next steps.
fn next_of_built(imported: &Imported, built: &Built) -> String {
    let name = &imported.name;
    format!(
        "\nbuilt {name}.wasm, {} bytes, in {}, and drafted {POLICY}\n\n  cd {dir}\n{}",
        built.size,
        brief(built.took),
        steps(name),
        dir = imported.dir.display()
    )
}

/// The steps that follow a build.
fn steps(name: &str) -> String {
    format!(
        "  flyball inspect {name}.wasm\n  \
         flyball rbac {name}.wasm --policy {POLICY} | kubectl apply -f -\n"
    )
}
