//! Whether a version that was started can work yet: its state, and the health checks that report it.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flyball_cache::Informer;
use flyball_limits::host_limits::HostLimits;
use flyball_limits::quarantine::QuarantineState;
use flyball_plugin::Plugin;
use flyball_runtime::discovered_informers::DiscoveredInformers;
use flyball_serving::HealthChecks;
use flyball_serving::health::{CheckName, Note, Registration};

use crate::plugins::open::{kinds_of, waits_for};
use crate::plugins::status::PluginState;

/// How long calls wait for an instance slot before the plugin counts as starved.
const STARVED: Duration = Duration::from_secs(10);

/// Returns a sentence that names a missing thing; `None` if nothing is missing.
type Missing = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The reasons why a version can't work.
#[derive(Clone)]
pub(super) struct WaitsFor {
    /// Kinds that the API server does not serve.
    kinds: Missing,
    caches: Missing,
    /// Instance slots.
    slots: Missing,
}

impl WaitsFor {
    pub(super) fn new(
        plugin: &Plugin,
        informers: &[(usize, Informer)],
        discovered: Option<&DiscoveredInformers>,
    ) -> Self {
        Self {
            kinds: missing_kinds(informers),
            caches: unsynced(informers, discovered),
            slots: starved(plugin),
        }
    }

    /// Returns a sentence that names the first missing thing; `None` if nothing is missing.
    pub(super) fn reason(&self) -> Option<String> {
        (self.kinds)()
            .or_else(|| (self.caches)())
            .or_else(|| (self.slots)())
    }
}

/// The state of a version that was started. `leads` is whether this process holds the plugin's lease.
pub(super) fn state_of(limits: &HostLimits, waits_for: &WaitsFor, leads: bool) -> PluginState {
    if limits.quarantine.state() != QuarantineState::Running {
        PluginState::Quarantined
    } else if (waits_for.kinds)().is_some() {
        PluginState::WaitingForKind
    } else if waits_for.reason().is_some() {
        PluginState::Starting
    } else if leads {
        PluginState::Running
    } else {
        PluginState::Standby
    }
}

/// The health checks of a version.
pub(super) struct Checks {
    _registrations: Vec<Registration>,
    _notes: Vec<Note>,
}

/// Adds the checks of a version. A built-in has a liveness check that never fails, with the name that it has in
/// kube-controller-manager. The host is not ready until its informers are synced, nor while it is starved. The checks
/// of a dropped-in plugin have names of their own and don't affect the host's readiness: a watch that never syncs must
/// not keep the host from being ready.
pub(super) fn checks(
    health: &HealthChecks,
    name: &str,
    is_builtin: bool,
    waits_for: &WaitsFor,
) -> Checks {
    let (own, informers, instances) = (
        name.to_owned(),
        CheckName::Informers(name.to_owned()),
        CheckName::Instances(name.to_owned()),
    );
    if is_builtin {
        let alive = health.add(CheckName::Controller(own), || Ok(()));
        let ready = |name, missing: &Missing| {
            let missing = missing.clone();
            health.add_readiness(name, move || missing().map_or(Ok(()), Err))
        };
        Checks {
            _registrations: vec![
                alive,
                ready(informers, &waits_for.caches),
                ready(instances, &waits_for.slots),
            ],
            _notes: Vec::new(),
        }
    } else {
        let alive = health.add(CheckName::Plugin(own), || Ok(()));
        let note = |name, text, missing: &Missing| {
            let missing = missing.clone();
            health.note_while(name, text, move || missing().is_some())
        };
        Checks {
            _registrations: vec![alive],
            _notes: vec![
                note(informers, "not synced", &waits_for.caches),
                note(instances, "starved", &waits_for.slots),
            ],
        }
    }
}

/// Says which informers of a version are not synced yet.
fn unsynced(informers: &[(usize, Informer)], discovered: Option<&DiscoveredInformers>) -> Missing {
    let informers = informers.to_vec();
    let discovered_ready = discovered.map(DiscoveredInformers::ready);
    Arc::new(move || {
        waits_for(&informers).or_else(|| {
            let ready = discovered_ready.as_ref()?;
            (!ready.load(Ordering::Acquire))
                .then(|| "waits until the caches of all discovered kinds are synced".to_owned())
        })
    })
}

/// Names the kinds that the API server does not serve.
fn missing_kinds(informers: &[(usize, Informer)]) -> Missing {
    let informers = informers.to_vec();
    Arc::new(move || {
        let kinds = kinds_of(&informers, Informer::is_kind_missing)?;
        Some(format!("waits until the API server serves {kinds} again"))
    })
}

/// Says that a plugin's calls have waited for instance slots for long.
fn starved(plugin: &Plugin) -> Missing {
    let plugin = plugin.clone();
    Arc::new(move || starvation(plugin.stats().starved))
}

fn starvation(waited: Duration) -> Option<String> {
    (waited > STARVED).then(|| {
        format!(
            "is starved: its calls have waited for an instance slot for {} s; `flyball status` shows which plugins hold them",
            waited.as_secs()
        )
    })
}
