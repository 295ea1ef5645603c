//! What one plugin works with: its reads, its writer, its queues, its events, memo, metrics, configuration and keys. Shared by its
//! calls, its routers and its workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_cache::ApiResource;
use flyball_plugin::LogLevel;
use flyball_serving::metrics::{Group, MetricsError};
use flyball_types::description::Description;
use flyball_types::{ApiError, Kind, printable};
use flyball_workqueue::Priority;

use crate::api::client::ApiClient;
use crate::api::denial::Denials;
use crate::api::events::Recorder;
use crate::limits::host_limits::HostLimits;
use crate::policy::PluginPolicy;
use crate::reads::cached::Views;
use crate::runtime::history::History;
use crate::runtime::memo::Memo;
use crate::runtime::queue::{Queue, Reason};
use crate::runtime::route_turns::RouteTurns;
use crate::signer::SigningKeys;
use crate::writer::Writer;

/// Bytes of a guest's message that one line of the log takes, and of each of its fields.
const LINE: usize = 8192;

/// What one plugin works with.
pub(crate) struct Services {
    pub(crate) description: Description,
    pub(crate) policy: Arc<PluginPolicy>,
    pub(crate) views: Arc<Views>,
    pub(crate) writer: Writer,
    pub(crate) client: ApiClient,
    pub(crate) recorder: Recorder,
    pub(crate) denials: Denials,
    pub(crate) memo: Arc<Memo>,
    pub(crate) guard: Arc<HostLimits>,
    /// In the order of the description.
    pub(crate) queues: Vec<Queue>,
    /// What it did.
    pub(crate) history: Arc<History>,
    /// Shared by all versions.
    pub(crate) route_turns: Arc<RouteTurns>,
    pub(crate) metrics: Group,
    /// Whether a fault in the use of metrics was logged: once is enough.
    pub(crate) metrics_warned: AtomicBool,
    /// The operator's values.
    pub(crate) config: BTreeMap<String, String>,
    /// The host's keys, as far as the plugin may use them.
    pub(crate) signer: SigningKeys,
    /// Where writes run, so that they outlive the call that made them.
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Services {
    /// What a read past the cache needs: the grant, the kind's path, and a turn within the plugin's rate.
    pub(crate) async fn readable(
        &self,
        kind: &str,
        verb: &str,
        namespace: &str,
    ) -> Result<Arc<ApiResource>, ApiError> {
        let kind: Kind = kind
            .parse()
            .map_err(|error| ApiError::invalid(format!("{error}")))?;
        self.policy.check(verb, &kind, "", namespace)?;
        let resource = self.writer.resolve(&kind).await?;
        self.writer.rate.wait().await;
        Ok(resource)
    }

    /// The plugin's name.
    pub(crate) fn name(&self) -> &str {
        &self.description.name
    }

    /// The queue of this name; the first one, if empty.
    pub(crate) fn queue(&self, name: &str) -> Result<&Queue, ApiError> {
        let found = self
            .queues
            .iter()
            .find(|queue| name.is_empty() || &*queue.name == name);
        found.ok_or_else(|| ApiError::invalid(format!("the plugin describes no queue `{name}`")))
    }

    /// The operator's value of a key, else the described default.
    pub(crate) fn config(&self, key: &str) -> Option<String> {
        let default = || {
            self.description
                .config
                .get(key)
                .and_then(|key| key.default.clone())
        };
        self.config.get(key).cloned().or_else(default)
    }

    /// Counts into the plugin's own metrics.
    pub(crate) fn metric(
        &self,
        count: impl FnOnce(&Group, &[&str]) -> Result<(), MetricsError>,
        labels: &[String],
    ) {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        if let Err(error) = count(&self.metrics, &labels)
            && !self.metrics_warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(controller = self.name(), %error, "a metric was dropped, and so will be others like it");
        }
    }

    /// Gives back what is needed no longer, and tells what was dropped. Called now and then.
    pub(crate) fn tidy(&self) {
        self.views.tidy();
        self.memo.tidy();
        self.history.look();
        self.guard.report_dropped();
    }

    /// Ends a quarantine at once, and tries again what failed.
    pub(crate) fn resume(&self) {
        for (queue, key) in self.guard.quarantine.resume() {
            if let Some(queue) = self.queues.get(queue) {
                queue.keys.add(key, Priority::Normal, Reason::Resumed);
            }
        }
    }

    /// Writes a guest's line to the log.
    pub(crate) fn log(
        &self,
        key: &str,
        level: LogLevel,
        message: &str,
        fields: &[(String, String)],
    ) {
        log_guest(self.name(), key, level, message, fields);
    }
}

/// The beginning of a text, at most so many bytes.
pub(crate) fn clip(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Writes a guest's line to the log, with its fields after the message.
pub(crate) fn log_guest(
    controller: &str,
    key: &str,
    level: LogLevel,
    message: &str,
    fields: &[(String, String)],
) {
    let mut text = clip(message, LINE).to_owned();
    for (name, value) in fields {
        if text.len() > LINE {
            break;
        }
        text.push_str(&format!(" {}={:?}", clip(name, LINE), clip(value, LINE)));
    }
    // A guest's control characters must not forge lines of the log.
    let text = printable(&text);
    match level {
        LogLevel::Trace => tracing::trace!(target: "flyball::guest", controller, key, "{text}"),
        LogLevel::Debug => tracing::debug!(target: "flyball::guest", controller, key, "{text}"),
        LogLevel::Info => tracing::info!(target: "flyball::guest", controller, key, "{text}"),
        LogLevel::Warn => tracing::warn!(target: "flyball::guest", controller, key, "{text}"),
        LogLevel::Error => tracing::error!(target: "flyball::guest", controller, key, "{text}"),
    }
}
