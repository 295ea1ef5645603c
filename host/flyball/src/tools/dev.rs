//! `flyball dev`: builds a project whenever a source is saved, and runs the newest build in a host of its own, until
//! Ctrl-C.
//!
//! The build and the host are child processes of this binary (`children.rs`). `dev/cluster.rs` finds or starts the API
//! server, `dev/objects.rs` creates what the plugin needs there, and `dev/console.rs` turns the host's log into what is
//! shown.

mod cluster;
mod console;
mod controllers;
mod objects;
mod saves;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use flyball_author::{Project, SourceFiles};
use flyball_policy::Policy;
use flyball_types::error_chain;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use self::cluster::Cluster;
use self::console::{Console, Since, say};
use self::objects::Objects;
use self::saves::{Saved, Saves};
use super::children::{Build, Host, HostFiles, admin_socket, plugins, this_binary};
use super::host_log;
use super::load::load;
use super::output::brief;
use super::settings::SettingFlags;
use crate::admin;

/// The policy in a project's folder.
const POLICY: &str = "policy.toml";

/// Build a project whenever a source is saved, and run it
///
/// Shows the log, the reconciles, and the time from saving a file to the first reconcile by the new code. A build that
/// fails leaves the version before running. Applies the project's crd.yaml and, under a policy, the service account and
/// the roles of the plugin. Without --kubeconfig, a control plane runs on this machine meanwhile, with the built-in
/// controllers that authors rely on. `flyball status`, `why` and the other commands find its host.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project's folder
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Kubeconfig of the cluster; by default a control plane is started
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; by default the current one
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// Folder with etcd and kube-apiserver, for the control plane; by default the one in KUBEBUILDER_ASSETS, or those
    /// of PATH
    #[arg(long, value_name = "FOLDER", conflicts_with = "kubeconfig")]
    control_plane: Option<PathBuf>,
    /// Built-in controllers to run, as for `flyball run`; by default those that authors rely on, such as the garbage
    /// collector, and with --kubeconfig none
    #[arg(long, value_name = "LIST")]
    controllers: Option<String>,
    /// Policy of the plugin; by default policy.toml in the project's folder and, if there is none, all that the plugin
    /// asks for is granted, with the rights of the kubeconfig
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags,
    /// File with further objects to apply, in YAML; may be repeated
    #[arg(long, value_name = "FILE")]
    apply: Vec<PathBuf>,
    /// The rustup toolchain to build a project in Rust with; by default `FLYBALL_RUST_TOOLCHAIN` or else the active one
    #[arg(long, value_name = "NAME")]
    toolchain: Option<String>,
}

/// Runs until a signal asks to end, or until the host ends. Nothing is left running.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let project = Project::open(&arguments.dir)?;
    project.check_tools()?;
    let mut signals = Signals::listen()?;
    let mut session = Session::new(project, arguments)?;
    let ended = tokio::select! {
        ended = session.run() => ended,
        () = signals.received() => Ok(()),
    };
    let stopped = session.stop().await;
    ended.and(stopped)
}

/// The signals that ask to end: Ctrl-C, a stop, and the end of the terminal.
struct Signals([Signal; 3]);

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("can't listen to signals");
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    async fn received(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

struct Session {
    project: Project,
    arguments: Arguments,
    policy: Option<PathBuf>,
    console: Arc<Mutex<Console>>,
    /// SHA-256 of the component that the host was given last.
    given: Option<String>,
    // Fields are dropped in this order: each before the fields that it uses.
    host: Option<Host>,
    cluster: Option<Cluster>,
    folder: TempDir,
    /// The admin socket of the host.
    socket: PathBuf,
}

impl Session {
    fn new(project: Project, arguments: Arguments) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("flyball-dev-").tempdir();
        let folder = folder.context("can't create a temporary folder")?;
        // Beside the sockets of other hosts, where the commands for a running host look.
        let socket = admin::socket_of(std::process::id());
        Ok(Self {
            policy: arguments.policy.clone().or_else(|| of_project(&project)),
            project,
            arguments,
            console: Arc::default(),
            given: None,
            host: None,
            cluster: None,
            socket: socket.unwrap_or_else(|| admin_socket(folder.path())),
            folder,
        })
    }

    async fn run(&mut self) -> anyhow::Result<()> {
        let (began, is_local) = (Instant::now(), self.arguments.kubeconfig.is_none());
        // A source that is saved from here on is built.
        let (sender, saves) = mpsc::channel(1);
        let sources = SourceFiles::follow(&self.project, move |at| {
            // If a save is already waiting, its time is kept: the time of the first save.
            let _ = sender.try_send(at);
        })?;
        let mut saves = Saves::new(saves, sources);
        let cluster = match self.arguments.kubeconfig.clone() {
            Some(kubeconfig) => Cluster::given(kubeconfig, self.arguments.context.clone()),
            None => {
                let binaries = self.arguments.control_plane.as_deref();
                Cluster::start(binaries, &self.project.dir).await?
            }
        };
        let reached = began.elapsed();
        let cluster = self.cluster.insert(cluster);
        let mut objects = Objects::new(
            cluster.client().await?,
            cluster.flags(),
            &self.project,
            &self.arguments.apply,
        );
        std::fs::create_dir(plugins(self.folder.path()))
            .context("can't create a folder for the plugin")?;
        say(&controllers::sentence(&self.controllers()));
        say(&format!("admin socket: {}", self.socket.display()));
        *self.console.lock() = Console::hiding(controllers::hidden(&self.controllers()));
        if self.policy.is_none() {
            say("no policy: the plugin is granted what its description asks for");
        }
        // A host refuses settings of a plugin that it does not have: it starts with the first build then.
        if self.arguments.settings.is_empty() {
            self.start_host().await?;
        }
        let mut since = Since::start(began, is_local.then_some(reached));
        loop {
            self.build(&mut objects, &mut saves, since).await?;
            loop {
                let saved = tokio::select! {
                    saved = saves.next() => saved?,
                    status = ended(self.host.as_mut()) => {
                        let status = status.context("can't wait for the host")?;
                        bail!("the host has ended ({status}): its last lines, above, say why")
                    }
                };
                self.adopt_policy().await?;
                since = Since::save(saved.at);
                if self.given.is_none() || saved.is_of_component(&self.project.dir) {
                    break;
                }
                self.apply_only(&mut objects, &saved).await;
            }
        }
    }

    /// Runs the host under the project's policy from now on, if there is one that was created meanwhile. The host follows
    /// its later changes by itself.
    async fn adopt_policy(&mut self) -> anyhow::Result<()> {
        let created = of_project(&self.project);
        let (None, Some(policy)) = (&self.policy, created) else {
            return Ok(());
        };
        if let Err(error) = Policy::read(&policy) {
            say(&error_chain(&error));
            return Ok(());
        }
        say(&format!(
            "{POLICY} is new: the host starts again, and runs the plugin under it"
        ));
        self.policy = Some(policy);
        if let Some(host) = self.host.take() {
            host.stop().await;
            self.start_host().await?;
        }
        Ok(())
    }

    /// Applies the objects of the project after a save that changes nothing in the component.
    async fn apply_only(&self, objects: &mut Objects, saved: &Saved) {
        say(&format!("{}: nothing to build", saved.names()));
        let given = self.plugin();
        if let Err(error) = objects.apply(&given, self.policy.as_deref()).await {
            say(&format!("{error:#}"));
        }
    }

    async fn start_host(&mut self) -> anyhow::Result<()> {
        let (mut host, console) = (self.host_command()?, self.console.clone());
        if !self.arguments.settings.is_empty() {
            let plugin = load(&self.plugin(), &Policy::default()).await?;
            host.args(self.arguments.settings.for_host(&plugin.description.name));
        }
        self.host = Some(Host::start(host, move |line| console.lock().show(line))?);
        Ok(())
    }

    /// The file of the component that the host was given.
    fn plugin(&self) -> PathBuf {
        plugins(self.folder.path()).join(format!("{}.wasm", self.project.name))
    }

    /// Builds the project, and gives the component to the host.
    async fn build(
        &mut self,
        objects: &mut Objects,
        saves: &mut Saves,
        since: Since,
    ) -> anyhow::Result<()> {
        let built = self.folder.path().join("built.wasm");
        let mut build = Build::start(self.build_command(&built)?)?;
        let ended = loop {
            tokio::select! {
                ended = build.ended() => break ended.context("can't wait for the build")?,
                // The build goes on: of authors who save more often than a build takes, none would ever end.
                saved = saves.during_build() => say(&format!(
                    "{} saved meanwhile: taken up when this build ends", saved?
                )),
            }
        };
        if !ended.success() {
            let left = match self.given {
                Some(_) => "the version before goes on",
                None => "nothing runs yet",
            };
            say(&format!(
                "the build failed: {left}; correct the errors above and save"
            ));
            return Ok(());
        }
        let at = Instant::now();
        if let Err(error) = objects.apply(&built, self.policy.as_deref()).await {
            say(&format!("{error:#}"));
        }
        let component = std::fs::read(&built);
        let component = component.with_context(|| format!("can't read {}", built.display()))?;
        let digest = format!("{:x}", Sha256::digest(&component));
        if self.given.as_ref() == Some(&digest) {
            say(&format!(
                "{} -> built {}: the component is the same as before",
                since.event,
                brief(at - since.build)
            ));
            return Ok(());
        }
        self.console.lock().await_version(since, at, &digest);
        let plugin = self.plugin();
        std::fs::rename(&built, &plugin)
            .with_context(|| format!("can't replace {}", plugin.display()))?;
        self.given = Some(digest);
        if self.host.is_none() {
            self.start_host().await?;
        }
        Ok(())
    }

    fn build_command(&self, output: &Path) -> anyhow::Result<Command> {
        let mut command = this_binary()?;
        command
            .arg("build")
            .arg("--progress-only")
            .arg(&self.project.dir);
        command.arg("--output").arg(output);
        if let Some(toolchain) = &self.arguments.toolchain {
            command.arg("--toolchain").arg(toolchain);
        }
        Ok(command)
    }

    fn host_command(&self) -> anyhow::Result<Command> {
        let cluster = self.cluster.as_ref().expect("it was opened");
        let mut command = self.files(cluster).command()?;
        command.env("RUST_LOG", host_log::FILTER);
        if let Some(context) = &self.arguments.context {
            command.arg(format!("--context={context}"));
        }
        Ok(command)
    }

    fn files<'a>(&'a self, cluster: &'a Cluster) -> HostFiles<'a> {
        HostFiles {
            kubeconfig: cluster.kubeconfig(),
            policy: self.policy.as_deref(),
            folder: self.folder.path(),
            admin_socket: self.socket.clone(),
            controllers: self.controllers(),
        }
    }

    /// The value of the host's `--controllers`.
    fn controllers(&self) -> String {
        let is_local = self.arguments.kubeconfig.is_none();
        controllers::chosen(self.arguments.controllers.as_deref(), is_local)
    }

    /// Stops the host, and then the control plane.
    async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(host) = self.host.take() {
            host.stop().await;
        }
        match self.cluster.take() {
            Some(cluster) => cluster.close().await,
            None => Ok(()),
        }
    }
}

/// Waits until the host ends. Without one, waits forever.
async fn ended(host: Option<&mut Host>) -> io::Result<ExitStatus> {
    match host {
        Some(host) => host.ended().await,
        None => std::future::pending().await,
    }
}

/// The policy in a project's folder.
fn of_project(project: &Project) -> Option<PathBuf> {
    Some(project.dir.join(POLICY)).filter(|path| path.is_file())
}
