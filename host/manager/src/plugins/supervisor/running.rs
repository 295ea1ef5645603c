//! The versions that run, and the stopped ones whose calls have not ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::cluster::Cluster;
use flyball_runtime::split::Candidate;
use flyball_serving::metrics::MetricsError;
use tokio::task::{Id, JoinSet};

use crate::plugins::canary::LoadedCandidate;
use crate::plugins::inspect::undeclared_settings;
use crate::plugins::open::Opened;
use crate::plugins::plan::Version;
use crate::plugins::start::{RunningVersion, Starter};

/// The running versions, by the name of the plugin.
pub(super) struct RunningPlugins {
    starter: Starter,
    /// How long running calls may take when a version is replaced or the process ends.
    drain: Duration,
    versions: BTreeMap<String, RunningVersion>,
    /// Plugins that were stopped. No other version of them starts until their calls have ended.
    ending: JoinSet<()>,
    /// The name of the plugin that each task of `ending` stops.
    ending_names: HashMap<Id, String>,
    /// Versions that were replaced. Their calls end while the next version runs.
    retiring: JoinSet<()>,
}

impl RunningPlugins {
    pub(super) fn new(starter: Starter, drain: Duration) -> Self {
        Self {
            starter,
            drain,
            versions: BTreeMap::new(),
            ending: JoinSet::new(),
            ending_names: HashMap::new(),
            retiring: JoinSet::new(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&RunningVersion> {
        self.versions.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &RunningVersion)> {
        let versions = self.versions.iter();
        versions.map(|(name, running)| (name.as_str(), running))
    }

    /// Starts a version. It takes over from the running version of the plugin.
    pub(super) fn start(&mut self, name: &str, opened: Opened) -> Result<(), MetricsError> {
        let running = self.starter.start(opened, self.versions.get(name))?;
        log_start(name, &running, self.versions.contains_key(name));
        let unrouted = running.tasks.unrouted();
        if let Some(old) = self.versions.insert(name.to_owned(), running) {
            old.tasks.hand_over();
            self.retiring.spawn(old.tasks.retire(unrouted, self.drain));
        }
        Ok(())
    }

    /// Prepares a candidate that works beside a running version.
    pub(super) fn candidate(
        &self,
        running: &RunningVersion,
        candidate: &LoadedCandidate,
    ) -> Result<Arc<Candidate>, MetricsError> {
        self.starter.candidate(running, candidate)
    }

    /// Stops a plugin while the host goes on. [`next_ended`](Self::next_ended) returns its name when its calls have
    /// ended.
    pub(super) fn stop(&mut self, name: String, reason: Option<&str>) {
        let Some(running) = self.versions.remove(&name) else {
            return;
        };
        match reason {
            Some(reason) => tracing::warn!(plugin = name, reason, "ending"),
            None => tracing::info!(plugin = name, "ending"),
        }
        let task = self.ending.spawn(async move {
            running.show_leading(false);
            running.tasks.remove().await;
        });
        self.ending_names.insert(task.id(), name);
    }

    /// Waits until a stopped plugin has ended, and returns its name. Waits forever if none was stopped.
    pub(super) async fn next_ended(&mut self) -> String {
        loop {
            tokio::select! {
                Some(ended) = self.ending.join_next_with_id() => {
                    let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                    if let Some(name) = self.ending_names.remove(&id) {
                        return name;
                    }
                }
                Some(_) = self.retiring.join_next() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Stops all plugins because the process ends. Running calls may finish.
    pub(super) async fn shut_down(&mut self) {
        for (name, running) in std::mem::take(&mut self.versions) {
            tracing::info!(plugin = name, "ending");
            let drain = self.drain;
            self.ending.spawn(async move {
                running.show_leading(false);
                running.tasks.drain(drain).await;
            });
        }
        while self.ending.join_next().await.is_some() {}
        self.retiring.shutdown().await;
    }

    /// Reports for each plugin whether it may act.
    pub(super) fn show_leading(&self, cluster: &Cluster) {
        for (name, running) in &self.versions {
            running.show_leading(*cluster.leadership(name).leading.borrow());
        }
    }
}

/// Logs that a version starts, and what an operator should know of its grant.
fn log_start(name: &str, running: &RunningVersion, takes_over: bool) {
    let Version { plugin, grant, .. } = &running.version;
    let (version, digest) = (&plugin.description.version, &plugin.digest);
    let concurrency = grant.concurrency;
    let memory_limit = running.tasks.plugin().limits().memory;
    let message = if takes_over { "takes over" } else { "starting" };
    tracing::info!(
        plugin = name,
        version,
        digest,
        concurrency,
        memory_limit,
        "{message}"
    );
    if grant.is_builtin {
        return;
    }
    let asks = &plugin.asks;
    if grant.account.is_none() {
        tracing::warn!(
            plugin = name,
            "--trust-plugins: the plugin is granted everything that it asks for, with the host's own credentials: {asks}"
        );
    }
    for undeclared in undeclared_settings(&grant.config, &plugin.description) {
        tracing::warn!(plugin = name, "{undeclared}");
    }
    let left_out = asks.beyond(&grant.policy);
    if !left_out.is_empty() {
        tracing::warn!(
            plugin = name,
            "the policy does not grant the plugin all that it asks for; it is denied: {left_out}"
        );
    }
}
