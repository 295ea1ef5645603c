//! Opens versions of plugins: in background tasks, which send their progress as events, or at the start of the host all
//! together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::cluster::Cluster;
use flyball_plugin::Component;

use super::tasks::{Tasks, Ticket};
use super::{Event, Events};
use crate::plugins::PluginOptions;
use crate::plugins::load::reason;
use crate::plugins::open::{OpenError, Opened, open};
use crate::plugins::plan::{Progress, Trouble, Version};
use crate::plugins::status::PluginState;

/// The time between two attempts to open a version.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// How long a version may wait for its caches before the wait is reported.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// The versions that are being opened or are ready, by the name of the plugin.
pub(super) struct Opener {
    cluster: Arc<Cluster>,
    options: Arc<PluginOptions>,
    tasks: Tasks<String>,
    ready: BTreeMap<String, Opened>,
    events: Events,
}

/// A step of opening a version.
pub(super) enum OpeningStep {
    /// The version can't be opened yet, or its caches are not synced for long.
    HeldUp(Trouble),
    /// Its informers are open. They are not synced yet.
    Syncing,
    /// Its informers are synced.
    Ready(Box<Opened>),
}

/// A background task that opens a version.
struct Opening {
    plugin: String,
    version: Version,
    component: Component,
    ticket: Ticket,
    cluster: Arc<Cluster>,
    options: Arc<PluginOptions>,
    events: Events,
}

impl Opener {
    pub(super) fn new(cluster: Arc<Cluster>, options: Arc<PluginOptions>, events: Events) -> Self {
        Self {
            cluster,
            options,
            tasks: Tasks::default(),
            ready: BTreeMap::new(),
            events,
        }
    }

    /// Opens a version in the background, instead of the version that is being opened under its name. Retries until it
    /// succeeds.
    pub(super) fn open(&mut self, name: &str, version: Version, component: Component) {
        self.ready.remove(name);
        self.start(name, version, component, Duration::ZERO);
    }

    /// Opens a version at once. Its informers are not synced yet, but it is ready to start. If that fails, it is
    /// retried in the background.
    pub(super) async fn open_now(
        &mut self,
        name: &str,
        version: Version,
        component: Component,
    ) -> Progress {
        match open(&self.cluster, &self.options.engine, &component, &version).await {
            Ok(opened) => {
                self.ready.insert(name.to_owned(), opened);
                Progress::Ready
            }
            Err(error) => {
                if error.can_pass() {
                    self.start(name, version, component, TRY_AGAIN);
                }
                Progress::HeldUp(Trouble::from(&error))
            }
        }
    }

    /// Stores a step of a background task, and returns the progress of its version; none if another version is being
    /// opened by now, or none.
    pub(super) fn advance(
        &mut self,
        name: &str,
        ticket: Ticket,
        step: OpeningStep,
    ) -> Option<Progress> {
        if !self.tasks.is_current(name, ticket) {
            return None;
        }
        Some(match step {
            OpeningStep::HeldUp(trouble) => Progress::HeldUp(trouble),
            OpeningStep::Syncing => Progress::Opening,
            OpeningStep::Ready(opened) => {
                self.ready.insert(name.to_owned(), *opened);
                Progress::Ready
            }
        })
    }

    /// Takes the version that is ready to start.
    pub(super) fn take_ready(&mut self, name: &str) -> Option<Opened> {
        self.tasks.abort(name);
        self.ready.remove(name)
    }

    /// Closes the version that is being opened or is ready.
    pub(super) fn abandon(&mut self, name: &str) {
        self.tasks.abort(name);
        self.ready.remove(name);
    }

    /// Stops opening versions.
    pub(super) fn abandon_all(&mut self) {
        self.tasks.abort_all();
        self.ready.clear();
    }

    fn start(&mut self, name: &str, version: Version, component: Component, delay: Duration) {
        let (cluster, options) = (self.cluster.clone(), self.options.clone());
        let (plugin, events) = (name.to_owned(), self.events.clone());
        self.tasks.start(name.to_owned(), |ticket| {
            let opening = Opening {
                plugin,
                version,
                component,
                ticket,
                cluster,
                options,
                events,
            };
            opening.run(delay)
        });
    }
}

impl Opening {
    /// Opens the version after a delay, waits until its informers are synced, and sends it.
    async fn run(self, delay: Duration) {
        tokio::time::sleep(delay).await;
        let Some(opened) = self.open().await else {
            return;
        };
        self.cluster.factory.start();
        self.send(OpeningStep::Syncing);
        let held_up = |trouble| self.send(OpeningStep::HeldUp(trouble));
        wait_for_caches(opened.synced(), || opened.waits_for(), held_up).await;
        self.send(OpeningStep::Ready(Box::new(opened)));
    }

    /// Retries until the version is open; none if that can't help.
    async fn open(&self) -> Option<Opened> {
        let mut last = None;
        loop {
            let engine = &self.options.engine;
            match open(&self.cluster, engine, &self.component, &self.version).await {
                Ok(opened) => return Some(opened),
                Err(error) => {
                    let trouble = Trouble::from(&error);
                    if last.as_ref() != Some(&trouble) {
                        self.send(OpeningStep::HeldUp(trouble.clone()));
                        last = Some(trouble);
                    }
                    if !error.can_pass() {
                        return None;
                    }
                }
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    fn send(&self, step: OpeningStep) {
        // Fails only if the supervisor has ended.
        let _ = self.events.send(Event::Opening {
            plugin: self.plugin.clone(),
            ticket: self.ticket,
            step,
        });
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

impl From<&OpenError> for Trouble {
    fn from(error: &OpenError) -> Self {
        let state = match error {
            OpenError::MayNotRead(_) | OpenError::Credentials(_) => PluginState::Pending,
            OpenError::Unfit(_) => PluginState::Failed,
            OpenError::NotServed(_) => PluginState::WaitingForKind,
            OpenError::Unreachable(..) => PluginState::Starting,
        };
        Self {
            reason: reason(error),
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
