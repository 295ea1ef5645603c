//! Carries out planned actions. Slow ones run in tasks, which send their results as events.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::cluster::Cluster;
use flyball_plugin::Component;
use flyball_policy::grant::Asks;
use flyball_serving::health::CheckName;
use flyball_types::error_chain;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{Event, Loaded, Supervisor, Task};
use crate::plugins::PluginOptions;
use crate::plugins::files::Stamp;
use crate::plugins::load::{Origin, PluginError};
use crate::plugins::load_turns::SLOW;
use crate::plugins::open::{OpenError, open};
use crate::plugins::packages::{Package, Pulled};
use crate::plugins::plan::{Action, Progress, SourceKey, Subject, Trouble, Version};
use crate::plugins::status::PluginState;

/// The time between two attempts to open a version.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// How long a version may wait for its caches before the wait is reported.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends the result of loading a source.
struct Loading {
    key: SourceKey,
    ticket: u64,
    events: mpsc::UnboundedSender<Event>,
}

/// Opens a version in the background.
struct Opening {
    name: String,
    version: Version,
    component: Component,
    ticket: u64,
    cluster: Arc<Cluster>,
    options: Arc<PluginOptions>,
    events: mpsc::UnboundedSender<Event>,
}

impl Supervisor {
    pub(super) fn carry_out(&mut self, action: Action) {
        if !matches!(action, Action::Start(_)) {
            self.state.begin(&action);
        }
        match action {
            Action::Load(path, stamp) => self.load_file(path, stamp),
            Action::Pull(package) => self.pull(package),
            Action::LoadKept(origin, digest) => self.load_kept(origin, digest),
            Action::Describe(key, config) => self.describe(key, config),
            Action::Forget(key) => drop(self.loading.remove(&key)),
            Action::Open(name, version) => {
                self.ready.remove(&name);
                self.open_in_background(name, *version, false);
            }
            Action::Abandon(name) => {
                self.ready.remove(&name);
                self.opening.remove(&name);
            }
            Action::Start(name) => self.start(&name),
            Action::Stop(name, reason) => self.stop(name, reason),
            Action::Record(..) => self.write_record(None),
            Action::Note(subject, trouble) => self.note(&subject, trouble),
            Action::Unnote(subject) => self.unnote(&subject),
        }
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Runs a task that loads a source, and aborts the task that loads it now.
    fn spawn_loading<F>(&mut self, key: SourceKey, load: impl FnOnce(Loading) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let ticket = self.ticket();
        let task = load(Loading {
            key: key.clone(),
            ticket,
            events: self.events.0.clone(),
        });
        let _task = AbortOnDropHandle::new(tokio::spawn(task));
        self.loading.insert(key, Task { ticket, _task });
    }

    fn load_file(&mut self, path: PathBuf, stamp: Stamp) {
        let (options, turns) = (self.options.clone(), self.turns.clone());
        let is_expected = self.state.is_expected(&path, &self.grants);
        self.spawn_loading(SourceKey::File(path.clone()), |loading| async move {
            // Until then it may be incomplete.
            tokio::time::sleep(stamp.wait()).await;
            let loads = turns.load_file(&options.engine, path, is_expected);
            let mut loads = std::pin::pin!(loads);
            let loaded = match tokio::time::timeout(SLOW, loads.as_mut()).await {
                Ok(loaded) => loaded,
                Err(_) => {
                    loading.is_slow();
                    loads.await
                }
            };
            loading.done(loaded.map(|(plugin, component, wasm)| Loaded {
                plugin,
                component,
                wasm: Some(wasm),
            }));
        });
    }

    fn pull(&mut self, package: Package) {
        let (options, turns) = (self.options.clone(), self.turns.clone());
        let cache = self.sources.state.as_ref();
        let registry = flyball_registry::Options {
            cache: cache.map(|folder| folder.join("packages")),
            ..flyball_registry::Options::default()
        };
        let key = SourceKey::Package(package.plugin.clone());
        self.spawn_loading(key, |loading| async move {
            let failed = |error: PluginError, is_last| {
                loading.send(Err(error_chain(&error)), is_last);
            };
            let pulled = package
                .load(&options.engine, &turns, &registry, failed)
                .await;
            if let Some(pulled) = pulled {
                let Pulled {
                    plugin,
                    component,
                    wasm,
                } = pulled;
                loading.done(Ok(Loaded {
                    plugin,
                    component,
                    wasm: Some(wasm),
                }));
            }
        });
    }

    fn load_kept(&mut self, origin: Origin, digest: String) {
        let (options, turns) = (self.options.clone(), self.turns.clone());
        let read = self.versions.read(&digest);
        self.spawn_loading(SourceKey::Kept(digest), |loading| async move {
            let loaded = match read.await {
                Ok(wasm) => turns.load(&options.engine, origin, wasm, true).await,
                Err(source) => Err(PluginError::Read {
                    origin: origin.text(),
                    source,
                }),
            };
            loading.done(loaded.map(|(plugin, component)| Loaded {
                plugin,
                component,
                wasm: None,
            }));
        });
    }

    fn describe(&mut self, key: SourceKey, config: std::collections::BTreeMap<String, String>) {
        let source = self.state.source(&key);
        let Some(plugin) = source.and_then(|source| source.plugin.clone()) else {
            return;
        };
        let Some(component) = self.components.get(&plugin.digest).cloned() else {
            return;
        };
        let (options, turns) = (self.options.clone(), self.turns.clone());
        self.spawn_loading(key, |loading| async move {
            let described = turns.describe_with(config, &plugin, &options.engine, &component);
            let described = described.await;
            loading.done(described.map(|plugin| Loaded {
                plugin,
                component,
                wasm: None,
            }));
        });
    }

    /// Opens a version, again and again until it succeeds. With `wait`, the first attempt is delayed, too.
    fn open_in_background(&mut self, name: String, version: Version, wait: bool) {
        // The code stays loaded while the state names it.
        let Some(component) = self.components.get(&version.plugin.digest).cloned() else {
            return;
        };
        let ticket = self.ticket();
        let opening = Opening {
            name: name.clone(),
            version,
            component,
            ticket,
            cluster: self.cluster.clone(),
            options: self.options.clone(),
            events: self.events.0.clone(),
        };
        let _task = AbortOnDropHandle::new(tokio::spawn(opening.run(wait)));
        self.opening.insert(name, Task { ticket, _task });
    }

    /// Opens a version. If that fails, it is tried again in the background.
    pub(super) async fn open_now(&mut self, name: String, version: Version) {
        self.state
            .begin(&Action::Open(name.clone(), Box::new(version.clone())));
        let Some(component) = self.components.get(&version.plugin.digest) else {
            return;
        };
        let opened = open(&self.cluster, &self.options.engine, component, &version).await;
        let progress = match opened {
            Ok(opened) => {
                self.ready.insert(name.clone(), opened);
                Progress::Ready
            }
            Err(error) => {
                if error.can_pass() {
                    self.open_in_background(name.clone(), version, true);
                }
                Progress::HeldUp(Trouble::from(&error))
            }
        };
        let slot = self.state.slots.get_mut(&name);
        if let Some(next) = slot.and_then(|slot| slot.next.as_mut()) {
            next.progress = progress;
        }
    }

    /// Starts the version that is ready. It takes over from the running version.
    fn start(&mut self, name: &str) {
        self.opening.remove(name);
        let Some(opened) = self.ready.remove(name) else {
            // This would be a bug. The version is opened again.
            self.state.begin(&Action::Abandon(name.to_owned()));
            return;
        };
        let running = match self.starter.start(opened, self.running.get(name)) {
            Ok(running) => running,
            Err(error) => {
                let reason = format!("can't be started: {}", error_chain(&error));
                let slot = self.state.slots.get_mut(name);
                if let Some(next) = slot.and_then(|slot| slot.next.as_mut()) {
                    next.progress = Progress::HeldUp(Trouble::failed(reason));
                }
                return;
            }
        };
        self.state.begin(&Action::Start(name.to_owned()));
        tell_start(name, &running, self.running.contains_key(name));
        let unrouted = running.tasks.unrouted();
        if let Some(old) = self.running.insert(name.to_owned(), running) {
            old.tasks.hand_over();
            let drain = self.options.drain;
            self.retiring.spawn(old.tasks.retire(unrouted, drain));
        }
    }

    fn stop(&mut self, name: String, reason: Option<String>) {
        self.ready.remove(&name);
        self.opening.remove(&name);
        let Some(running) = self.running.remove(&name) else {
            return;
        };
        match reason {
            Some(reason) => tracing::warn!(controller = name, reason, "ending"),
            None => tracing::info!(controller = name, "ending"),
        }
        // At the end of the process, running calls may finish.
        let drain = self.is_shutting_down.then_some(self.options.drain);
        let task = self.ending.spawn(async move {
            running.show_leading(false);
            match drain {
                Some(drain) => running.tasks.drain(drain).await,
                None => running.tasks.remove().await,
            }
        });
        self.ending_names.insert(task.id(), name);
    }

    /// Writes the record of versions, and then notifies `done`.
    pub(super) fn write_record(&self, done: Option<tokio::sync::oneshot::Sender<()>>) {
        let loaded = self.state.plugins();
        let in_use = loaded.map(|plugin| plugin.digest.clone()).collect();
        self.versions.write(&self.state.record, in_use, done);
    }

    /// Logs a problem, and shows it in `status` and as an event.
    fn note(&mut self, subject: &Subject, trouble: Option<Trouble>) {
        match (subject, trouble) {
            (Subject::Plugin(name), None) => {
                self.notes.remove(name);
                self.held_up.with_label_values(&[name]).set(0.0);
                self.waiting.remove(name);
            }
            (Subject::Plugin(name), Some(trouble)) => {
                let runs = self.running.contains_key(name);
                let goes_on = if runs {
                    "; the version before goes on"
                } else {
                    ""
                };
                tracing::warn!(plugin = name, "{}{goes_on}", trouble.reason);
                let text = match runs {
                    true => "a newer version is held up",
                    false => "does not run",
                };
                let health = &self.telemetry.health;
                self.notes.insert(
                    name.clone(),
                    health.note(CheckName::Plugin(name.clone()), text),
                );
                self.held_up.with_label_values(&[name]).set(1.0);
                let waits = (!runs).then(|| self.status_of(name)).flatten();
                match waits {
                    Some(status) => self.waiting.show(&status),
                    None => self.waiting.remove(name),
                }
            }
            (Subject::Policy, Some(trouble)) => {
                tracing::error!("{}; the policy before stays in force", trouble.reason);
            }
            (Subject::Folder(folder), Some(trouble)) => {
                let (folder, error) = (folder.display(), trouble.reason);
                tracing::warn!(%folder, error, "can't read a plugin folder: its plugins go on");
            }
            (Subject::Policy | Subject::Folder(_), None) => {}
        }
    }

    fn unnote(&mut self, subject: &Subject) {
        if let Subject::Plugin(name) = subject {
            self.notes.remove(name);
            self.waiting.remove(name);
            let _ = self.held_up.remove_label_values(&[name]);
        }
    }
}

impl Loading {
    fn done(self, loaded: Result<Loaded, PluginError>) {
        self.send(loaded.map_err(|error| error_chain(&error)), true);
    }

    fn is_slow(&self) {
        // Fails only if the supervisor has ended.
        let event = Event::LoadsSlowly(self.key.clone(), self.ticket);
        let _ = self.events.send(event);
    }

    fn send(&self, loaded: Result<Loaded, String>, is_last: bool) {
        // Fails only if the supervisor has ended.
        let _ = self.events.send(Event::Loaded {
            key: self.key.clone(),
            ticket: self.ticket,
            loaded: loaded.map(Box::new),
            is_last,
        });
    }
}

impl Opening {
    async fn run(self, mut wait: bool) {
        let mut held_up = None;
        let opened = loop {
            if std::mem::replace(&mut wait, true) {
                tokio::time::sleep(TRY_AGAIN).await;
            }
            let engine = &self.options.engine;
            match open(&self.cluster, engine, &self.component, &self.version).await {
                Ok(opened) => break opened,
                Err(error) => {
                    let trouble = Trouble::from(&error);
                    if held_up.as_ref() != Some(&trouble) {
                        self.send(Progress::HeldUp(trouble.clone()));
                        held_up = Some(trouble);
                    }
                    if !error.can_pass() {
                        return;
                    }
                }
            }
        };
        self.cluster.factory.start();
        self.send(Progress::Opening);
        let held_up = |trouble| self.send(Progress::HeldUp(trouble));
        wait_for_caches(opened.synced(), || opened.waits_for(), held_up).await;
        let ready = Event::Opening(
            self.name,
            self.ticket,
            Progress::Ready,
            Some(Box::new(opened)),
        );
        let _ = self.events.send(ready);
    }

    fn send(&self, progress: Progress) {
        let event = Event::Opening(self.name.clone(), self.ticket, progress, None);
        let _ = self.events.send(event);
    }
}

/// Waits until the caches of a version are `synced`. If that takes long, reports the informers that are not synced.
async fn wait_for_caches(
    synced: impl Future<Output = ()>,
    waits_for: impl Fn() -> Option<String>,
    held_up: impl FnOnce(Trouble),
) {
    let mut synced = std::pin::pin!(synced);
    if tokio::time::timeout(SYNC_TIMEOUT, synced.as_mut())
        .await
        .is_err()
    {
        if let Some(reason) = waits_for() {
            held_up(Trouble {
                reason,
                state: PluginState::Starting,
            });
        }
        synced.await;
    }
}

/// Logs that a version starts, and what an operator should know of its grant.
fn tell_start(name: &str, running: &crate::plugins::start::RunningVersion, takes_over: bool) {
    let Version { plugin, grant, .. } = &running.version;
    let (version, digest) = (&plugin.description.version, &plugin.digest);
    let concurrency = grant.concurrency;
    let memory_limit = running.tasks.plugin().limits().memory;
    let message = if takes_over { "takes over" } else { "starting" };
    tracing::info!(
        controller = name,
        version,
        digest,
        concurrency,
        memory_limit,
        "{message}"
    );
    if grant.is_builtin {
        return;
    }
    let asks = Asks::of(&plugin.description);
    if grant.account.is_none() {
        tracing::warn!(
            plugin = name,
            "--trust-plugins: the plugin is granted everything that it asks for, with the host's own credentials: {asks}"
        );
    }
    let left_out = asks.beyond(&grant.policy);
    if !left_out.is_empty() {
        tracing::warn!(
            plugin = name,
            "the policy does not grant the plugin all that it asks for; it is denied: {left_out}"
        );
    }
}

impl From<&OpenError> for Trouble {
    fn from(error: &OpenError) -> Self {
        let state = match error {
            OpenError::MayNotRead(_) => PluginState::Pending,
            OpenError::Unfit(_) => PluginState::Failed,
            OpenError::NotServed(_) => PluginState::WaitingForKind,
            OpenError::Unreachable(..) => PluginState::Starting,
        };
        Self {
            reason: error_chain(error),
            state,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_version_whose_caches_are_not_synced_for_long_is_held_up_until_they_are() {
        for (takes, is_told) in [(SYNC_TIMEOUT / 2, false), (SYNC_TIMEOUT * 100, true)] {
            let told = RefCell::new(None);
            let synced = tokio::time::sleep(takes);
            let waits_for = || Some("waits for v1/Pod".to_owned());
            let begin = tokio::time::Instant::now();
            wait_for_caches(synced, waits_for, |trouble| {
                told.replace(Some((trouble, begin.elapsed())));
            })
            .await;
            let expected = Trouble {
                reason: "waits for v1/Pod".to_owned(),
                state: PluginState::Starting,
            };
            let expected = is_told.then_some((expected, SYNC_TIMEOUT));
            assert_eq!((told.take(), begin.elapsed()), (expected, takes));
        }
    }
}
