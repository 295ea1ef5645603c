//! Keeps the wanted plugins running: collects the current and the wanted state, lets `plan.rs` compute the actions, and
//! carries them out. A new version takes over only when it is ready. Until then, the previous version keeps running.
//!
//! The parts of the supervisor each own one thing, and nothing in them blocks:
//!
//! - `feeds.rs`: the wanted state, from the plugin folders and the policy
//! - `loader.rs`: the sources that are being loaded
//! - `opener.rs`: the versions that are being opened or are ready
//! - `running.rs`: the versions that run, and the stopped ones whose calls have not ended
//! - `canaries.rs`: the candidates that take over keys
//! - `reports.rs`: metrics and health notes
//!
//! Background tasks (`tasks.rs`) send their results as [`Event`]s. `actions.rs` carries out planned actions, and
//! `operator.rs` handles the requests of operators.

mod actions;
pub(crate) mod canaries;
mod feeds;
mod loader;
mod opener;
mod operator;
mod reports;
mod running;
mod shadows;
mod tasks;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::cluster::Cluster;
use flyball_plugin::{Component, Engine};
use flyball_policy::Policy;
use flyball_serving::metrics::MetricsError;
use flyball_types::error_chain;
use futures::stream::{self, StreamExt};
use tokio::sync::watch::error::RecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use self::canaries::{CanaryRuns, CanaryStore, JUDGE};
use self::feeds::Feeds;
use self::loader::{Loaded, Loader};
use self::opener::{Opener, OpeningStep};
use self::operator::Rollback;
use self::reports::Reports;
use self::running::RunningPlugins;
use self::tasks::Ticket;
use crate::plugins::canary::{CanaryReports, InForce, LoadedCandidate};
use crate::plugins::files::Scan;
use crate::plugins::load::{self, BuiltIn};
use crate::plugins::load_turns::Step;
use crate::plugins::open::{OpenError, may_read};
use crate::plugins::plan::{self, Action, CurrentState, SourceKey, Trouble, Version};
use crate::plugins::requests::{Request, RequestError};
use crate::plugins::rollback::{Record, VersionFolder, VersionStore};
use crate::plugins::shadows::Shadows;
use crate::plugins::start::Starter;
use crate::plugins::{DropIns, PluginOptions, Telemetry};

/// The interval between reviews whether accounts may still read what their plugins watch.
const REVIEW: Duration = Duration::from_secs(60);
/// The longest time that the start waits for the files of plugins that the policy names. Files that are loaded by then
/// are opened together with the built-ins.
const FILES_AT_START: Duration = Duration::from_secs(5);
/// The most plans in a row. A few suffice; more would be a bug, which must not delay everything else.
const MOST_PLANS: usize = 100;
/// The number of built-in controllers that are loaded at once. Each takes some memory until it is loaded.
const LOADS_AT_ONCE: usize = 4;
/// The number of operators' requests that may wait.
const REQUESTS: usize = 16;

/// Keeps the wanted plugins running.
pub(crate) struct Supervisor {
    cluster: Arc<Cluster>,
    /// The current state, the first input of each plan.
    state: CurrentState,
    /// The wanted state, the other input.
    feeds: Feeds,
    /// The problems that the last plan found.
    troubles: BTreeMap<String, Trouble>,
    /// Compiled code, by digest.
    components: HashMap<String, Component>,
    /// The stored versions that ran, to which operators can roll back.
    versions: VersionStore,
    loader: Loader,
    opener: Opener,
    running: RunningPlugins,
    reports: Reports,
    shadows: Shadows,
    canaries: CanaryRuns,
    inbox: Inbox,
    /// Answers to operators that are sent when the next plan was carried out.
    answers: Vec<(Reply, Answer)>,
}

/// The events and requests that the supervisor has not handled yet.
struct Inbox {
    events: mpsc::UnboundedReceiver<Event>,
    requests: mpsc::Receiver<Request>,
    /// Sends events to the supervisor itself.
    sender: Events,
}

type Events = mpsc::UnboundedSender<Event>;
/// The answer to an operator is a sentence.
pub(crate) type Answer = Result<String, RequestError>;
pub(crate) type Reply = oneshot::Sender<Answer>;

/// The supervisor can't be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SupervisorError {
    #[error("can't declare the metrics of plugins")]
    Metrics(#[from] MetricsError),
    #[error("can't keep versions of plugins in {}", .folder.display())]
    Versions {
        folder: PathBuf,
        source: std::io::Error,
    },
}

/// A change of the wanted state, or the result of a background task.
enum Event {
    /// The files in the plugin folders changed.
    FilesChanged(Scan),
    /// The policy on disk changed, or can't be used.
    PolicyChanged(Result<Policy, String>),
    /// A source was loaded, or described itself again. `is_last` is false if it is tried again.
    Loaded {
        key: SourceKey,
        ticket: Ticket,
        loaded: Result<Box<Loaded>, String>,
        is_last: bool,
    },
    /// Loading a source has come to a further step.
    Loading {
        key: SourceKey,
        ticket: Ticket,
        step: Step,
    },
    /// Loading a file takes longer than other plugins wait for it.
    LoadsSlowly { key: SourceKey, ticket: Ticket },
    /// A version is a step further to being ready.
    Opening {
        plugin: String,
        ticket: Ticket,
        step: OpeningStep,
    },
    /// The candidate of a canary was loaded, or can't be used.
    CandidateLoaded {
        plugin: String,
        ticket: Ticket,
        loaded: Result<Box<LoadedCandidate>, String>,
    },
    /// The file of a candidate could not be put into the place of the plugin's.
    CandidateNotPlaced { plugin: String, problem: String },
    /// The account of a plugin may no longer read what this version watches.
    ReadDenied {
        plugin: String,
        version: Box<Version>,
        reason: String,
    },
    /// The version for a rollback was read, or can't be read.
    RollbackRead {
        rollback: Rollback,
        read: Result<(), String>,
        reply: Reply,
    },
    /// An operator's request was carried out. The answer is sent when all actions that follow from it were carried out.
    Answered { answer: Answer, reply: Reply },
}

impl Supervisor {
    /// Loads the built-ins and the files that are in the folders now. Returns the sender of operators' requests, too.
    pub(crate) async fn load(
        cluster: Arc<Cluster>,
        options: PluginOptions,
        telemetry: Telemetry,
        drop_ins: DropIns,
        builtins: &[BuiltIn],
        (canaries, store): (Arc<InForce>, CanaryStore),
    ) -> Result<(Self, mpsc::Sender<Request>), SupervisorError> {
        let (engine, options) = (options.engine.clone(), Arc::new(options));
        let folder = drop_ins.versions.clone();
        let reports = Reports::new(&telemetry)?;
        let canary_reports = CanaryReports::new(&telemetry)?;
        let starter = Starter::new(
            cluster.clone(),
            options.clone(),
            telemetry,
            canaries.clone(),
        )?;
        let (versions, record) =
            open_versions(folder.clone(), engine.max_component_bytes()).await?;
        if let (CanaryStore::Folder, Some(versions)) = (&store, versions.clone()) {
            read_canaries(versions, &canaries).await;
        }
        let (sender, events) = mpsc::unbounded_channel();
        let (requests_sender, requests) = mpsc::channel(REQUESTS);
        let mut supervisor = Self {
            state: CurrentState {
                record,
                ..CurrentState::default()
            },
            feeds: Feeds::start(drop_ins, &sender).await,
            troubles: BTreeMap::new(),
            components: HashMap::new(),
            versions: VersionStore::start(versions),
            loader: Loader::new(options.clone(), folder, sender.clone()),
            opener: Opener::new(cluster.clone(), options.clone(), sender.clone()),
            running: RunningPlugins::new(starter, options.drain),
            reports,
            shadows: Shadows::default(),
            canaries: CanaryRuns::new(canaries, store, canary_reports),
            inbox: Inbox {
                events,
                requests,
                sender,
            },
            answers: Vec::new(),
            cluster,
        };
        supervisor.load_builtins(&engine, builtins).await;
        supervisor.load_files().await;
        Ok((supervisor, requests_sender))
    }

    async fn load_builtins(&mut self, engine: &Engine, builtins: &[BuiltIn]) {
        let config = &self.feeds.grants().config;
        let config = |name| config.get(name).cloned().unwrap_or_default();
        let loads = builtins
            .iter()
            .map(|builtin| load::builtin(engine, builtin, config(builtin.name)));
        let loads: Vec<_> = loads.collect();
        let mut loads = stream::iter(loads).buffered(LOADS_AT_ONCE);
        while let Some(loaded) = loads.next().await {
            match loaded {
                Ok((plugin, component)) => {
                    self.components.insert(plugin.digest.clone(), component);
                    self.state.builtins.push(plugin);
                }
                Err(error) => tracing::error!("{}; the others run", error_chain(&error)),
            }
        }
    }

    /// Begins to load all files and packages, and waits a moment for the files of plugins that the policy names. Other
    /// files and slow registries must not delay the start.
    async fn load_files(&mut self) {
        let deadline = Instant::now() + FILES_AT_START;
        loop {
            for action in plan::sources(&self.state, &self.feeds.inputs()) {
                self.carry_out(action);
            }
            if !plan::lacks_expected(&self.state, self.feeds.grants()) {
                return;
            }
            match tokio::time::timeout_at(deadline, self.inbox.events.recv()).await {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => {}
                Err(_) => {
                    tracing::info!(
                        "some files of plugins are still being loaded: they start later"
                    );
                    return;
                }
            }
            self.handle_waiting_events();
        }
    }

    /// Whether each file that was found is loaded, or failed to load.
    pub(crate) fn has_loaded_files(&self) -> bool {
        !self.state.is_loading_files()
    }

    /// The names of all plugins, whether they may run or not.
    pub(crate) fn names(&self) -> Vec<String> {
        let all = self.state.builtins.iter().chain(self.state.plugins());
        all.map(|plugin| plugin.name().to_owned()).collect()
    }

    /// The names of the plugins that come from files and packages.
    pub(crate) fn dropped_in(&self) -> Vec<String> {
        self.state.dropped_in(self.feeds.grants())
    }

    /// Runs until `shutdown`, then drains all plugins.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            () = self.start_together() => self.follow(&shutdown).await,
            () = shutdown.cancelled() => {}
        }
        self.opener.abandon_all();
        self.running.shut_down().await;
        self.cluster.factory.shutdown().await;
        self.versions.close().await;
    }

    /// Opens all versions that can be opened together, so that their masks are merged before the first list. They start
    /// at once; their workers wait for the caches.
    async fn start_together(&mut self) {
        let plan = plan::plan(&self.state, &self.feeds.inputs());
        for action in plan.actions {
            match action {
                Action::Open(name, version) => self.open_now(name, version).await,
                action => self.carry_out(action),
            }
        }
        self.cluster.factory.start();
        self.plan();
    }

    /// Reconciles the running plugins with the wanted ones, until `shutdown`.
    async fn follow(&mut self, shutdown: &CancellationToken) {
        let mut leads = self.cluster.main.leading.subscribe();
        leads.mark_changed();
        let migrated = self.cluster.migrated.as_ref();
        let mut leads_migrated = migrated.map(|migrated| migrated.leadership.leading.subscribe());
        let mut reviews = tokio::time::interval_at(Instant::now() + REVIEW, REVIEW);
        reviews.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut canaries = self.canaries.in_force.changes();
        let mut judgements = tokio::time::interval(JUDGE);
        judgements.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // An error means that leader election has ended, which ends the process.
                Ok(()) = leads.changed() => {
                    self.running.show_leading(&self.cluster);
                    self.sync_canaries();
                }
                Ok(()) = changed(leads_migrated.as_mut()) => self.running.show_leading(&self.cluster),
                Some(event) = self.inbox.events.recv() => {
                    self.handle(event);
                    self.handle_waiting_events();
                    self.plan();
                }
                Some(request) = self.inbox.requests.recv() => self.answer(request),
                name = self.running.next_ended() => {
                    self.state.slots.remove(&name);
                    self.plan();
                }
                _ = reviews.tick() => self.review(),
                // An error means that the host ends.
                Ok(()) = canaries.changed() => self.sync_canaries(),
                _ = judgements.tick() => {
                    self.judge_canaries();
                    self.sync_canaries();
                }
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Plans and carries out actions until a plan is empty, because an action can be the reason for another.
    fn plan(&mut self) {
        for _ in 0..MOST_PLANS {
            let plan = plan::plan(&self.state, &self.feeds.inputs());
            self.troubles = plan.troubles;
            if plan.actions.is_empty() {
                break;
            }
            for action in plan.actions {
                self.carry_out(action);
            }
        }
        self.forget_code();
        self.sync_canaries();
        self.sync_shadows();
        for (reply, answer) in self.answers.drain(..) {
            // The operator's connection may be closed.
            let _ = reply.send(answer);
        }
    }

    /// Drops compiled code that no version needs.
    fn forget_code(&mut self) {
        let digests = self.state.digests();
        self.components
            .retain(|digest, _| digests.contains(digest.as_str()));
    }

    /// Applies the events that wait to the state, so that one plan handles many events.
    fn handle_waiting_events(&mut self) {
        while let Ok(event) = self.inbox.events.try_recv() {
            self.handle(event);
        }
    }

    /// Applies an event to the state.
    fn handle(&mut self, event: Event) {
        match event {
            Event::FilesChanged(scan) => self.feeds.files_changed(scan),
            Event::PolicyChanged(policy) => self.feeds.policy_changed(policy),
            Event::Loaded {
                key,
                ticket,
                loaded,
                is_last,
            } => {
                if self.loader.accepts(&key, ticket, is_last) {
                    self.store_loaded(&key, loaded, is_last);
                }
            }
            Event::Loading { key, ticket, step } => {
                if self.loader.accepts(&key, ticket, false)
                    && let Some(source) = self.state.source(&key)
                {
                    source.step = Some(step);
                }
            }
            Event::LoadsSlowly { key, ticket } => {
                if self.loader.accepts(&key, ticket, false)
                    && let Some(source) = self.state.source(&key)
                {
                    source.is_slow = true;
                }
            }
            Event::Opening {
                plugin,
                ticket,
                step,
            } => {
                if let Some(next) = self.state.next_mut(&plugin)
                    && let Some(progress) = self.opener.advance(&plugin, ticket, step)
                {
                    next.progress = progress;
                }
            }
            Event::CandidateLoaded {
                plugin,
                ticket,
                loaded,
            } => self.candidate_loaded(&plugin, ticket, loaded),
            Event::CandidateNotPlaced { plugin, problem } => {
                self.candidate_not_placed(&plugin, problem);
            }
            Event::ReadDenied {
                plugin,
                version,
                reason,
            } => {
                if let Some(slot) = self.state.slots.get_mut(&plugin)
                    && slot.running.as_ref() == Some(&*version)
                {
                    slot.denied = Some(reason);
                }
            }
            Event::RollbackRead {
                rollback,
                read,
                reply,
            } => self.finish_rollback(rollback, read, reply),
            Event::Answered { answer, reply } => self.answers.push((reply, answer)),
        }
    }

    /// Stores the result of loading a source.
    fn store_loaded(
        &mut self,
        key: &SourceKey,
        loaded: Result<Box<Loaded>, String>,
        is_last: bool,
    ) {
        self.reports.loaded(loaded.is_ok());
        let Some(source) = self.state.source(key) else {
            return;
        };
        match loaded {
            Ok(loaded) => {
                let Loaded {
                    plugin,
                    component,
                    path,
                } = *loaded;
                let (name, digest) = (plugin.name(), plugin.digest.as_str());
                let (version, origin) = (&plugin.description.version, plugin.origin.text());
                tracing::info!(plugin = name, version, digest, path = %origin, "loaded");
                if let Some(path) = path {
                    self.versions.keep(digest, path);
                }
                self.components.insert(digest.to_owned(), component);
                source.loaded(Ok(plugin));
            }
            Err(problem) => {
                let goes_on = match (key, &source.plugin) {
                    (SourceKey::Kept(_), None) => {
                        "; the version that was rolled back to can't be loaded: the version of the file runs"
                    }
                    (_, Some(_)) => "; the version before goes on",
                    (SourceKey::File(_) | SourceKey::Package(_), None) => "",
                };
                // A package is tried again and again.
                if source.problem.as_ref() != Some(&problem) {
                    tracing::error!("{problem}{goes_on}");
                }
                source.loaded(Err(problem));
                source.is_loading = !is_last;
            }
        }
    }

    /// Reviews whether the accounts of dropped-in plugins may still read what they watch.
    fn review(&self) {
        let running = self.state.slots.iter();
        let running = running.filter_map(|(name, slot)| Some((name, slot.running.as_ref()?)));
        for (name, version) in running.filter(|(_, version)| !version.grant.is_builtin) {
            let (cluster, events) = (self.cluster.clone(), self.inbox.sender.clone());
            let (plugin, version) = (name.clone(), Box::new(version.clone()));
            tokio::spawn(async move {
                if let Err(OpenError::MayNotRead(reason)) = may_read(&cluster, &version).await {
                    let _ = events.send(Event::ReadDenied {
                        plugin,
                        version,
                        reason,
                    });
                }
            });
        }
    }
}

/// Opens the folder of versions on a blocking thread.
async fn open_versions(
    folder: Option<PathBuf>,
    max_version: usize,
) -> Result<(Option<VersionFolder>, Record), SupervisorError> {
    let Some(folder) = folder else {
        return Ok((None, Record::default()));
    };
    let path = folder.clone();
    let open = move || VersionFolder::open(&path, max_version);
    let opened = tokio::task::spawn_blocking(open).await;
    let opened = opened
        .map_err(std::io::Error::other)
        .and_then(|opened| opened);
    let (versions, record) =
        opened.map_err(|source| SupervisorError::Versions { folder, source })?;
    Ok((Some(versions), record))
}

/// Puts the canaries in force that a host without a lease has stored.
async fn read_canaries(versions: VersionFolder, canaries: &InForce) {
    let read = tokio::task::spawn_blocking(move || versions.canaries()).await;
    match read.map_err(std::io::Error::other).and_then(|read| read) {
        Ok(text) => canaries.apply(text.as_deref()),
        Err(error) => {
            tracing::warn!(%error, "can't read the state of canaries: they begin again");
        }
    }
}

/// Waits for a change; forever if there is nothing to wait for.
async fn changed(leading: Option<&mut watch::Receiver<bool>>) -> Result<(), RecvError> {
    match leading {
        Some(leading) => leading.changed().await,
        None => std::future::pending().await,
    }
}
