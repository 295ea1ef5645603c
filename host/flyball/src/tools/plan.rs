//! `flyball plan`: shows what a plugin or built-in controllers would do to a cluster, without a write to it.
//!
//! The plan's API server (`flyball_plan`) runs in this process, over the cluster or over objects of files, and the host in a
//! child process of this binary, as under `flyball test`. `inputs.rs` reads what the arguments name, `settle.rs` waits until
//! nothing is left to do, or a limit is reached, and `report.rs` writes the result.

mod inputs;
mod report;
mod settle;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use flyball_plan::{Options, Pods, Server};
use flyball_types::{error_chain, printable};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::LocalSet;

use self::inputs::Inputs;
use self::report::Report;
use self::settle::Settle;
use super::children::{self, Host, HostFiles};
use super::observed::{self, Observed};
use super::output::Done;
use crate::admin::RunningHost;
use crate::output::Format;

/// The exit code of a plan that was not made, or is not complete.
pub(crate) const NOT_COMPLETE: u8 = 2;

/// Show what a plugin or built-in controllers would do to a cluster, without a write to it
///
/// Runs them in a host of its own over the cluster that kubectl uses, or over objects of files. Their reads go to the cluster
/// with your rights; their writes stay in memory, where each of them sees the others'. Prints the differences as `kubectl
/// diff` does, and a summary. Exits with 0 if nothing would change, with 1 if something would, and with 2 if the plan could
/// not be made or is not complete: a limit was reached, or a reconcile still fails at the end.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The plugin: a WebAssembly component; without one, built-in controllers run alone
    #[arg(required_unless_present = "controllers")]
    file: Option<PathBuf>,
    /// Built-in controllers to run, as for `flyball run`; by default those that act on what a plugin writes, such as the
    /// garbage collector and the controllers of workloads
    #[arg(long, value_name = "LIST")]
    controllers: Option<String>,
    /// Policy of the plugin: a TOML file or a folder of them; by default all that the plugin asks for is granted
    #[arg(long, value_name = "PATH")]
    policy: Option<PathBuf>,
    /// Kubeconfig of the cluster; by default the one that kubectl uses
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; by default the current one
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// File or folder with objects in YAML or JSON, instead of a cluster; may be repeated
    #[arg(long, value_name = "PATH")]
    from: Vec<PathBuf>,
    /// The only namespace that is read and written; by default all
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// File with objects that are applied before the controllers start, in YAML; may be repeated
    #[arg(long, value_name = "FILE")]
    change: Vec<PathBuf>,
    /// File with objects that are deleted before the controllers start, in YAML; may be repeated
    #[arg(long, value_name = "FILE")]
    delete: Vec<PathBuf>,
    /// What becomes of pods that are created or deleted
    #[arg(long, value_enum, default_value_t)]
    pods: PodsFlag,
    /// Don't have the cluster default and check writes in dry runs
    #[arg(long)]
    no_dry_run: bool,
    /// Show differences of statuses, too
    #[arg(long)]
    show_status: bool,
    /// Seconds within which nothing may be left to do
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    within: u32,
    /// Seconds that a requeue or a retry is waited for; what is due later is listed
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    wait: u32,
    /// The most writes; a plan that needs more is not complete
    #[arg(long, value_name = "NUMBER", default_value_t = 2000)]
    max_writes: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What becomes of pods that a plan creates or deletes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum PodsFlag {
    /// Created pods run and are ready at once, those of Jobs succeed, and deleted ones end
    #[default]
    Run,
    /// Created pods stay pending, and deleted ones terminating
    Stay,
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            namespace: self.namespace.clone(),
            max_writes: self.max_writes,
            pods: match self.pods {
                PodsFlag::Run => Pods::Run,
                PodsFlag::Stay => Pods::Stay,
            },
        }
    }
}

/// Makes the plan.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<Done> {
    // The server stays on one thread.
    let made = LocalSet::new().run_until(plan(&arguments)).await;
    // Scripts distinguish an error from a difference by the code.
    Ok(made.unwrap_or_else(|error| Done {
        out: String::new(),
        err: format!("flyball: {}\n", printable(&error_chain(error.as_ref()))),
        code: ExitCode::from(NOT_COMPLETE),
    }))
}

async fn plan(arguments: &Arguments) -> anyhow::Result<Done> {
    let mut inputs = Inputs::read(arguments).await?;
    let base = inputs.base(arguments).await?;
    let server = Server::start(base, arguments.options()).await;
    let server = server.context("can't start the plan's API server")?;
    inputs.prepare(&server).await?;

    let folder = tempfile::Builder::new().prefix("flyball-plan-").tempdir();
    let folder = folder.context("can't create a temporary folder")?;
    let kubeconfig = folder.path().join("kubeconfig");
    let plugins = children::plugins(folder.path());
    let write = || {
        // Only this user may enter the folder, and only the token's holder may ask the server.
        std::fs::write(
            &kubeconfig,
            children::kubeconfig(&server.url(), &json!({"token": server.token()})),
        )?;
        std::fs::create_dir(&plugins)?;
        let Some((name, inspection)) = &inputs.plugin else {
            return Ok(());
        };
        std::fs::write(plugins.join(name), &inspection.wasm)
    };
    write().with_context(|| format!("can't write to {}", folder.path().display()))?;
    let files = HostFiles {
        kubeconfig: &kubeconfig,
        policy: arguments.policy.as_deref(),
        folder: folder.path(),
        admin_socket: children::admin_socket(folder.path()),
        controllers: inputs.controllers.clone(),
    };
    let mut command = files.command()?;
    // Nobody else has to share the server.
    command.args(["--kube-api-qps=10000", "--kube-api-burst=10000"]);
    command.env("RUST_LOG", format!("{FILTER},{}=debug", observed::DENIALS));
    let observed = Arc::new(Mutex::new(Observed::default()));
    let log = Arc::clone(&observed);
    let mut host = Host::start(command, move |line| log.lock().add(line))?;
    let settle = Settle {
        server: &server,
        admin: RunningHost::at(children::admin_socket(folder.path())),
        expected: inputs.expected(),
        within: Duration::from_secs(arguments.within.into()),
        wait: Duration::from_secs(arguments.wait.into()),
        observed: &observed,
    };
    let ended = settle.until_settled(&mut host).await;
    host.stop().await;
    let (ended, observed) = (ended?, observed.lock());
    let report = Report {
        outcome: server.outcome(),
        ended,
        observed: &observed,
        arguments,
    };
    report.done()
}

/// The lines that the host logs, as a value of `RUST_LOG`: each reconcile, and what goes wrong.
const FILTER: &str = "warn,flyball=warn,flyball::reconcile=debug,flyball::guest=off,flyball::warning=off,kube_client::client::tls::rustls_tls=error";
