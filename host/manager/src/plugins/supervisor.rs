//! Keeps the right plugins running: what the folders hold, the policy grants and the operator asked for is looked at as a
//! whole, and what runs is brought in line with it. A version takes over only once it is ready; until then, and if it never
//! is, the one before goes on. What there is comes from `sources.rs`, what of it should run is decided in `wanted.rs`, and
//! `operator.rs` tells of it.

mod operator;
mod sources;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flyball_serving::health::Note;
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError};
use flyball_types::error_chain;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::api::cluster::Cluster;
use crate::plugins::files::{Folders, Stamp};
use crate::plugins::load::{self, LoadedPlugin, PluginError};
use crate::plugins::open::{self, OpenError, Opened, Version};
use crate::plugins::packages::{self, Package};
use crate::plugins::requests::Request;
use crate::plugins::rollback::Versions;
use crate::plugins::start::{RunningVersion, Starter};
use crate::plugins::status::PluginState;
use crate::plugins::{PluginOptions, Sources, Telemetry};
use crate::policy::grant::{Asks, Grants};

/// How long to wait before what held a version up is looked at again.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// How often the server is asked whether accounts may still read what their plugins watch.
const REVIEW: Duration = Duration::from_secs(60);
/// Files that are loaded at once: compiling uses all cores by itself.
const LOADED_AT_ONCE: usize = 2;

/// Keeps the right plugins running.
pub(crate) struct Supervisor {
    cluster: Arc<Cluster>,
    starter: Starter,
    options: Arc<PluginOptions>,
    telemetry: Telemetry,
    sources: Sources,
    grants: Grants,
    /// Why the policy that lies there is not in force.
    policy_problem: Option<String>,
    folders: Folders,
    policies: Folders,
    builtins: Vec<LoadedPlugin>,
    files: BTreeMap<PathBuf, File>,
    /// Versions that the operator went back to, by digest.
    kept: BTreeMap<String, Kept>,
    slots: BTreeMap<String, Slot>,
    told: BTreeMap<String, Trouble>,
    versions: Versions,
    loading: Arc<tokio::sync::Semaphore>,
    events: (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>),
    commands: mpsc::Receiver<Request>,
    /// Plugins that are ending, by name: they come back only when they have.
    ending: JoinSet<String>,
    ending_names: BTreeSet<String>,
    /// Versions that another took over from.
    retiring: JoinSet<()>,
    loads: CounterVec,
    problems: GaugeVec,
}

/// The supervisor can't be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SupervisorError {
    #[error("can't declare the metrics of plugins")]
    Metrics(#[from] MetricsError),
    #[error("can't keep versions of plugins in {}", .folder.display())]
    State {
        folder: PathBuf,
        source: std::io::Error,
    },
}

/// A file of a folder, or a package.
#[derive(Default)]
struct File {
    /// None for a package: its address names its content.
    stamp: Option<Stamp>,
    package: Option<Package>,
    task: Option<AbortOnDropHandle<()>>,
    /// The newest content of it that is a plugin.
    described: Option<LoadedPlugin>,
    /// Why its content is none, if that is newer.
    problem: Option<String>,
    /// Why the plugin does not run.
    refusal: Option<Refused>,
}

/// Why a plugin does not run.
#[derive(Clone)]
struct Refused {
    reason: String,
    state: PluginState,
}

/// A version that the operator went back to.
enum Kept {
    Loading,
    Loaded(LoadedPlugin),
    Lost,
}

/// What runs under one name, and what is to.
#[derive(Default)]
struct Slot {
    running: Option<RunningVersion>,
    next: Option<Next>,
}

/// Trouble that was told of a plugin.
struct Trouble {
    refused: Refused,
    _note: Note,
}

/// A version that is to run.
struct Next {
    version: Version,
    /// What holds it up.
    held_up: Arc<Mutex<Option<Refused>>>,
    _task: Option<AbortOnDropHandle<()>>,
}

/// What happens.
enum Event {
    /// A file was loaded, with this stamp; or a package, with none.
    Loaded(PathBuf, Option<Stamp>, Result<LoadedPlugin, PluginError>),
    /// A version that was kept was loaded.
    Kept(String, Result<LoadedPlugin, String>),
    /// A version can run.
    Opened(String, Box<Opened>),
    /// The account of a plugin may no longer read what it watches.
    Denied(String, String),
    /// What holds a version up is another thing than before.
    HeldUp,
}

impl Supervisor {
    /// Loads what there is now: the built-ins, and the files of the folders.
    pub(crate) async fn load(
        cluster: Arc<Cluster>,
        options: PluginOptions,
        telemetry: Telemetry,
        sources: Sources,
        builtins: &[load::BuiltIn],
    ) -> Result<(Self, mpsc::Sender<Request>), SupervisorError> {
        let options = Arc::new(options);
        let starter = Starter::new(cluster.clone(), options.clone(), telemetry.clone())?;
        let engine = &options.engine;
        let config = |name: &str| sources.grants.config.get(name).cloned().unwrap_or_default();
        let loaded = builtins
            .iter()
            .map(|builtin| load::builtin(engine, builtin, config(builtin.name)));
        let mut described = Vec::new();
        for loaded in futures::future::join_all(loaded).await {
            match loaded {
                Ok(builtin) => described.push(builtin),
                Err(error) => tracing::error!("{}; the others run", error_chain(&error)),
            }
        }
        let versions = Versions::open(sources.state.clone());
        let versions = versions.map_err(|source| SupervisorError::State {
            folder: sources.state.clone().unwrap_or_default(),
            source,
        })?;
        let loads = telemetry.metrics.counter(
            "flyball_plugin_loads_total",
            "Files of plugins that were loaded, by result: ok, or failed.",
            &["result"],
        )?;
        let problems = telemetry.metrics.gauge(
            "flyball_plugin_held_up",
            "1 for a plugin of which a version can't run: it waits for a grant, or can't be loaded.",
            &["plugin"],
        )?;
        let (sender, commands) = mpsc::channel(16);
        let mut supervisor = Self {
            folders: Folders::new(sources.folders.clone(), "wasm"),
            policies: Folders::new(sources.policy.iter().cloned().collect(), "toml"),
            grants: sources.grants.clone(),
            cluster,
            starter,
            options,
            telemetry,
            sources,
            policy_problem: None,
            builtins: described,
            files: BTreeMap::new(),
            kept: BTreeMap::new(),
            slots: BTreeMap::new(),
            told: BTreeMap::new(),
            versions,
            loading: Arc::new(tokio::sync::Semaphore::new(LOADED_AT_ONCE)),
            events: mpsc::unbounded_channel(),
            commands,
            ending: JoinSet::new(),
            ending_names: BTreeSet::new(),
            retiring: JoinSet::new(),
            loads,
            problems,
        };
        supervisor.policies.look();
        let look = supervisor.folders.look();
        supervisor.found(look);
        while supervisor.files.values().any(|file| file.task.is_some()) {
            if let Some(event) = supervisor.events.1.recv().await {
                supervisor.happened(event);
            }
        }
        supervisor.versions.tidy(&supervisor.digests());
        Ok((supervisor, sender))
    }

    /// The names of the plugins that there are, whether they may run or not.
    pub(crate) fn names(&self) -> Vec<String> {
        self.builtins
            .iter()
            .chain(self.in_files())
            .map(|described| described.name().to_owned())
            .collect()
    }

    /// The names of the plugins that come from files and packages.
    pub(crate) fn dropped_in(&self) -> Vec<String> {
        let files = self.in_files().map(|described| described.name().to_owned());
        files
            .chain(
                packages::named(&self.grants.plugins)
                    .into_values()
                    .map(|package| package.plugin),
            )
            .collect()
    }

    /// What the files and packages hold.
    fn in_files(&self) -> impl Iterator<Item = &LoadedPlugin> {
        self.files
            .values()
            .filter_map(|file| file.described.as_ref())
    }

    /// What runs under a name.
    fn running(&self, name: &str) -> Option<&RunningVersion> {
        self.slots.get(name)?.running.as_ref()
    }

    /// What runs under a name, unless it is a built-in.
    fn running_dropped_in(&self, name: &str) -> Option<&RunningVersion> {
        self.running(name)
            .filter(|running| !running.version.grant.is_builtin)
    }

    /// All that runs, by name.
    fn all_running(&self) -> impl Iterator<Item = (&String, &RunningVersion)> {
        self.slots
            .iter()
            .filter_map(|(name, slot)| Some((name, slot.running.as_ref()?)))
    }

    /// Runs until `shutdown`, then lets all end.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            () = self.start_together() => {}
            () = shutdown.cancelled() => return,
        }
        let mut led = self.cluster.leading.subscribe();
        let mut leads = *led.borrow();
        let mut reviews = tokio::time::interval_at(tokio::time::Instant::now() + REVIEW, REVIEW);
        reviews.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // An error would mean that there is nobody left to say so.
                Ok(_) = led.wait_for(|leading| *leading), if !leads => {
                    leads = true;
                    self.all_running().for_each(|(_, running)| running.show_leading(true));
                }
                () = self.folders.changed() => {
                    let look = self.folders.look();
                    self.found(look);
                    self.plan();
                }
                () = self.policies.changed() => {
                    self.read_policy();
                    self.plan();
                }
                Some(event) = self.events.1.recv() => {
                    self.happened(event);
                    while let Ok(event) = self.events.1.try_recv() {
                        self.happened(event);
                    }
                    self.plan();
                }
                Some(command) = self.commands.recv() => self.obey(command),
                Some(ended) = self.ending.join_next() => {
                    if let Ok(name) = ended {
                        self.ending_names.remove(&name);
                    }
                    self.plan();
                }
                Some(_) = self.retiring.join_next() => {}
                _ = reviews.tick() => self.review(),
                () = shutdown.cancelled() => break,
            }
        }
        for slot in self.slots.values_mut() {
            slot.next = None;
        }
        let names: Vec<String> = self.slots.keys().cloned().collect();
        names.iter().for_each(|name| self.end(name));
        while self.ending.join_next().await.is_some() {}
        self.retiring.shutdown().await;
        self.cluster.factory.shutdown().await;
    }

    /// Opens what can be opened at once together, so that the masks are united before the first list.
    async fn start_together(&mut self) {
        self.pull();
        let mut opened = Vec::new();
        for (name, version) in self.wanted() {
            match open::open(&self.cluster, &self.options.engine, version).await {
                Ok(version) => opened.push((name, version)),
                Err((version, error)) => self.wait_for(name, version, Some(error)),
            }
        }
        self.cluster.factory.start();
        for (name, opened) in opened {
            self.switch(&name, opened);
        }
        self.tell();
    }

    /// Brings what runs in line with what there is.
    fn plan(&mut self) {
        self.pull();
        let wanted = self.wanted();
        let gone: Vec<String> = self
            .slots
            .keys()
            .filter(|name| !wanted.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            self.end(&name);
        }
        for (name, version) in wanted {
            if self.ending_names.contains(&name) {
                continue;
            }
            let slot = self.slots.entry(name.clone()).or_default();
            if slot
                .running
                .as_ref()
                .is_some_and(|running| running.version.is_same(&version))
            {
                slot.next = None;
            } else if slot
                .next
                .as_ref()
                .is_none_or(|next| !next.version.is_same(&version))
            {
                self.wait_for(name, version, None);
            }
        }
        self.tell();
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Loaded(path, stamp, loaded) => {
                let Some(file) = self.files.get_mut(&path).filter(|file| file.stamp == stamp)
                else {
                    return;
                };
                // A package is tried again where that may help.
                if loaded.is_ok() || file.package.is_none() {
                    file.task = None;
                }
                self.loads
                    .with_label_values(&[if loaded.is_ok() { "ok" } else { "failed" }])
                    .inc();
                match loaded {
                    Ok(described) => {
                        let (name, digest) = (described.name(), described.component.digest());
                        tracing::info!(plugin = name, version = described.description.version, digest, path = %path.display(), "loaded");
                        (file.described, file.problem) = (Some(described), None);
                    }
                    Err(error) => {
                        let error = error_chain(&error);
                        let goes_on = if file.described.is_some() {
                            "; the version before goes on"
                        } else {
                            ""
                        };
                        tracing::error!("{error}{goes_on}");
                        file.problem = Some(error);
                    }
                }
            }
            Event::Kept(digest, Ok(described)) => {
                drop(self.kept.insert(digest, Kept::Loaded(described)))
            }
            Event::Kept(digest, Err(error)) => {
                tracing::error!(
                    digest,
                    error,
                    "the version that was gone back to can't be loaded: that of the file runs"
                );
                self.kept.insert(digest, Kept::Lost);
            }
            Event::Opened(name, opened) => {
                let slot = self.slots.get_mut(&name);
                let is_next = |next: &Next| next.version.is_same(&opened.version);
                if slot.is_some_and(|slot| slot.next.as_ref().is_some_and(is_next)) {
                    self.switch(&name, *opened);
                }
            }
            // It comes back when it may: as soon as it has ended, it is opened anew, and waits.
            Event::Denied(name, reason) => {
                if self.running(&name).is_some() {
                    tracing::warn!(plugin = name, reason, "stops");
                    self.end(&name);
                }
            }
            Event::HeldUp => {}
        }
    }

    /// Makes a version ready in the background. What holds it up is looked at again until it is gone.
    fn wait_for(&mut self, name: String, version: Version, error: Option<OpenError>) {
        let held_up = Arc::new(Mutex::new(error.as_ref().map(Refused::from)));
        let is_hopeless = matches!(error, Some(OpenError::Unfit(_)));
        let (cluster, engine) = (self.cluster.clone(), self.options.engine.clone());
        let (events, shown) = (self.events.0.clone(), held_up.clone());
        let (mut next, own, mut wait) = (version.clone(), name.clone(), error.is_some());
        let task = tokio::spawn(async move {
            if is_hopeless {
                return;
            }
            let opened = loop {
                if std::mem::replace(&mut wait, true) {
                    tokio::time::sleep(TRY_AGAIN).await;
                }
                match open::open(&cluster, &engine, next).await {
                    Ok(opened) => break opened,
                    Err((version, error)) => {
                        let refused = Refused::from(&error);
                        let before = shown.lock().replace(refused.clone());
                        if before.is_none_or(|before| before.topic() != refused.topic()) {
                            let _ = events.send(Event::HeldUp);
                        }
                        if matches!(error, OpenError::Unfit(_)) {
                            return;
                        }
                        next = version;
                    }
                }
            };
            cluster.factory.start();
            if shown.lock().take().is_some() {
                let _ = events.send(Event::HeldUp);
            }
            opened.synced().await;
            let _ = events.send(Event::Opened(own, Box::new(opened)));
        });
        let next = Next {
            version,
            held_up,
            _task: Some(AbortOnDropHandle::new(task)),
        };
        self.slots.entry(name).or_default().next = Some(next);
    }

    /// Lets a version that is ready take over.
    fn switch(&mut self, name: &str, opened: Opened) {
        let slot = self.slots.entry(name.to_owned()).or_default();
        let version = opened.version.clone();
        let running = match self.starter.start(opened, slot.running.as_ref()) {
            Ok(running) => running,
            Err(error) => {
                let reason = format!("can't be started: {}", error_chain(&error));
                let held_up = Arc::new(Mutex::new(Some(Refused {
                    reason,
                    state: PluginState::Failed,
                })));
                slot.next = Some(Next {
                    version,
                    held_up,
                    _task: None,
                });
                return;
            }
        };
        let Version {
            plugin: described,
            grant: granted,
            file,
        } = version;
        let (version, digest) = (
            described.description.version.clone(),
            described.component.digest().to_owned(),
        );
        let (concurrency, memory_limit) = (
            granted.concurrency,
            running.controller.plugin().limits().memory,
        );
        slot.next = None;
        match slot.running.replace(running) {
            Some(old) => {
                tracing::info!(
                    controller = name,
                    version,
                    digest,
                    concurrency,
                    memory_limit,
                    "takes over"
                );
                let (routed, drain) = (
                    slot.running.as_ref().map(|new| new.controller.unrouted()),
                    self.options.drain,
                );
                old.controller.hand_over();
                if let Some(routed) = routed {
                    self.retiring.spawn(old.controller.retire(routed, drain));
                }
            }
            None => tracing::info!(
                controller = name,
                version,
                digest,
                concurrency,
                memory_limit,
                "starting"
            ),
        }
        if !granted.is_builtin {
            if granted.account.is_none() {
                tracing::warn!(
                    plugin = name,
                    "--trust-plugins: granted everything that the plugin asks for, with the host's own rights: {}",
                    Asks::of(&described.description)
                );
            }
            let asks = Asks::of(&described.description);
            let left_out = asks.beyond(&granted.policy);
            if !left_out.is_empty() {
                tracing::warn!(
                    plugin = name,
                    "its policy leaves out some of what it asks for, which it is denied: {left_out}"
                );
            }
            self.versions.runs(name, &digest, &file, asks);
            self.versions.tidy(&self.digests());
        }
    }

    /// Lets a plugin end. The rest of its name is forgotten.
    fn end(&mut self, name: &str) {
        let Some(slot) = self.slots.remove(name) else {
            return;
        };
        let _ = self.problems.remove_label_values(&[name]);
        if let Some(running) = slot.running {
            tracing::info!(controller = name, "ending");
            let (name, drain) = (name.to_owned(), self.options.drain);
            self.ending_names.insert(name.clone());
            self.ending.spawn(async move {
                running.show_leading(false);
                running.controller.drain(drain).await;
                name
            });
        }
    }

    /// Asks whether the accounts of dropped-in plugins may still read what they watch.
    fn review(&mut self) {
        for (name, running) in self
            .all_running()
            .filter(|(_, running)| !running.version.grant.is_builtin)
        {
            let (cluster, events) = (self.cluster.clone(), self.events.0.clone());
            let (name, version) = (name.clone(), running.version.clone());
            tokio::spawn(async move {
                if let Err(OpenError::MayNotRead(reason)) = open::may_read(&cluster, &version).await
                {
                    let _ = events.send(Event::Denied(name, reason));
                }
            });
        }
    }
}

impl Version {
    /// Whether nothing changes if one takes the place of the other.
    fn is_same(&self, other: &Self) -> bool {
        self.plugin.component.digest() == other.plugin.component.digest()
            && self.grant == other.grant
            && self.file == other.file
    }
}

impl Refused {
    /// What it is about: the causes of what passes by itself change from try to try, and need no new line in the log.
    fn topic(&self) -> &str {
        match (self.state, self.reason.split_once(": ")) {
            (PluginState::Starting, Some((topic, _))) => topic,
            _ => &self.reason,
        }
    }
}

impl From<&OpenError> for Refused {
    fn from(error: &OpenError) -> Self {
        let state = match error {
            OpenError::MayNotRead(_) => PluginState::Pending,
            OpenError::Unfit(_) => PluginState::Failed,
            OpenError::NotServed(_) | OpenError::Unreachable(..) => PluginState::Starting,
        };
        Self {
            reason: error_chain(error),
            state,
        }
    }
}
