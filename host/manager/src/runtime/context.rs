//! What the tasks and the guest calls of one plugin version work with, grouped by who uses it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_types::description::{Description, Mapping, To};
use flyball_types::{ApiError, Kind};
use flyball_workqueue::{Held, Priority};

use crate::limits::host_limits::HostLimits;
use crate::policy::PluginPolicy;
use crate::reads::cached::CachedReads;
use crate::reads::live::LiveReads;
use crate::runtime::memo::Memo;
use crate::runtime::queue::{Queue, Reason};
use crate::runtime::route_turns::RouteTurns;
use crate::runtime::telemetry::PluginTelemetry;
use crate::signer::SigningKeys;
use crate::writer::Writer;

/// What one plugin version works with.
pub(crate) struct PluginContext {
    pub(crate) settings: Settings,
    pub(crate) reads: Reads,
    pub(crate) writer: Writer,
    /// In the order of the description.
    pub(crate) queues: Vec<Queue>,
    /// Shared by all versions.
    pub(crate) route_turns: Arc<RouteTurns>,
    pub(crate) memo: Arc<Memo>,
    pub(crate) signing_keys: SigningKeys,
    pub(crate) limits: Arc<HostLimits>,
    pub(crate) telemetry: PluginTelemetry,
    /// Runs writes, so that they outlive the guest call that asked for them.
    pub(crate) runtime: tokio::runtime::Handle,
}

/// What the plugin and the operator say.
pub(crate) struct Settings {
    pub(crate) description: Description,
    /// The SHA-256 of the file, in hex.
    pub(crate) digest: Arc<str>,
    pub(crate) policy: Arc<PluginPolicy>,
    /// The operator's values.
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) pace: Pace,
}

/// When a plugin begins, and how often it goes through all objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// The workers begin so long after they could, or up to twice that.
    pub(crate) start_interval: Duration,
    /// Each object whose own key a watch enqueues is enqueued again so often, or up to twice as rarely; none for never.
    pub(crate) resync: Option<Duration>,
}

/// The plugin's reads.
pub(crate) struct Reads {
    pub(crate) cached: Arc<CachedReads>,
    pub(crate) live: LiveReads,
}

impl Settings {
    /// Returns the operator's value of a key, else the described default.
    pub(crate) fn config(&self, key: &str) -> Option<String> {
        let default = || {
            self.description
                .config
                .get(key)
                .and_then(|key| key.default.clone())
        };
        self.values.get(key).cloned().or_else(default)
    }
}

impl PluginContext {
    /// The plugin's name.
    pub(crate) fn name(&self) -> &str {
        &self.settings.description.name
    }

    /// Returns the queue of this name; the first one if the name is empty.
    pub(crate) fn queue(&self, name: &str) -> Result<&Queue, ApiError> {
        let found = self
            .queues
            .iter()
            .find(|queue| name.is_empty() || &*queue.name == name);
        found.ok_or_else(|| ApiError::invalid(format!("the plugin describes no queue `{name}`")))
    }

    /// Whether the keys of a queue are objects of a kind that the predicate selects: a watch of such a kind enqueues the
    /// changed object itself.
    pub(crate) fn is_queue_of(&self, queue: &str, is_kind: &dyn Fn(&Kind) -> bool) -> bool {
        let is_own = |mapping: &Mapping| {
            let named = self.queue(&mapping.queue);
            mapping.to == To::Itself && named.is_ok_and(|named| &*named.name == queue)
        };
        self.settings
            .description
            .watches
            .iter()
            .any(|watch| watch.kind.as_ref().is_some_and(is_kind) && watch.map.iter().any(is_own))
    }

    /// Returns what all queues hold together.
    pub(crate) fn held_keys(&self) -> Held {
        let held = self.queues.iter().map(|queue| queue.keys.held());
        held.fold(Held::default(), |all, queue| Held {
            keys: all.keys + queue.keys,
            bytes: all.bytes + queue.bytes,
        })
    }

    /// Frees memory that is no longer needed, and reports what was dropped. Called periodically.
    pub(crate) fn tidy(&self) {
        self.reads.cached.tidy();
        self.memo.tidy();
        self.telemetry.history.update_rate();
        self.limits.report_dropped();
    }

    /// Ends a quarantine at once, and enqueues the keys that failed.
    pub(crate) fn resume(&self) {
        for (queue, key) in self.limits.quarantine.resume() {
            if let Some(queue) = self.queues.get(queue) {
                queue.keys.add(key, Priority::Normal, Reason::Resumed);
            }
        }
    }
}
