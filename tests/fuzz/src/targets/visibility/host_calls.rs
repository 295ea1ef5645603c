//! Sequences of host calls by a guest in its sandbox. Each line of the input is the script of one call of the guest
//! `faulty`, which runs it against the manager's own host calls and the server of [`super::server`]:
//!
//! - The call returns, or fails for a reason that is the guest's own. The host never fails.
//! - After it, the host holds nothing for it any more.
//! - All markers that it returns are granted by the policy.
//! - The memo and the queues answer like a simple [`Model`] of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use flyball_cluster_tests::guest;
use flyball_plugin::{CallError, Component, Engine, EngineOptions, Limits, Outcome, Plugin};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::guest_calls::GuestCalls;
use super::model::{Grant, visibility, visible_markers};
use super::plugin_view::PluginView;
use super::script::Script;
use super::{markers, server};
use crate::targets::{Target, Verdict};

pub(in crate::targets) const HOST_CALLS: Target = Target {
    name: "host-calls",
    tokens: || TOKENS.to_vec(),
    feed: host_calls,
};

const TOKENS: &[&str] = &[
    r#"{"get":["v1/Secret","demo","o0",["data.a"]]},"#,
    r#"{"get":["v1/Secret","demo","o0",[]]},"#,
    r#"{"list":{"kind":"v1/Secret","limit":1,"pages":3}},"#,
    r#"{"list":{"kind":"v1/Secret","columns":["data.a","data"]}},"#,
    r#"{"list":{"kind":"v1/ConfigMap","count":2000,"limit":1}},"#,
    r#"{"count":{"kind":"v1/Secret","conditions":[["index/a","x"]]}},"#,
    r#"{"live":{"kind":"v1/Secret","namespace":"demo","name":"o0"}},"#,
    r#"{"live":{"kind":"v1/Secret","namespace":"other","count":3}},"#,
    r#"{"live":{"raw":"/api/v1/namespaces/demo/secrets/o0"}},"#,
    r#"{"live":{"raw":"/api/v1/watch/secrets"}},"#,
    r#"{"write":{"verb":"patch","type":"merge","kind":"v1/Secret","namespace":"demo","name":"o0","body":"{}","returns":["."]}},"#,
    r#"{"write":{"verb":"update","kind":"v1/Secret","namespace":"demo","name":"o0","version":"10","body":"{\"data\":{\"a\":null}}"}},"#,
    r#"{"write":{"verb":"create","kind":"v1/ConfigMap","namespace":"demo","body":"{\"metadata\":{\"name\":\"o%N\"}}","count":5}},"#,
    r#"{"write":{"verb":"delete","kind":"v1/Secret","namespace":"other","name":"o1"}},"#,
    r#"{"event":{"kind":"v1/Secret","namespace":"demo/pods","name":"o0","message":"m"}},"#,
    r#"{"log":{"text":"line\nlevel=error","fields":["a"],"count":3}},"#,
    r#"{"memo-get":"k"},"#,
    r#"{"memo-put":["k",0,"v"]},"#,
    r#"{"memo-put":["k",1,"v"]},"#,
    r#"{"memo-remove":"k"},"#,
    r#"{"enqueue":["","k",3]},"#,
    r#"{"enqueue":["q2","k"]},"#,
    r#"{"enqueue":["unknown","k"]},"#,
    r#"{"requeues":["q","k/0"]},"#,
    r#"{"metric":["fuzz_total",["a"]]},"#,
    r#"{"kinds":null},"#,
    r#"{"sign":"key"},"#,
    r#"{"memory":1000000000},"#,
    r#"{"fail":"panic"},"#,
    r#"{"text":"a","times":100000}"#,
    "[",
    "]\n[",
    "4294967295",
];

/// The policy, the description and the objects: see [`super::script`].
const WORLD: &str = r#"
allow v1/Secret watch,get,list - demo data.a
allow v1/Secret update,patch - demo
allow v1/Secret watch,list - other metadata.labels
allow v1/ConfigMap watch - - data
allow v1/ConfigMap create - -
import raw
watch v1/Secret demo data.a
watch v1/Secret other metadata.labels
watch v1/ConfigMap - data
object v1/Secret {"metadata":{"labels":{"app":"?"}},"data":{"a":"?","b":"?"}}
object v1/Secret {"metadata":{"namespace":"other","labels":{"app":"?"}},"data":{"a":"?","b":"?"}}
object v1/ConfigMap {"metadata":{"annotations":{"a":"?"}},"data":{"a":"?","?k":"?"}}
object v1/ConfigMap {"metadata":{"namespace":"other"},"data":{"a":"?"}}
"#;

/// The most calls of an input, so that it takes milliseconds.
const MAX_CALLS: usize = 6;

const QUEUES: [&str; 2] = ["q", "q2"];

struct Sandbox {
    runtime: Runtime,
    engine: Engine,
    guest: Component,
    world: Script,
    /// Every text that some grant of the policy lets the guest see.
    visible: BTreeSet<String>,
}

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("the machine has threads");
    let engine = Engine::new(EngineOptions {
        max_instances: 16,
        ..EngineOptions::default()
    });
    let engine = engine.expect("the options are valid");
    let wasm = guest("faulty").and_then(|path| Ok(std::fs::read(path)?));
    let wasm = wasm.expect("the guest `faulty` is built");
    let guest = runtime.block_on(engine.load(wasm.into()));
    let world = Script::parse(WORLD);
    Sandbox {
        visible: visible(&world),
        runtime,
        engine,
        guest: guest.expect("the guest is a component"),
        world,
    }
});

fn visible(world: &Script) -> BTreeSet<String> {
    let subresource = String::new;
    let grants = [
        Grant::Watch,
        Grant::Live {
            verb: "get",
            subresource: subresource(),
        },
        Grant::Live {
            verb: "list",
            subresource: subresource(),
        },
        // The server answers a creation with any object, so this shows all of a kind that may be created.
        Grant::Answer {
            creates: true,
            subresource: subresource(),
        },
    ];
    let mut found = BTreeSet::new();
    for grant in &grants {
        for object in &world.objects {
            let seen = visibility(&world.rules, grant, object);
            visible_markers(&object.version, &seen, &mut found);
        }
    }
    found
}

fn limits() -> Limits {
    Limits {
        cpu_per_call: Duration::from_millis(100),
        wall_per_call: Duration::from_secs(5),
        memory: 16 << 20,
        answer_bytes: 1 << 20,
        staged_bytes: 1 << 20,
        held_bytes: 2 << 20,
        ..Limits::default()
    }
}

fn host_calls(input: &[u8]) -> Verdict {
    let input = String::from_utf8_lossy(input);
    SANDBOX.runtime.block_on(run(&SANDBOX, &input))
}

async fn run(sandbox: &Sandbox, input: &str) -> Verdict {
    let plugin = Plugin::new(&sandbox.engine, sandbox.guest.clone(), limits());
    let plugin = plugin.map_err(|error| error.to_string())?;
    let world = &sandbox.world;
    let mut description: Value =
        serde_json::from_str(&world.description()).map_err(|error| error.to_string())?;
    description["queues"] = QUEUES
        .map(|name| serde_json::json!({"name": name}))
        .to_vec()
        .into();
    let (policy, description) = (world.policy(), description.to_string());
    let view = PluginView::open(
        &policy,
        &description,
        server::connection(world.objects.clone()),
        plugin.budget().clone(),
    );
    let calls = GuestCalls::new(view.await?)?;
    let mut model = Model::default();
    let (mut returned, mut failures) = (0, BTreeSet::new());
    for line in input.lines().take(MAX_CALLS) {
        let call = calls.begin();
        // The guest takes a key that begins like a list for a script.
        let script = format!("[{}", line.strip_prefix('[').unwrap_or(line));
        let result = plugin.reconcile(call.imports(), "q", &script, 0).await;
        call.end(result.is_ok()).await;
        let expected = model.run(&script, result.is_ok());
        match result {
            Ok(Outcome::Failed(text)) => {
                returned += 1;
                check(sandbox, &text, expected)?;
            }
            Ok(other) => return Err(format!("the guest returns {other:?}")),
            Err(error) => {
                failures.insert(cause(&error)?);
            }
        }
        if model.knows_queues && calls.queued() != model.keys.len() {
            return Err(format!(
                "the queues hold {} keys, not {}",
                calls.queued(),
                model.keys.len()
            ));
        }
        plugin.trim_idle(Duration::ZERO);
        let stats = plugin.stats();
        if (stats.held, stats.live, stats.memory) != (0, 0, 0) {
            return Err(format!("after the call, the host still holds {stats:?}"));
        }
    }
    calls.close().await;
    Ok(format!("{} calls returned, others {failures:?}", returned))
}

fn check(sandbox: &Sandbox, text: &str, expected: Option<String>) -> Result<(), String> {
    if let Some(expected) = expected
        && text != expected
    {
        return Err(format!("the guest gets `{text}`, not `{expected}`"));
    }
    let hidden = markers(text).find(|marker| {
        let is_known = sandbox.world.objects.iter().any(|object| {
            let version = object.version.to_string();
            version.contains(marker)
        });
        is_known && !sandbox.visible.contains(*marker)
    });
    match hidden {
        Some(marker) => Err(format!("{marker} is not granted, and shows in {text}")),
        None => Ok(()),
    }
}

/// Why a call failed, if that is the guest's own fault.
fn cause(error: &CallError) -> Result<&'static str, String> {
    use flyball_plugin::CallFailure::{CpuLimit, MemoryLimit, Trap, WallLimit};
    match &error.failure {
        Trap { .. } => Ok("trapped"),
        CpuLimit { .. } => Ok("used up its CPU time"),
        WallLimit { .. } => Ok("took too long"),
        MemoryLimit { .. } => Ok("ran out of memory"),
        _ => Err(format!("the host failed: {error}")),
    }
}

/// The content of the memo and of the queues.
#[derive(Default)]
struct Model {
    memo: BTreeMap<String, (u32, String)>,
    /// The last version of the memo.
    version: u32,
    /// By queue.
    keys: BTreeSet<(String, String)>,
    /// False once a call was not understood.
    is_lost: bool,
    knows_queues: bool,
}

impl Model {
    /// Returns what the guest must return for a script; `None` if the model does not know.
    fn run(&mut self, script: &str, has_returned: bool) -> Option<String> {
        self.knows_queues = false;
        let calls: Vec<Value> = serde_json::from_str(script).ok()?;
        let before = self.memo.clone();
        let results: Option<Vec<String>> = calls.iter().map(|call| self.one(call)).collect();
        self.is_lost |= results.is_none();
        if !has_returned {
            // Its memo is dropped, but it has assigned versions and queued keys up to where it failed.
            self.memo = before;
            self.is_lost = true;
        }
        self.knows_queues = !self.is_lost;
        results.filter(|_| !self.is_lost).map(|all| all.join(" | "))
    }

    fn one(&mut self, call: &Value) -> Option<String> {
        let (name, arguments) = call.as_object()?.iter().next()?;
        let text = |at: usize| arguments.get(at)?.as_str();
        Some(match name.as_str() {
            "memo-get" => match self.memo.get(arguments.as_str()?) {
                Some((version, value)) => format!("{value} at {version}"),
                None => "nothing".into(),
            },
            "memo-remove" => {
                self.memo.remove(arguments.as_str()?);
                "removed".into()
            }
            "memo-put" => {
                let (key, value) = (text(0)?, text(2)?);
                let expected = u32::try_from(arguments.get(1)?.as_u64()?).ok()?;
                let current = self.memo.get(key).map_or(0, |(version, _)| *version);
                if current != expected {
                    let message =
                        format!("the memo's key `{key}` is at version {current}, not {expected}");
                    let message: String = message.chars().take(300).collect();
                    return Some(format!("Conflict: {message}"));
                }
                self.version += 1;
                self.memo.insert(key.into(), (self.version, value.into()));
                format!("ok: {}", self.version)
            }
            "enqueue" => {
                let (queue, key) = (text(0)?, text(1)?);
                let queue = if queue.is_empty() { QUEUES[0] } else { queue };
                let count = match arguments.get(2) {
                    None => 1,
                    Some(count) => count.as_u64().filter(|count| (1..100).contains(count))?,
                };
                // Longer keys are refused.
                if !QUEUES.contains(&queue) || key.len() > 1000 {
                    return None;
                }
                for number in 0..count {
                    self.keys.insert((queue.into(), format!("{key}/{number}")));
                }
                "ok: ".into()
            }
            _ => return None,
        })
    }
}
