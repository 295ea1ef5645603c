//! Keeps the wanted plugins running: collects the current and the wanted state, lets `plan.rs` compute the actions, and
//! carries them out. A new version takes over only when it is ready. Until then, the previous version keeps running.
//!
//! Nothing here blocks. `supervisor/feeds.rs` reads files and the policy, and sends changes as events.
//! `supervisor/actions.rs` carries actions out in tasks, which send their results as events. `supervisor/operator.rs`
//! handles operators' requests.

mod actions;
mod feeds;
mod operator;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_api::cluster::Cluster;
use flyball_plugin::Component;
use flyball_policy::Policy;
use flyball_policy::grant::Grants;
use flyball_serving::health::Note;
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError};
use flyball_types::error_chain;
use futures::stream::{self, StreamExt};
use tokio::sync::watch::error::RecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::feeds::Approval;
use crate::plugins::files::{Folders, Scan};
use crate::plugins::load::{self, BuiltIn, LoadedPlugin};
use crate::plugins::load_turns::LoadTurns;
use crate::plugins::metrics::WaitingInfo;
use crate::plugins::open::{OpenError, Opened, may_read};
use crate::plugins::plan::{self, Action, Inputs, Progress, SourceKey, State, Trouble, Version};
use crate::plugins::requests::{Request, RequestError};
use crate::plugins::rollback::{Record, RollbackError, VersionFolder, VersionStore};
use crate::plugins::start::{RunningVersion, Starter};
use crate::plugins::{PluginOptions, Sources, Telemetry};

/// The interval between reviews whether accounts may still read what their plugins watch.
const REVIEW: Duration = Duration::from_secs(60);
/// The longest time that the start waits for the files of plugins that the policy names. Files that are loaded by then
/// are opened together with the built-ins.
const FILES_AT_START: Duration = Duration::from_secs(5);
/// The most plans in a row. A few suffice; more would be a bug, which must not delay everything else.
const MOST_PLANS: usize = 100;
/// The number of built-in controllers that are loaded at once. Each takes some memory until it is loaded.
const LOADS_AT_ONCE: usize = 4;

/// Keeps the wanted plugins running.
pub(crate) struct Supervisor {
    cluster: Arc<Cluster>,
    options: Arc<PluginOptions>,
    telemetry: Telemetry,
    starter: Starter,
    sources: Sources,
    /// The current state, the input of each plan.
    state: State,
    grants: Grants,
    /// Why the policy on disk is not in force.
    policy_problem: Option<String>,
    scan: Scan,
    /// The problems that the last plan found.
    troubles: BTreeMap<String, Trouble>,
    /// Compiled code, by digest.
    components: HashMap<String, Component>,
    running: BTreeMap<String, RunningVersion>,
    /// Versions that are ready to start.
    ready: BTreeMap<String, Opened>,
    loading: BTreeMap<SourceKey, Task>,
    opening: BTreeMap<String, Task>,
    tickets: u64,
    turns: Arc<LoadTurns>,
    versions: VersionStore,
    events: (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>),
    requests: mpsc::Receiver<Request>,
    approvals: mpsc::UnboundedSender<Approval>,
    /// Responses to operators that are sent when the next plan was carried out.
    replies: Vec<(Reply, Result<String, RequestError>)>,
    is_shutting_down: bool,
    /// The names of draining plugins, by the task that drains them.
    ending: JoinSet<()>,
    ending_names: HashMap<tokio::task::Id, String>,
    /// Versions that were replaced by another.
    retiring: JoinSet<()>,
    notes: BTreeMap<String, Note>,
    loads: CounterVec,
    held_up: GaugeVec,
    /// `flyball_plugin_info` of the plugins that do not run.
    waiting: WaitingInfo,
    _feeds: Vec<AbortOnDropHandle<()>>,
}

type Reply = oneshot::Sender<Result<String, RequestError>>;

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

/// A task whose events count only while its ticket is the current one.
struct Task {
    ticket: u64,
    _task: AbortOnDropHandle<()>,
}

/// A plugin that was loaded or described itself again.
struct Loaded {
    plugin: LoadedPlugin,
    component: Component,
    /// Its file, if it was read just now.
    wasm: Option<Bytes>,
}

/// Something that happened.
enum Event {
    /// The folders changed.
    Files(Scan),
    /// The policy on disk changed, or can't be used.
    Policy(Result<Policy, String>),
    /// A source was loaded, or described itself again. `is_last` is false if it is tried again.
    Loaded {
        key: SourceKey,
        ticket: u64,
        loaded: Result<Box<Loaded>, String>,
        is_last: bool,
    },
    /// Loading a file takes longer than other plugins wait for it.
    LoadsSlowly(SourceKey, u64),
    /// The progress of opening a version. `Ready` holds the version.
    Opening(String, u64, Progress, Option<Box<Opened>>),
    /// The account of a plugin may no longer read what this version watches.
    Denied(String, Box<Version>, String),
    /// An operator's request was carried out. The response is sent when all actions that follow from it were carried
    /// out.
    Done(Result<String, RequestError>, Reply),
    /// The version for a rollback was read, or can't be read. The texts are the plugin's name, the digest of the
    /// version and the digest of the plugin's file.
    Rollback([String; 3], Result<(), String>, Reply),
}

impl Supervisor {
    /// Loads the built-ins and the files that are in the folders now.
    pub(crate) async fn load(
        cluster: Arc<Cluster>,
        options: PluginOptions,
        telemetry: Telemetry,
        mut sources: Sources,
        builtins: &[BuiltIn],
    ) -> Result<(Self, mpsc::Sender<Request>), SupervisorError> {
        let options = Arc::new(options);
        let starter = Starter::new(cluster.clone(), options.clone(), telemetry.clone())?;
        let loads = telemetry.metrics.counter(
            "flyball_plugin_loads_total",
            "Files of plugins that were loaded, by result: ok, or failed.",
            &["result"],
        )?;
        let held_up = telemetry.metrics.gauge(
            "flyball_plugin_held_up",
            "1 for a plugin of which a version can't run: it waits for a grant, or can't be loaded.",
            &["plugin"],
        )?;
        let waiting = WaitingInfo::new(&telemetry.metrics)?;
        let max_version = options.engine.max_component_bytes();
        let (folder, record) = open_versions(sources.state.clone(), max_version).await?;
        let (sender, requests) = mpsc::channel(16);
        let events = mpsc::unbounded_channel();
        let (approvals, approval_requests) = mpsc::unbounded_channel();
        let mut feeds = Vec::new();
        let mut scan = Scan::default();
        let folders = Folders::new(sources.folders.clone(), "wasm");
        if let Some((folders, first)) = folders.scan().await {
            scan.clone_from(&first);
            feeds.push(feeds::follow_files(folders, first, events.0.clone()));
        }
        let grants = std::mem::take(&mut sources.grants);
        if let Some(path) = sources.policy.clone() {
            let known = grants.plugins.clone();
            let events = events.0.clone();
            feeds.push(feeds::follow_policy(path, known, approval_requests, events));
        }
        let mut supervisor = Self {
            cluster,
            options,
            telemetry,
            starter,
            sources,
            state: State {
                record,
                ..State::default()
            },
            grants,
            policy_problem: None,
            scan,
            troubles: BTreeMap::new(),
            components: HashMap::new(),
            running: BTreeMap::new(),
            ready: BTreeMap::new(),
            loading: BTreeMap::new(),
            opening: BTreeMap::new(),
            tickets: 0,
            turns: Arc::default(),
            versions: VersionStore::start(folder),
            events,
            requests,
            approvals,
            replies: Vec::new(),
            ending: JoinSet::new(),
            is_shutting_down: false,
            ending_names: HashMap::new(),
            retiring: JoinSet::new(),
            notes: BTreeMap::new(),
            loads,
            held_up,
            waiting,
            _feeds: feeds,
        };
        supervisor.load_builtins(builtins).await;
        supervisor.load_files().await;
        Ok((supervisor, sender))
    }

    async fn load_builtins(&mut self, builtins: &[BuiltIn]) {
        let engine = &self.options.engine;
        let config = |name| self.grants.config.get(name).cloned().unwrap_or_default();
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
            for action in plan::sources(&self.state, &self.inputs()) {
                self.carry_out(action);
            }
            if !plan::lacks_expected(&self.state, &self.grants) {
                return;
            }
            match tokio::time::timeout_at(deadline, self.events.1.recv()).await {
                Ok(Some(event)) => self.happened(event),
                Ok(None) => {}
                Err(_) => {
                    tracing::info!(
                        "some files of plugins are still being loaded: they start later"
                    );
                    return;
                }
            }
            self.happened_meanwhile();
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
        self.state.dropped_in(&self.grants)
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs {
            files: &self.scan.found,
            unreadable: &self.scan.unreadable,
            grants: &self.grants,
            policy_problem: self.policy_problem.as_deref(),
            enabled: &*self.sources.enabled,
        }
    }

    /// Runs until `shutdown`, then drains all plugins.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            () = self.start_together() => self.follow(&shutdown).await,
            () = shutdown.cancelled() => {}
        }
        self.opening.clear();
        self.is_shutting_down = true;
        let names: Vec<String> = self.state.slots.keys().cloned().collect();
        for name in names {
            self.carry_out(Action::Stop(name, None));
        }
        while self.ending.join_next().await.is_some() {}
        self.retiring.shutdown().await;
        self.cluster.factory.shutdown().await;
        self.versions.close().await;
    }

    /// Reconciles the running plugins with the wanted ones, until `shutdown`.
    async fn follow(&mut self, shutdown: &CancellationToken) {
        let mut leads = self.cluster.main.leading.subscribe();
        leads.mark_changed();
        let migrated = self.cluster.migrated.as_ref();
        let mut leads_migrated = migrated.map(|migrated| migrated.leadership.leading.subscribe());
        let mut reviews = tokio::time::interval_at(tokio::time::Instant::now() + REVIEW, REVIEW);
        reviews.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // An error means that leader election has ended, which ends the process.
                Ok(()) = leads.changed() => self.show_leading(),
                Ok(()) = changed(leads_migrated.as_mut()) => self.show_leading(),
                Some(event) = self.events.1.recv() => {
                    self.happened(event);
                    self.happened_meanwhile();
                    self.plan();
                }
                Some(request) = self.requests.recv() => self.answer(request),
                Some(ended) = self.ending.join_next_with_id() => {
                    let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                    if let Some(name) = self.ending_names.remove(&id) {
                        self.state.slots.remove(&name);
                    }
                    self.plan();
                }
                Some(_) = self.retiring.join_next() => {}
                _ = reviews.tick() => self.review(),
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Reports for each plugin whether it may act.
    fn show_leading(&self) {
        for (name, running) in &self.running {
            running.show_leading(*self.cluster.leadership(name).leading.borrow());
        }
    }

    /// Opens all versions that can be opened together, so that their masks are merged before the first list. They start
    /// at once; their workers wait for the caches.
    async fn start_together(&mut self) {
        let plan = plan::plan(&self.state, &self.inputs());
        for action in plan.actions {
            match action {
                Action::Open(name, version) => self.open_now(name, *version).await,
                action => self.carry_out(action),
            }
        }
        self.cluster.factory.start();
        self.plan();
    }

    /// Plans and carries out actions until a plan is empty, because an action can be the reason for another.
    fn plan(&mut self) {
        for _ in 0..MOST_PLANS {
            let plan = plan::plan(&self.state, &self.inputs());
            self.troubles = plan.troubles;
            if plan.actions.is_empty() {
                break;
            }
            for action in plan.actions {
                self.carry_out(action);
            }
        }
        self.forget_code();
        for (reply, result) in self.replies.drain(..) {
            // The operator's connection may be closed.
            let _ = reply.send(result);
        }
    }

    /// Drops compiled code that no version needs.
    fn forget_code(&mut self) {
        let digests = self.state.digests();
        self.components
            .retain(|digest, _| digests.contains(digest.as_str()));
    }

    /// Applies all other waiting events to the state, so that one plan handles many events.
    fn happened_meanwhile(&mut self) {
        while let Ok(event) = self.events.1.try_recv() {
            self.happened(event);
        }
    }

    /// Applies an event to the state.
    fn happened(&mut self, event: Event) {
        match event {
            Event::Files(scan) => self.scan = scan,
            Event::Policy(Ok(policy)) => {
                tracing::info!("the policy has changed");
                (self.grants.plugins, self.policy_problem) = (policy, None);
            }
            Event::Policy(Err(problem)) => self.policy_problem = Some(problem),
            Event::Loaded {
                key,
                ticket,
                loaded,
                is_last,
            } => {
                if self
                    .loading
                    .get(&key)
                    .is_some_and(|task| task.ticket == ticket)
                {
                    if is_last {
                        self.loading.remove(&key);
                    }
                    self.loaded(&key, loaded, is_last);
                }
            }
            Event::LoadsSlowly(key, ticket) => {
                let is_current = |task: &Task| task.ticket == ticket;
                if self.loading.get(&key).is_some_and(is_current)
                    && let Some(source) = self.state.source(&key)
                {
                    source.is_slow = true;
                }
            }
            Event::Opening(name, ticket, progress, opened) => {
                let is_current = |task: &Task| task.ticket == ticket;
                if self.opening.get(&name).is_some_and(is_current)
                    && let Some(slot) = self.state.slots.get_mut(&name)
                    && let Some(next) = &mut slot.next
                {
                    next.progress = progress;
                    self.ready.extend(opened.map(|opened| (name, *opened)));
                }
            }
            Event::Denied(name, version, reason) => {
                if let Some(slot) = self.state.slots.get_mut(&name)
                    && slot.running.as_ref() == Some(&*version)
                {
                    slot.denied = Some(reason);
                }
            }
            Event::Done(result, reply) => self.replies.push((reply, result)),
            Event::Rollback([name, runs, file], Ok(()), reply) => {
                self.rolled_back(&name, &runs, &file, reply);
            }
            Event::Rollback([name, ..], Err(reason), reply) => {
                let error = RollbackError::Lost(name, reason).to_string();
                self.replies
                    .push((reply, Err(RequestError::Refused(error))));
            }
        }
    }

    /// Stores the result of loading a source.
    fn loaded(&mut self, key: &SourceKey, loaded: Result<Box<Loaded>, String>, is_last: bool) {
        let result = if loaded.is_ok() { "ok" } else { "failed" };
        self.loads.with_label_values(&[result]).inc();
        let Some(source) = self.state.source(key) else {
            return;
        };
        match loaded {
            Ok(loaded) => {
                let Loaded {
                    plugin,
                    component,
                    wasm,
                } = *loaded;
                let (name, digest) = (plugin.name(), plugin.digest.as_str());
                let (version, origin) = (&plugin.description.version, plugin.origin.text());
                tracing::info!(plugin = name, version, digest, path = %origin, "loaded");
                if let Some(wasm) = wasm {
                    self.versions.keep(digest, wasm);
                }
                self.components.insert(digest.to_owned(), component);
                source.loaded(Ok(plugin));
            }
            Err(problem) => {
                let goes_on = match (key, &source.plugin) {
                    (SourceKey::Kept(_), None) => {
                        "; the version that was rolled back to can't be loaded: that of the file runs"
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
            let (cluster, events) = (self.cluster.clone(), self.events.0.clone());
            let (name, version) = (name.clone(), version.clone());
            tokio::spawn(async move {
                if let Err(OpenError::MayNotRead(reason)) = may_read(&cluster, &version).await {
                    let _ = events.send(Event::Denied(name, Box::new(version), reason));
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
    let (versions, record) = opened.map_err(|source| SupervisorError::State { folder, source })?;
    Ok((Some(versions), record))
}

/// Waits for a change; forever if there is nothing to wait for.
async fn changed(leading: Option<&mut watch::Receiver<bool>>) -> Result<(), RecvError> {
    match leading {
        Some(leading) => leading.changed().await,
        None => std::future::pending().await,
    }
}
