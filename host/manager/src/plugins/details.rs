//! All that operators can see of one plugin: its work in the last hour, its limits and how near it is to them, what it
//! asks for and is granted, its versions, and its last reconciles.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use flyball_limits::rate::RateLimiter;
use flyball_plugin::{Limit, Plugin};
use flyball_policy::{PluginPolicy, Rule};
use flyball_runtime::context::PluginContext;
use flyball_runtime::history::{HistoryEntry, Reconciled};
use flyball_runtime::queue::Queue;
use flyball_runtime::trend::Trend;
use flyball_types::printable;
use serde::{Deserialize, Serialize};

use crate::plugins::canary::CanaryStatus;
use crate::plugins::load::{LoadedPlugin, Origin};
use crate::plugins::plan::Version;
use crate::plugins::rollback::PluginVersions;
use crate::plugins::shadows::ShadowStatus;
use crate::plugins::start::RunningVersion;
use crate::plugins::status::PluginStatus;

/// How many of the last reconciles are shown.
const RECENT: usize = 50;
/// How many of the last failures are shown.
const FAILURES: usize = 20;

/// The details of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginDetails {
    pub status: PluginStatus,
    /// The last hour; empty if the plugin does not run.
    pub trend: Trend,
    /// Empty if the plugin does not run.
    pub limits: Vec<LimitUse>,
    pub queues: Vec<QueueUse>,
    /// The permissions that it asks for.
    pub asks: Vec<Asked>,
    /// The rules of its policy, as half sentences.
    pub rules: Vec<String>,
    /// The service account that its requests are made as, in the form `namespace/name`. None for the host's own
    /// credentials, and while it does not run.
    pub account: Option<String>,
    /// The version that runs, the version of its file if that is another one, and those that one can roll back to.
    /// Empty for a built-in.
    pub versions: Vec<KnownVersion>,
    /// The last failures, the newest first.
    pub failures: Vec<Reconciled>,
    /// The last reconciles, the newest first.
    pub recent: Vec<Reconciled>,
    /// The candidate in its shadow, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
    /// Its canary, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStatus>,
}

/// A limit of a plugin, and how much of it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitUse {
    /// Its key in the policy.
    pub name: String,
    pub unit: LimitUnit,
    /// None for no limit.
    pub limit: Option<f64>,
    /// None for a limit of single calls or of rates.
    pub used: Option<f64>,
    /// How often it has held the plugin back since the version started.
    pub hits: u64,
}

/// The unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitUnit {
    Bytes,
    Cores,
    Count,
    Milliseconds,
    PerSecond,
}

/// The keys of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueUse {
    pub name: String,
    /// Keys that are ready.
    pub waiting: usize,
    /// Keys that are not due yet.
    pub delayed: usize,
    /// Keys that are being reconciled.
    pub processing: usize,
    /// How long the longest of these has been reconciled, in milliseconds.
    pub longest_ms: f64,
}

/// A permission that a plugin asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Half a sentence, as in `watch v1/Pod`.
    pub text: String,
    pub granted: bool,
}

/// A version of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownVersion {
    /// The SHA-256 of its file, in hex.
    pub digest: String,
    /// Its own name, as in `1.0.0`; empty if it has none.
    pub version: String,
    /// The package that it came from; none for a file.
    pub package: Option<String>,
    pub role: VersionRole,
    /// Whether `flyball rollback` leads to it.
    pub can_roll_back: bool,
}

/// What a version is to its plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionRole {
    Runs,
    /// The version of the file or package, which does not run.
    Waits,
    /// It ran before.
    Before,
}

impl PluginDetails {
    /// The details of a file or package that has never been loaded.
    pub(crate) fn not_loaded(status: PluginStatus) -> Self {
        Self {
            status,
            trend: Trend::default(),
            limits: Vec::new(),
            queues: Vec::new(),
            asks: Vec::new(),
            rules: Vec::new(),
            account: None,
            versions: Vec::new(),
            failures: Vec::new(),
            recent: Vec::new(),
            shadow: None,
            canary: None,
        }
    }

    /// The same with the candidates of the plugin, without the examples of their calls, which have data of objects.
    pub(crate) fn with_candidates(
        self,
        mut shadow: Option<ShadowStatus>,
        canary: Option<CanaryStatus>,
    ) -> Self {
        let groups = shadow
            .iter_mut()
            .flat_map(|shadow| &mut shadow.findings.groups);
        groups.for_each(|group| group.example.clear());
        Self {
            shadow,
            canary,
            ..self
        }
    }

    /// The details of a plugin whose file or package is `loaded`. `policy` is the one in force, or else the operator's.
    pub(crate) fn new(
        status: PluginStatus,
        loaded: &LoadedPlugin,
        running: Option<&RunningVersion>,
        policy: Option<&PluginPolicy>,
        kept: Option<&PluginVersions>,
    ) -> Self {
        let context = running.map(|running| &**running.tasks.context());
        let history = context.map(|context| &context.telemetry.history);
        let version = running.map(|running| &running.version);
        let described = version.map_or(loaded, |version| &version.plugin);
        let nothing = PluginPolicy::default();
        let in_force = policy.unwrap_or(&nothing);
        let asked = described.asks.iter().map(|ask| Asked {
            text: printable(&ask.to_string()),
            granted: ask.is_granted(in_force),
        });
        let is_builtin = version.is_some_and(|version| version.grant.is_builtin);
        let account = version.and_then(|version| version.grant.account.as_ref());
        let name = status.name.clone();
        let last = |most: usize, has_failed: bool| {
            let select = |done: &HistoryEntry| !has_failed || done.failed.is_some();
            history.map_or_else(Vec::new, |history| history.last(&name, most, select))
        };
        Self {
            trend: history.map(|history| history.trend()).unwrap_or_default(),
            limits: running.map(limits).unwrap_or_default(),
            queues: context.map(queues).unwrap_or_default(),
            asks: asked.collect(),
            rules: in_force.allow.iter().map(in_words).collect(),
            account: account.map(|(namespace, name)| format!("{namespace}/{name}")),
            versions: match is_builtin {
                true => Vec::new(),
                false => versions(loaded, version, kept),
            },
            failures: last(FAILURES, true),
            recent: last(RECENT, false),
            shadow: None,
            canary: None,
            status,
        }
    }
}

/// A rule as half a sentence, as in `create, update v1/ConfigMap in demo`.
fn in_words(rule: &Rule) -> String {
    let verbs: Vec<&str> = rule.verbs.iter().map(String::as_str).collect();
    let mut text = format!("{} {}", verbs.join(", "), rule.kinds.join(", "));
    if !rule.subresource.is_empty() {
        text.push_str(&format!("/{}", rule.subresource));
    }
    if !rule.namespaces.is_empty() {
        text.push_str(&format!(" in {}", rule.namespaces.join(", ")));
    }
    if !rule.fields.is_empty() {
        text.push_str(&format!(": {}", rule.fields.join(", ")));
    }
    printable(&text)
}

fn versions(
    loaded: &LoadedPlugin,
    runs: Option<&Version>,
    kept: Option<&PluginVersions>,
) -> Vec<KnownVersion> {
    let known = |plugin: &LoadedPlugin, role, can_roll_back| KnownVersion {
        digest: plugin.digest.clone(),
        version: printable(&plugin.description.version),
        package: match &plugin.origin {
            Origin::Package(address) => Some(address.clone()),
            Origin::File(_) | Origin::BuiltIn(_) => None,
        },
        role,
        can_roll_back,
    };
    let running = runs.map(|runs| known(&runs.plugin, VersionRole::Runs, false));
    let is_other = runs.is_none_or(|runs| runs.plugin.digest != loaded.digest);
    let file = is_other.then(|| known(loaded, VersionRole::Waits, false));
    let mut all: Vec<KnownVersion> = running.into_iter().chain(file).collect();
    for (digest, name, package) in kept.into_iter().flat_map(PluginVersions::before) {
        if all.iter().all(|known| known.digest != digest) {
            all.push(KnownVersion {
                digest: digest.to_owned(),
                version: printable(name.unwrap_or_default()),
                package: package.map(str::to_owned),
                role: VersionRole::Before,
                can_roll_back: true,
            });
        }
    }
    all
}

fn queues(context: &PluginContext) -> Vec<QueueUse> {
    let used = |queue: &Queue| {
        let keys = queue.keys.snapshot();
        QueueUse {
            name: queue.name.to_string(),
            waiting: keys.depth(),
            delayed: keys.delayed,
            processing: keys.processing,
            longest_ms: keys.longest_running.as_secs_f64() * 1e3,
        }
    };
    context.queues.iter().map(used).collect()
}

/// Returns the limits that a running version has, and those that it has hit.
fn limits(running: &RunningVersion) -> Vec<LimitUse> {
    let (plugin, context) = (running.tasks.plugin(), running.tasks.context());
    let of_guest = Limit::ALL.map(|limit| of_guest(plugin, context, limit));
    let of_host = context.limits.hits().map(|(name, hits)| LimitUse {
        hits,
        ..of_host(context, name)
    });
    let writes = context.writer.rate();
    let hits = |rate: &RateLimiter| rate.waits().load(Relaxed);
    let requests = LimitUse {
        hits: hits(writes) + hits(context.reads.live.rate()),
        ..limit(
            "writes-per-second",
            LimitUnit::PerSecond,
            per_second(writes.per_second()),
            None,
        )
    };
    let all = of_guest.into_iter().chain(of_host).chain([requests]);
    all.filter(|limit| limit.limit.is_some() || limit.hits > 0)
        .collect()
}

fn of_guest(plugin: &Plugin, context: &PluginContext, of: Limit) -> LimitUse {
    let (limits, stats) = (plugin.limits(), plugin.stats());
    let bytes = |limit: usize, used: Option<usize>| {
        limit_of(
            of,
            LimitUnit::Bytes,
            Some(limit as f64),
            used.map(|used| used as f64),
        )
    };
    let count = |limit: usize, used: Option<usize>| {
        limit_of(
            of,
            LimitUnit::Count,
            Some(limit as f64),
            used.map(|used| used as f64),
        )
    };
    let time = |limit: Duration| {
        limit_of(
            of,
            LimitUnit::Milliseconds,
            Some(limit.as_secs_f64() * 1e3),
            None,
        )
    };
    let used = match of {
        Limit::Cpu => time(limits.cpu_per_call),
        Limit::Wall => time(limits.wall_per_call),
        Limit::CpuShare => {
            let cores = limits.cpu_share.map(|share| f64::from(share) / 1e3);
            let used = context.telemetry.history.trend_brief().cores;
            limit_of(of, LimitUnit::Cores, cores, Some(used))
        }
        Limit::Memory => bytes(limits.memory, None),
        Limit::TotalMemory => {
            let limit = plugin.total_memory().map(|limit| limit as f64);
            limit_of(of, LimitUnit::Bytes, limit, Some(stats.memory as f64))
        }
        Limit::Instances => count(limits.max_instances, Some(stats.live)),
        Limit::Answer => bytes(limits.answer_bytes, None),
        Limit::Staged => bytes(limits.staged_bytes, None),
        Limit::Held => bytes(limits.held_bytes, Some(stats.held)),
        Limit::Connections => count(limits.connections, None),
        Limit::Handles => count(limits.handles, None),
        // Their amounts are the host's, for all plugins or for each text.
        Limit::SharedMemory | Limit::Argument => limit_of(of, LimitUnit::Bytes, None, None),
    };
    LimitUse {
        hits: stats.hits.of(of),
        ..used
    }
}

fn of_host(context: &PluginContext, name: &'static str) -> LimitUse {
    let limits = &context.limits;
    match name {
        "log-lines-per-second" => {
            let rate = per_second(limits.log_lines.per_second());
            limit(name, LimitUnit::PerSecond, rate, None)
        }
        "events-per-second" => {
            let rate = per_second(limits.events.per_second());
            limit(name, LimitUnit::PerSecond, rate, None)
        }
        "queued-keys" => {
            let used = context.held_keys().keys as f64;
            let most = limits.queued_keys().map(f64::from);
            limit(name, LimitUnit::Count, most, Some(used))
        }
        "memo" => {
            let memo = &context.memo;
            let (most, used) = (memo.capacity() as f64, memo.bytes() as f64);
            limit(name, LimitUnit::Bytes, Some(most), Some(used))
        }
        _ => limit(name, LimitUnit::Count, None, None),
    }
}

fn limit_of(of: Limit, unit: LimitUnit, most: Option<f64>, used: Option<f64>) -> LimitUse {
    limit(of.name(), unit, most, used)
}

fn limit(name: &str, unit: LimitUnit, most: Option<f64>, used: Option<f64>) -> LimitUse {
    LimitUse {
        name: name.to_owned(),
        unit,
        limit: most,
        used,
        hits: 0,
    }
}

/// A rate of 0 means no limit.
fn per_second(rate: f64) -> Option<f64> {
    Some(rate).filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_rule_is_told_in_words() {
        let mut rule = Rule {
            kinds: vec!["v1/ConfigMap".into()],
            verbs: BTreeSet::from(["create".into(), "update".into()]),
            ..Rule::default()
        };
        assert_eq!(in_words(&rule), "create, update v1/ConfigMap");
        rule.namespaces = vec!["demo".into(), "test".into()];
        rule.subresource = "status".into();
        rule.fields = vec!["data".into()];
        assert_eq!(
            in_words(&rule),
            "create, update v1/ConfigMap/status in demo, test: data"
        );
    }
}
