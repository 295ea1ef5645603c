//! A host with a thousand plugins, which the dashboard shows to tests.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use flyball_dashboard::{Followed, LocalServer, Problem, Query, Source, Warning};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const PLUGINS: usize = 1000;
/// Names and messages of plugins may be anything.
pub(crate) const MARKUP: &str = "<img src=x onerror=alert(1)>\u{202e}\u{1b}[2J";

/// A host whose plugins do what a test says.
#[derive(Default)]
pub(crate) struct FakeHost {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Added to what the first plugin has queued.
    queued: u64,
    is_lost: bool,
    logs: Vec<mpsc::Sender<String>>,
}

impl FakeHost {
    /// Changes the number of keys in the queue of the first plugin.
    pub(crate) fn queue(&self, keys: u64) {
        self.state.lock().queued = keys;
    }

    pub(crate) fn lose(&self, is_lost: bool) {
        self.state.lock().is_lost = is_lost;
    }

    /// Logs a line of each plugin that is followed.
    pub(crate) fn log(&self, line: &str) {
        let state = self.state.lock();
        for log in &state.logs {
            let _ = log.try_send(line.to_owned());
        }
    }

    fn answer(&self, query: &Query) -> Result<Value, Problem> {
        let state = self.state.lock();
        if state.is_lost {
            return Err(Problem::Unreachable("it has gone".to_owned()));
        }
        Ok(match query {
            Query::Host => {
                json!({"version": "0.2.0", "kubernetes": "1.37.2", "since": "2026-01-01T00:00:00Z"})
            }
            Query::Plugins => (0..PLUGINS).map(|at| status(at, state.queued)).collect(),
            Query::Trends => Value::Object((0..PLUGINS).map(trend).collect::<Map<_, _>>()),
            Query::Plugin(name) => match (0..PLUGINS).find(|at| self::name(*at) == *name) {
                Some(at) => details(at, state.queued),
                None => return Err(Problem::Refused(format!("there is no plugin `{name}`"))),
            },
            Query::Object(object) if object.contains("web") => causes(),
            Query::Object(_) => json!({"steps": [], "truncated": false}),
        })
    }
}

impl Source for FakeHost {
    fn document<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Value, Problem>> {
        Box::pin(async move { self.answer(query) })
    }

    fn follow<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Followed, Problem>> {
        Box::pin(async move {
            let (sender, further) = mpsc::channel(16);
            self.state.lock().logs.push(sender);
            let first = format!("2026-01-01T00:00:00.123Z  WARN \"{MARKUP}\" key=\"demo/web\"");
            Ok((vec![first], further))
        })
    }
}

pub(crate) fn name(at: usize) -> String {
    match at {
        0 => "deployment-controller".to_owned(),
        1 => "replicaset-controller".to_owned(),
        at => format!("tenant-{at:03}"),
    }
}

fn state_of(at: usize) -> &'static str {
    match at {
        2 => "quarantined",
        3 => "pending",
        4 => "failed",
        _ => "running",
    }
}

fn is_busy(at: usize) -> bool {
    at.is_multiple_of(3) || at < 2
}

fn status(at: usize, queued: u64) -> Value {
    let is_builtin = at < 2;
    let reason = match state_of(at) {
        "running" => Value::Null,
        state => json!(format!("{state}: {MARKUP}")),
    };
    let busy = |value: f64| if is_busy(at) { value } else { 0.0 };
    json!({
        "name": name(at), "version": if is_builtin { "" } else { "1.4.0" }, "digest": format!("{at:064x}"),
        "origin": if is_builtin { "built-in".to_owned() } else { format!("/plugins/{at}.wasm") },
        "state": state_of(at), "reason": reason, "rolledBack": at == 7, "queued": if at == 0 { queued } else { 0 },
        "processing": u64::from(is_busy(at)), "routeWaiting": 0, "routeFailing": 0, "reconciles": at * 17, "errors": at % 5,
        "perSecond": busy(2.5), "p50Ms": 0.4, "p99Ms": 9.5, "lastError": null, "lastWhy": "Pod demo/web-1 modified",
        "memory": if is_busy(at) { 9 << 20 } else { 0 }, "memo": 2048, "instances": u64::from(is_busy(at)), "cpuSeconds": busy(12.0),
    })
}

fn trend(at: usize) -> (String, Value) {
    let rate = (0..30).map(|part| 2.0 + f64::from((part * 7 + at as u32) % 11) / 4.0);
    let trend = match is_busy(at) {
        true => json!({
            "rate": rate.collect::<Vec<_>>(), "reconciles": 9000, "errors": if at.is_multiple_of(9) { 4 } else { 0 },
            "cpuSeconds": 31.5, "cores": 0.012, "p99Ms": 9.5,
        }),
        false => {
            json!({"rate": [], "reconciles": 0, "errors": 0, "cpuSeconds": 0, "cores": 0, "p99Ms": 0})
        }
    };
    (name(at), trend)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn details(at: usize, queued: u64) -> Value {
    const SAMPLES: u64 = 340;
    let wave = |base: f64, height: f64| -> Vec<f64> {
        let value = |sample: u64| base + height * (sample as f64 / 23.0).sin();
        (0..SAMPLES)
            .map(|sample| (value(sample) * 1e3).round() / 1e3)
            .collect()
    };
    // As on a host, a new sample comes every ten seconds.
    let end = now() / 10_000 * 10_000;
    let ends = (0..SAMPLES).map(|sample| end - (SAMPLES - 1 - sample) * 10_000);
    let errors = (0..SAMPLES).map(|sample| {
        if (200..230).contains(&sample) {
            0.8
        } else {
            0.0
        }
    });
    let done = |number: u64, failed: Value| {
        let wrote = match number % 3 {
            0 if failed.is_null() => json!(["update Deployment/status demo/web"]),
            _ => json!([]),
        };
        json!({
            "at": "2026-01-01T10:11:12.345Z", "plugin": name(at), "digest": format!("{at:064x}"), "queue": "deployment",
            "key": format!("demo/web-{number}"), "why": "ReplicaSet demo/web-7d9c modified", "coalesced": number % 2,
            "attempt": 0, "queuedMs": 0.3, "tookMs": 3.25, "failed": failed, "wrote": wrote,
        })
    };
    json!({
        "status": status(at, queued),
        "trend": {
            "at": ends.collect::<Vec<_>>(), "seconds": vec![10.0; SAMPLES as usize], "perSecond": wave(12.0, 6.0),
            "errorsPerSecond": errors.collect::<Vec<_>>(), "p50Ms": wave(0.4, 0.1), "p99Ms": wave(12.0, 8.0),
            "queued": wave(8.0, 7.0), "memory": wave(2e7, 3e6), "cores": wave(0.2, 0.1),
        },
        "limits": [
            {"name": "cpu-share", "unit": "cores", "limit": 0.25, "used": 0.24, "hits": 1204},
            {"name": "total-memory", "unit": "bytes", "limit": 512 << 20, "used": 380 << 20, "hits": 0},
            {"name": "instances", "unit": "count", "limit": 10, "used": 2, "hits": 3},
            {"name": "cpu", "unit": "milliseconds", "limit": 1000, "used": null, "hits": 2},
            {"name": "writes-per-second", "unit": "per-second", "limit": 20, "used": null, "hits": 0},
        ],
        "queues": [{"name": "deployment", "waiting": queued, "delayed": 1, "processing": 1, "longestMs": 12.5}],
        "asks": [
            {"text": "watch apps/v1/Deployment", "granted": true}, {"text": "delete v1/Secret", "granted": false},
        ],
        "rules": ["watch apps/v1/Deployment, apps/v1/ReplicaSet"],
        "account": "flyball-system/deployment-controller",
        "versions": [
            {"digest": "ab".repeat(32), "version": "1.4.0", "package": null, "role": "runs", "canRollBack": false},
            {"digest": "cd".repeat(32), "version": "1.3.2", "package": null, "role": "before", "canRollBack": true},
        ],
        "failures": [done(3, json!(MARKUP)), done(5, json!("the object has been modified"))],
        "recent": (0..30).map(|number| done(number, Value::Null)).collect::<Vec<_>>(),
    })
}

fn causes() -> Value {
    let wrote = |kind: &str, key: &str| json!([{"verb": "update", "kind": kind, "subresource": "", "key": key}]);
    let step = |id: u64, plugin: usize, key: &str, start: f64, from: Value, objects: Value| {
        json!({
            "id": id, "plugin": name(plugin), "digest": "", "queue": "q", "key": key, "at": "2026-01-01T10:11:12.345Z",
            "startMs": 1_767_261_600_000.0 + start, "queuedMs": 0.5, "tookMs": 4.0, "why": "ReplicaSet demo/web-1 modified",
            "cause": "ReplicaSet/demo/web-1", "coalesced": 0, "attempt": 0, "failed": if id == 2 { json!(MARKUP) } else { Value::Null },
            "wrote": [], "objects": objects, "about": plugin == 0, "from": from, "link": if from.is_null() { Value::Null } else { json!("write") },
        })
    };
    let steps = [
        step(
            0,
            0,
            "demo/web",
            0.0,
            Value::Null,
            wrote("ReplicaSet", "demo/web-1"),
        ),
        step(
            1,
            1,
            "demo/web-1",
            9.0,
            json!(0),
            wrote("Pod", "demo/web-1-a"),
        ),
        step(2, 1, "demo/web-1", 31.0, json!(1), json!([])),
        step(
            3,
            0,
            "demo/web",
            61_000.0,
            Value::Null,
            wrote("Deployment", "demo/web"),
        ),
    ];
    json!({"steps": steps, "truncated": false})
}

/// A dashboard on loopback, in this process.
pub(crate) struct Served {
    pub(crate) host: Arc<FakeHost>,
    pub(crate) server: Arc<LocalServer>,
    pub(crate) warnings: Arc<Mutex<Vec<Warning>>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let host = Arc::<FakeHost>::default();
        let warnings = Arc::<Mutex<Vec<Warning>>>::default();
        let noted = warnings.clone();
        let warn = move |warning| noted.lock().push(warning);
        let server = LocalServer::bind(host.clone(), 0, warn).await?;
        let (server, stop) = (Arc::new(server), CancellationToken::new());
        let task = tokio::spawn(server.clone().serve(stop.clone()));
        Ok(Self {
            host,
            server,
            warnings,
            stop,
            task,
        })
    }

    /// The address and port.
    pub(crate) fn authority(&self) -> String {
        let link = self.server.link();
        let rest = link.trim_start_matches("http://");
        rest.split('/').next().unwrap_or_default().to_owned()
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        Ok(self.task.await?)
    }
}
