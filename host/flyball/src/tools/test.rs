//! `flyball test`: runs a built plugin against an API server in memory, and checks what it leaves there.
//!
//! The server (`flyball_testserver::api`) runs in this process, and the host in a child process of this binary, as
//! under `flyball dev`. `kinds.rs` finds the kinds to serve, `watch.rs` waits until nothing changes any more,
//! `../observed.rs` reads the host's log, `expect.rs` compares the objects with the expected ones, and `report.rs` writes
//! the result.

mod expect;
pub(super) mod kinds;
mod report;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use flyball_manager::Inspection;
use flyball_policy::Policy;
use flyball_testserver::api::ApiServer;
use flyball_testserver::manifests::is_definition;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use self::expect::Expectation;
use self::report::Report;
use self::watch::Watch;
use super::children::{self, Host, HostFiles};
use super::observed::{self, Observed};
use super::output::Done;
use super::settings::SettingFlags;
use super::{host_log, load, manifests};
use crate::admin::RunningHost;

/// Run a built plugin against an API server in memory, and check what it leaves there
///
/// Starts the server and a host, creates the objects, and waits until nothing changes any more. Prints the reconciles
/// that failed, the plugin's writes, events and log, and without expectations the objects that it wrote. Exits with 1 if
/// an expectation does not hold, if a reconcile still fails at the end, if a request is denied, or if the plugin does not
/// settle.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The plugin: a WebAssembly component
    file: PathBuf,
    /// Policy of the plugin: a TOML file or a folder of them; by default all that the plugin asks for is granted
    #[arg(long, value_name = "PATH")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags,
    /// File with objects that exist before the plugin starts, in YAML; may be repeated
    ///
    /// Include the CustomResourceDefinitions: objects are checked by their schemas, and fields that a schema lacks are
    /// dropped, as by the API server.
    #[arg(long, value_name = "FILE")]
    objects: Vec<PathBuf>,
    /// File with objects that must exist at the end, in YAML, with at least these fields; may be repeated
    ///
    /// One without a name may be any object of its kind and namespace. A null field must be absent.
    #[arg(long, value_name = "FILE")]
    expect: Vec<PathBuf>,
    /// File with objects that must not exist at the end, in YAML; may be repeated
    #[arg(long, value_name = "FILE")]
    expect_absent: Vec<PathBuf>,
    /// Seconds within which the plugin must settle
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    within: u32,
}

/// The files and objects that the arguments name, read and checked before anything starts.
struct Inputs {
    policy: Policy,
    inspection: Inspection,
    /// Each object with its file.
    objects: Vec<(PathBuf, Value)>,
    expectations: Vec<Expectation>,
}

impl Inputs {
    async fn read(arguments: &Arguments) -> anyhow::Result<Self> {
        let policy = load::policy(arguments.policy.as_deref())?;
        let mut inspection = load::load(&arguments.file, &policy).await?;
        if !arguments.settings.is_empty() {
            let mut with_settings = policy.clone();
            let settings = &arguments.settings;
            settings.add_to(&mut with_settings, &inspection.description);
            inspection = load::load(&arguments.file, &with_settings).await?;
        }
        if !inspection.mistakes.is_empty() {
            bail!(
                "{}: {}",
                arguments.file.display(),
                inspection.mistakes.join("; ")
            );
        }
        let mut objects = Vec::new();
        for file in &arguments.objects {
            let read = manifests::read(file)?;
            objects.extend(read.into_iter().map(|object| (file.clone(), object)));
        }
        let mut expectations = Vec::new();
        for file in &arguments.expect {
            expectations.extend(Expectation::read(file, false)?);
        }
        for file in &arguments.expect_absent {
            expectations.extend(Expectation::read(file, true)?);
        }
        Ok(Self {
            policy,
            inspection,
            objects,
            expectations,
        })
    }

    /// Starts a server with the objects.
    async fn server(&self) -> anyhow::Result<ApiServer> {
        let given = self.objects.iter().map(|(_, object)| object);
        let expected = self.expectations.iter().map(Expectation::object);
        let kinds = kinds::served(given.chain(expected), &self.inspection.description);
        let server = ApiServer::start(kinds).await;
        let server = server.context("can't start an API server on this machine")?;
        let name = &self.inspection.description.name;
        let policy = self.policy.plugins.get(name);
        let account = policy.and_then(|policy| policy.service_account.as_deref());
        if let Some((namespace, name)) = account.and_then(|account| account.split_once('/')) {
            let metadata = json!({"namespace": namespace, "name": name});
            let account =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
            server.put(account).map_err(anyhow::Error::msg)?;
        }
        // Definitions first: they apply to the objects that follow.
        let is_definition = |(_, object): &&(_, Value)| is_definition(object);
        let (definitions, others) = (self.objects.iter()).partition::<Vec<_>, _>(is_definition);
        for (file, object) in definitions.into_iter().chain(others) {
            let put = server.put(object.clone()).map_err(anyhow::Error::msg);
            put.with_context(|| format!("can't create an object of {}", file.display()))?;
        }
        let checked = server.check_fields(&self.inspection.description);
        checked.map_err(anyhow::Error::msg)?;
        Ok(server)
    }
}

/// Runs the test.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<Done> {
    let inputs = Inputs::read(&arguments).await?;
    // The cluster in memory stays on one thread.
    let test = test(&arguments, &inputs);
    LocalSet::new().run_until(test).await
}

async fn test(arguments: &Arguments, inputs: &Inputs) -> anyhow::Result<Done> {
    let server = inputs.server().await?;
    let before = kinds::objects(&server);
    let folder = tempfile::Builder::new().prefix("flyball-test-").tempdir();
    let folder = folder.context("can't create a temporary folder")?;
    let kubeconfig = folder.path().join("kubeconfig");
    let plugins = children::plugins(folder.path());
    let write = || {
        std::fs::write(&kubeconfig, children::kubeconfig(&server.url(), &json!({})))?;
        std::fs::create_dir(&plugins)?;
        // Under its own name, which a policy may require.
        let name = arguments.file.file_name().unwrap_or_default();
        std::fs::write(plugins.join(name), &inputs.inspection.wasm)
    };
    write().with_context(|| format!("can't write to {}", folder.path().display()))?;
    let files = HostFiles {
        kubeconfig: &kubeconfig,
        policy: arguments.policy.as_deref(),
        folder: folder.path(),
        admin_socket: children::admin_socket(folder.path()),
        controllers: String::new(),
    };
    let mut command = files.command()?;
    let name = &inputs.inspection.description.name;
    command.args(arguments.settings.for_host(name));
    let filter = format!("{},{}=debug", host_log::FILTER, observed::DENIALS);
    command.env("RUST_LOG", filter);
    let observed = Arc::new(Mutex::new(Observed::default()));
    let log = Arc::clone(&observed);
    let mut host = Host::start(command, move |line| log.lock().add(line))?;
    let watch = Watch {
        server: &server,
        admin: RunningHost::at(children::admin_socket(folder.path())),
        plugin: &inputs.inspection.description.name,
        within: Duration::from_secs(arguments.within.into()),
        observed: &observed,
    };
    let ended = watch.until_settled(&mut host).await;
    host.stop().await;
    let (ended, observed) = (ended?, observed.lock());
    let report = Report {
        server: &server,
        before,
        observed: &observed,
        ended,
        within: arguments.within,
        expectations: &inputs.expectations,
    };
    report.done(&inputs.inspection.description)
}
