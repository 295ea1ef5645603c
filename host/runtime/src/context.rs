//! The context that the tasks and the guest calls of one plugin version work with, grouped by user.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flyball_limits::host_limits::HostLimits;
use flyball_plugin::Stats;
use flyball_policy::PluginPolicy;
use flyball_reads::cached::CachedReads;
use flyball_reads::live::LiveReads;
use flyball_rehearse::Recorder;
use flyball_signer::SigningKeys;
use flyball_types::description::{Description, Mapping, To};
use flyball_types::{ApiError, Kind};
use flyball_workqueue::{Held, Priority};
use flyball_writer::Writer;

use crate::clouds::Clouds;
use crate::credentials::Credentials;
use crate::memo::Memo;
use crate::queue::{Queue, Reason};
use crate::route_turns::RouteTurns;
use crate::split::Split;
use crate::telemetry::PluginTelemetry;
use crate::trend::Usage;

/// The context of one plugin version.
pub struct PluginContext {
    pub settings: Settings,
    pub reads: Reads,
    pub writer: Writer,
    /// In the order of the description.
    pub queues: Vec<Queue>,
    /// Shared by all versions.
    pub route_turns: Arc<RouteTurns>,
    pub memo: Arc<Memo>,
    /// Decides which keys are another version's. Shared by all versions.
    pub split: Arc<Split>,
    pub signing_keys: SigningKeys,
    pub clouds: Arc<Clouds>,
    /// Of the provider of a cloud; none if the policy gives none.
    pub credentials: Option<Arc<Credentials>>,
    pub limits: Arc<HostLimits>,
    pub telemetry: PluginTelemetry,
    /// Keeps the calls that end badly. Shared by all versions.
    pub recorder: Arc<Recorder>,
    /// Runs the host's requests for the plugin: writes outlive the guest call that asked for them.
    pub runtime: tokio::runtime::Handle,
}

/// The plugin's description and the operator's settings.
pub struct Settings {
    pub description: Description,
    /// The SHA-256 of the file, in hex.
    pub digest: Arc<str>,
    pub policy: Arc<PluginPolicy>,
    /// The operator's values.
    pub values: BTreeMap<String, String>,
    /// Values that are looked up when the guest asks for them, if the operator set none.
    pub lookup: Option<Arc<Lookup>>,
    pub pace: Pace,
}

/// Returns the value of a configuration key. It must not block for long.
pub type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The start and the resync interval of a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The workers begin between one and two `start_interval`s after they could.
    pub start_interval: Duration,
    /// Interval of the resync. A watch that enqueues the object itself enqueues each object again after one to two
    /// intervals; none for never.
    pub resync: Option<Duration>,
}

/// The plugin's reads.
pub struct Reads {
    pub cached: Arc<CachedReads>,
    pub live: LiveReads,
}

impl Settings {
    /// Returns the operator's value of a key, else the one that is looked up, else the described default.
    pub fn config(&self, key: &str) -> Option<String> {
        let default = || {
            self.description
                .config
                .get(key)
                .and_then(|key| key.default.clone())
        };
        let looked_up = || self.lookup.as_ref()?(key);
        self.values
            .get(key)
            .cloned()
            .or_else(looked_up)
            .or_else(default)
    }
}

impl PluginContext {
    /// The plugin's name.
    pub fn name(&self) -> &str {
        &self.settings.description.name
    }

    /// Returns the queue of this name; the first one if the name is empty.
    pub fn queue(&self, name: &str) -> Result<&Queue, ApiError> {
        let found = self
            .queues
            .iter()
            .find(|queue| name.is_empty() || &*queue.name == name);
        found.ok_or_else(|| ApiError::invalid(format!("the plugin describes no queue `{name}`")))
    }

    /// Whether the keys of a queue are objects of a kind that the predicate selects: a watch of such a kind enqueues
    /// the changed object itself.
    pub fn is_queue_of(&self, queue: &str, is_kind: &dyn Fn(&Kind) -> bool) -> bool {
        let mut kinds = self.kinds_of_keys();
        kinds.any(|(named, kind)| &**named == queue && is_kind(kind))
    }

    /// Returns the queues whose keys are objects, each with their kind; a queue may have several kinds.
    pub fn kinds_of_keys(&self) -> impl Iterator<Item = (&Arc<str>, &Kind)> {
        let watches = self.settings.description.watches.iter();
        watches.flat_map(move |watch| {
            let own = |mapping: &&Mapping| mapping.to == To::Itself;
            let queues = watch.map.iter().filter(own);
            queues.filter_map(move |mapping| {
                let queue = self.queue(&mapping.queue).ok()?;
                Some((&queue.name, watch.kind.as_ref()?))
            })
        })
    }

    /// Returns the number and the size of the keys in all queues together.
    pub fn held_keys(&self) -> Held {
        let held = self.queues.iter().map(|queue| queue.keys.held());
        held.fold(Held::default(), |all, queue| Held {
            keys: all.keys + queue.keys,
            bytes: all.bytes + queue.bytes,
            memory: all.memory + queue.memory,
        })
    }

    /// Returns the memory in bytes that the host holds for the plugin besides its instances and its calls, by its use.
    pub fn held_memory(&self) -> [(&'static str, usize); 6] {
        let Held { bytes, memory, .. } = self.held_keys();
        [
            // The two reasons of a key name objects. Their names are about as long as the key.
            ("keys", memory + 2 * bytes),
            ("history", self.telemetry.history.bytes()),
            ("memo", self.memo.bytes()),
            ("metrics", self.telemetry.metrics.size()),
            ("recordings", self.recorder.bytes()),
            ("route", self.limits.route.bytes()),
        ]
    }

    /// Frees unused memory, takes a sample of what the plugin uses, and logs how many log lines and events were dropped.
    /// Called every ten seconds or so.
    pub fn tidy(&self, stats: &Stats) {
        self.reads.cached.tidy();
        self.memo.tidy();
        self.telemetry.history.update_rate();
        let usage = Usage {
            cpu: stats.cpu,
            memory: stats.memory,
            queued: self.queues.iter().map(|queue| queue.keys.len()).sum(),
        };
        self.telemetry.history.sample(SystemTime::now(), usage);
        self.limits.report_dropped();
    }

    /// Ends a quarantine at once, and enqueues the keys that failed.
    pub fn resume(&self) {
        for (queue, key) in self.limits.quarantine.resume() {
            if let Some(queue) = self.queues.get(queue) {
                let cause = Reason::Resumed.into();
                queue.keys.add(key, Priority::Normal, cause);
            }
        }
    }
}
