//! Waits until a plugin has settled: it runs, no key is ready or being reconciled, and nothing has changed for a while.
//! Keys that wait for later (a requeue, a backoff) are not waited for.

use std::time::Duration;

use anyhow::bail;
use flyball_manager::{PluginState, PluginStatus};
use flyball_testserver::api::ApiServer;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::admin::{self, RunningHost};
use crate::tools::children::Host;
use crate::tools::observed::Observed;

/// How long nothing may change. Longer than the minimum interval of a key, its first backoffs, and the way of a change
/// through the cache.
const QUIET: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(25);

pub(super) struct Watch<'a> {
    pub(super) server: &'a ApiServer,
    pub(super) admin: RunningHost,
    pub(super) plugin: &'a str,
    pub(super) within: Duration,
    pub(super) observed: &'a Mutex<Observed>,
}

/// The end of the wait.
pub(super) enum Ended {
    Settled(Box<PluginStatus>),
    Unsettled(Box<PluginStatus>),
}

impl Watch<'_> {
    /// Fails if the host ends, or if it does not run the plugin.
    pub(super) async fn until_settled(&self, host: &mut Host) -> anyhow::Result<Ended> {
        let deadline = Instant::now() + self.within;
        let mut last = None;
        let mut quiet_since = Instant::now();
        loop {
            host.runs_for(POLL, self.observed).await?;
            let now = Instant::now();
            let status = self.status().await;
            let seen = status.as_ref().map(|status| {
                let counts = (status.performance.reconciles, status.performance.errors);
                (self.server.version(), status.state, counts)
            });
            let is_idle = status.as_ref().is_some_and(is_idle);
            if !is_idle || seen != last {
                quiet_since = now;
                last = seen;
            }
            let is_over = now >= deadline;
            match status {
                Some(status) if is_over || now - quiet_since >= QUIET => {
                    let runs = matches!(
                        status.state,
                        PluginState::Running | PluginState::Quarantined
                    );
                    if !runs {
                        let state = || status.state.name().to_owned();
                        bail!(
                            "the plugin does not run: {}",
                            status.reason.unwrap_or_else(state)
                        );
                    }
                    return Ok(match is_over && now - quiet_since < QUIET {
                        true => Ended::Unsettled(Box::new(status)),
                        false => Ended::Settled(Box::new(status)),
                    });
                }
                None if is_over => bail!(
                    "the host has not begun to run the plugin within {:?}",
                    self.within
                ),
                _ => {}
            }
        }
    }

    /// The plugin's status; none while the host starts.
    async fn status(&self) -> Option<PluginStatus> {
        let admin = self.admin.clone();
        let asked = tokio::task::spawn_blocking(move || admin::plugins(&admin)).await;
        let mut plugins = asked.ok()?.ok()?.into_iter();
        // Until its description is read, a plugin has the name of its file.
        let only = plugins.next()?;
        plugins
            .find(|plugin| plugin.name == self.plugin)
            .or(Some(only))
    }
}

/// Whether the plugin has nothing to do now. One that can't be started, or is paused, does nothing any more.
fn is_idle(status: &PluginStatus) -> bool {
    match status.state {
        PluginState::Running => {
            status.queued == 0
                && status.processing == 0
                && status.route_waiting == status.route_failing
        }
        PluginState::Quarantined | PluginState::Pending | PluginState::Failed => true,
        _ => false,
    }
}
