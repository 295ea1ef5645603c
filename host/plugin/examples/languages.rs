//! Measures the cost of a plugin in each language, with greeters that do the same work. A warm call reconciles a
//! Greeting whose ConfigMap and status are as they should be: two cached reads, and no write. An empty call reconciles
//! a key without an object: one cached read. Prints one `language: name<TAB>value<TAB>unit` per line.
//!
//!     cargo xtask bench languages

#[path = "support/memory.rs"]
mod memory;
#[path = "../tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flyball_plugin::{Component, Engine, EngineOptions, Limits, Outcome, Plugin};
use memory::resident_mib;
use serde_json::json;
use support::{Fake, component_path};

/// The greeter of a language.
struct Greeter {
    language: &'static str,
    /// Its sources in `examples/greeter-LANGUAGE`.
    sources: &'static [&'static str],
    /// The maximum duration of a warm call.
    goal: Duration,
}

const fn greeter(
    language: &'static str,
    sources: &'static [&'static str],
    goal_micros: u64,
) -> Greeter {
    Greeter {
        language,
        sources,
        goal: Duration::from_micros(goal_micros),
    }
}

const GREETERS: [Greeter; 6] = [
    greeter("rust", &["src/lib.rs", "src/api.rs", "src/greeter.rs"], 50),
    greeter("c", &["src/greeter.h", "src/greeter.c", "src/main.c"], 50),
    greeter("javascript", &["src/greeter.js", "src/main.js"], 150),
    greeter("typescript", &["src/greeter.ts", "src/main.ts"], 150),
    greeter("python", &["greeter.py", "app.py"], 200),
    greeter("go", &["greeter/greeter.go", "main.go"], 300),
];
const KEY: &str = "default/hello";
/// How many first calls of an instance are measured, and calls of a warm instance. The figures are medians.
const FIRST_CALLS: usize = 20;
const WARM_CALLS: usize = 2000;
/// The instances whose memory is measured.
const INSTANCES: usize = 10;
/// A CPU quota that is never used up. With a quota, calls run on the threads of guests.
const AMPLE_QUOTA: u32 = 1_000_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let mut slow = Vec::new();
    for Greeter {
        language,
        sources,
        goal,
    } in GREETERS
    {
        let name = format!("greeter-{language}");
        let Ok(wasm) = fs::read(component_path(&name)) else {
            println!(
                "{language} is not measured: build its greeter with `cargo xtask guests {language}`"
            );
            continue;
        };
        let print =
            |figure: &str, value, unit| println!("{language}: {figure}\t{value:.3}\t{unit}");
        print("component", wasm.len() as f64 / 1e6, "MB");
        print("source", lines(&name, sources) as f64, "lines");
        let measured = async move { tokio::spawn(measure(wasm)).await.unwrap() };
        let measured = runtime.block_on(measured);
        print("compilation", measured.compilation.as_secs_f64(), "s");
        print("first call", millis(measured.first), "ms");
        print("empty call", micros(measured.empty), "µs");
        print("warm call", micros(measured.warm), "µs");
        print("goal", micros(goal), "µs");
        print(
            "on another thread",
            micros(measured.on_another_thread),
            "µs",
        );
        print("linear memory", measured.linear_mib, "MiB");
        print("an instance", measured.instance_mib, "MiB");
        if measured.warm > goal {
            slow.push(format!("{language} {:?}, goal {goal:?}", measured.warm));
        }
    }
    if !slow.is_empty() {
        println!("OUT OF BOUNDS: a warm call: {}", slow.join("; "));
        std::process::exit(support::OUT_OF_BOUNDS);
    }
}

/// The lines of the sources that are not empty.
fn lines(name: &str, sources: &[&str]) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let read = |source| fs::read_to_string(folder.join(name).join(source)).unwrap();
    let count = |text: String| text.lines().filter(|line| !line.trim().is_empty()).count();
    sources.iter().map(read).map(count).sum()
}

/// The figures of a component.
struct Measured {
    compilation: Duration,
    /// A call that has to map the code and create an instance.
    first: Duration,
    empty: Duration,
    warm: Duration,
    /// A warm call that a thread hands to another one, as calls of plugins with a CPU quota are.
    on_another_thread: Duration,
    /// The linear memory of an instance.
    linear_mib: f64,
    /// The resident memory of an instance that has run.
    instance_mib: f64,
}

async fn measure(wasm: Vec<u8>) -> Measured {
    let home = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        cache: Some(home.path().join("cache")),
        ..EngineOptions::default()
    };
    let engine = Engine::new(options).unwrap();
    let start = Instant::now();
    let component = engine.load(wasm.into()).await.unwrap();
    let compilation = start.elapsed();
    let plugin = Plugin::new(&engine, component.clone(), Limits::default()).unwrap();
    let (nothing, settled) = (nothing(), settled());
    let mut first = Vec::new();
    for _ in 0..FIRST_CALLS {
        plugin.trim_idle(Duration::ZERO);
        first.push(call(&plugin, &settled).await);
    }
    let empty = median_call(&plugin, &nothing).await;
    let warm = median_call(&plugin, &settled).await;
    let limits = Limits {
        cpu_share: Some(AMPLE_QUOTA),
        ..Limits::default()
    };
    let elsewhere = Plugin::new(&engine, component.clone(), limits).unwrap();
    let on_another_thread = median_call(&elsewhere, &settled).await;
    let (linear_mib, instance_mib) = instances(&engine, component, &settled).await;
    Measured {
        compilation,
        first: median(first),
        empty,
        warm,
        on_another_thread,
        linear_mib,
        instance_mib,
    }
}

/// The linear memory and the resident memory of an instance. The code is shared, so it does not count.
async fn instances(engine: &Engine, component: Component, settled: &Arc<Fake>) -> (f64, f64) {
    let new = || Plugin::new(engine, component.clone(), Limits::default()).unwrap();
    let first = new();
    call(&first, settled).await;
    let before = resident_mib();
    let mut plugins = Vec::new();
    for _ in 0..INSTANCES {
        let plugin = new();
        call(&plugin, settled).await;
        plugins.push(plugin);
    }
    let resident = (resident_mib() - before).max(0.0) / INSTANCES as f64;
    let stats = first.stats();
    let linear = stats.memory as f64 / stats.live as f64 / 1024.0 / 1024.0;
    (linear, resident)
}

async fn median_call(plugin: &Plugin, imports: &Arc<Fake>) -> Duration {
    let mut times = Vec::new();
    for _ in 0..WARM_CALLS {
        times.push(call(plugin, imports).await);
    }
    median(times)
}

/// Reconciles a Greeting that needs no changes.
async fn call(plugin: &Plugin, imports: &Arc<Fake>) -> Duration {
    let start = Instant::now();
    let outcome = plugin.reconcile(imports.clone(), "q", KEY, 0).await;
    let took = start.elapsed();
    assert_eq!(outcome.unwrap(), Outcome::Done);
    assert!(
        imports.batches.lock().unwrap().is_empty(),
        "the call has written"
    );
    took
}

/// Imports whose cache is empty.
fn nothing() -> Arc<Fake> {
    Fake::new(|fake| fake.is_empty = true)
}

/// Imports with one object, which is the Greeting and its ConfigMap in one.
fn settled() -> Arc<Fake> {
    let controller = json!({
        "apiVersion": "greeter.flyball.dev/v1", "kind": "Greeting", "name": "hello", "uid": "u", "controller": true,
        "blockOwnerDeletion": true,
    });
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Greeted", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let object = json!({
        "metadata": {
            "namespace": "default", "name": "hello", "uid": "u", "resourceVersion": "2", "generation": 1,
            "finalizers": ["greeter.flyball.dev/cleanup"], "ownerReferences": [controller],
        },
        "spec": {"text": "Hello, world!"},
        "data": {"text": "Hello, world!"},
        "status": {"observedGeneration": 1, "conditions": [ready]},
    });
    Fake::new(|fake| fake.object = object.to_string().into_bytes())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
