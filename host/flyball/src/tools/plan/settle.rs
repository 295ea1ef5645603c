//! Waits until nothing is left to do: all plugins run, no key is ready or being reconciled or due soon, and nothing has
//! been written for a while; or until a limit is reached.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::bail;
use flyball_manager::{PluginState, PluginStatus};
use flyball_plan::Server;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::admin::{self, RunningHost};
use crate::tools::children::Host;
use crate::tools::observed::Observed;

/// How long nothing may change. Longer than the minimum interval of a key, and the way of a change through the cache.
const QUIET: Duration = Duration::from_millis(1000);
const POLL: Duration = Duration::from_millis(50);
/// How long a controller that was asked for may be missing from the status of a host that answers.
const APPEARS_WITHIN: Duration = Duration::from_secs(20);

/// How long a controller may take to start after a list was refused. The garbage collector goes on without it after 30 s.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

pub(super) struct Settle<'a> {
    pub(super) server: &'a Server,
    pub(super) admin: RunningHost,
    /// The names of the plugins that have to run.
    pub(super) expected: BTreeSet<String>,
    pub(super) within: Duration,
    /// How long a delayed key is waited for.
    pub(super) wait: Duration,
    pub(super) observed: &'a Mutex<Observed>,
}

/// The end of the wait.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) plugins: Vec<PluginStatus>,
    /// Why the plan is not complete; none if nothing was left to do.
    pub(super) stopped: Option<Limit>,
}

/// A limit that a plan has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Time,
    Writes,
}

impl Settle<'_> {
    /// Fails if the host ends, or if it does not run a plugin.
    pub(super) async fn until_settled(&self, host: &mut Host) -> anyhow::Result<Ended> {
        let deadline = Instant::now() + self.within;
        let mut last = None;
        let mut quiet_since = Instant::now();
        let mut answers_since = None;
        loop {
            host.runs_for(POLL, self.observed).await?;
            let plugins = self.plugins().await;
            let now = Instant::now();
            let progress = self.server.progress();
            let Some(plugins) = plugins else {
                if now >= deadline {
                    bail!("the host does not answer within {:?}", self.within);
                }
                continue;
            };
            let answers = now - *answers_since.get_or_insert(now);
            if let Some(missing) = self.missing(&plugins)
                && answers >= APPEARS_WITHIN
            {
                bail!(
                    "the host does not run {missing}: {}",
                    self.observed.lock().host_lines()
                );
            }
            let starting = plugins
                .iter()
                .find(|plugin| plugin.state == PluginState::Starting);
            if let Some(starting) = starting
                && progress.has_refused_lists
                && answers >= STARTS_WITHIN
            {
                let notes = self.server.outcome().notes;
                let refused: Vec<&str> = notes.keys().map(String::as_str).collect();
                bail!("{} does not start: {}", starting.name, refused.join("; "));
            }
            let is_idle = self.missing(&plugins).is_none()
                && progress.requests == 0
                && plugins.iter().all(|plugin| is_idle(plugin, self.wait));
            let seen = Some(progress.version);
            if !is_idle || seen != last {
                quiet_since = now;
                last = seen;
            }
            let stopped = match (progress.is_full, now >= deadline) {
                (true, _) => Some(Limit::Writes),
                (_, true) => Some(Limit::Time),
                _ => None,
            };
            if stopped.is_some() || now - quiet_since >= QUIET {
                return Ok(Ended { plugins, stopped });
            }
        }
    }

    /// A plugin that the host does not have.
    fn missing(&self, plugins: &[PluginStatus]) -> Option<&str> {
        let is_missing = |name: &&String| plugins.iter().all(|plugin| plugin.name != **name);
        self.expected.iter().find(is_missing).map(String::as_str)
    }

    /// The status of all plugins; none while the host starts.
    async fn plugins(&self) -> Option<Vec<PluginStatus>> {
        let admin = self.admin.clone();
        let asked = tokio::task::spawn_blocking(move || admin::plugins(&admin)).await;
        asked.ok()?.ok()
    }
}

/// Whether a plugin has nothing to do within this time. One that can't be started does nothing any more.
fn is_idle(status: &PluginStatus, wait: Duration) -> bool {
    let is_due = status
        .next_delayed_ms
        .is_some_and(|due| Duration::from_millis(due) <= wait);
    match status.state {
        PluginState::Running => {
            status.queued == 0
                && status.processing == 0
                && status.route_waiting == status.route_failing
                && !is_due
        }
        PluginState::Quarantined
        | PluginState::Pending
        | PluginState::Failed
        | PluginState::WaitingForKind => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The status of an idle plugin, with these fields.
    fn status(fields: Value) -> PluginStatus {
        let mut status = json!({
            "name": "a", "version": "1", "digest": "", "origin": "built-in", "state": "running", "reason": null,
            "rolledBack": false, "queued": 0, "reconciles": 1, "errors": 0, "perSecond": 0.0, "p50Ms": 0.0, "p99Ms": 0.0,
            "lastWhy": null, "memory": 0, "memo": 0, "instances": 0, "cpuSeconds": 0.0,
        });
        for (name, value) in fields.as_object().into_iter().flatten() {
            status[name] = value.clone();
        }
        serde_json::from_value(status).expect("a status")
    }

    #[test]
    fn a_plugin_is_idle_unless_a_key_is_ready_or_due_soon() {
        let idle = |fields| is_idle(&status(fields), Duration::from_secs(2));
        assert!(idle(json!({})));
        assert!(!idle(json!({"queued": 1})));
        assert!(!idle(json!({"processing": 1})));
        assert!(!idle(json!({"state": "starting"})));
        assert!(!idle(json!({"nextDelayedMs": 1500, "delayed": 1})));
        assert!(idle(json!({"nextDelayedMs": 60_000, "delayed": 1})));
        assert!(idle(json!({"state": "failed"})));
        assert!(!idle(json!({"routeWaiting": 2, "routeFailing": 1})));
    }
}
