//! What crossing the boundary costs: prints nanoseconds for each operation, one `name<TAB>value<TAB>unit` a line.
//!
//!     cargo run --release -p flyball-plugin --example boundary

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use flyball_plugin::{Engine, EngineOptions, Imports, Limits, Plugin, Precompiled};
use support::{Fake, engine_with, guest};

/// One row of a page: a pod, reduced to what a controller reads.
const ROW: usize = 3300;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let wasm: &'static [u8] = guest().leak();

    let start = Instant::now();
    let engine = Engine::new(EngineOptions::default()).unwrap();
    print("start the engine", start.elapsed());

    let start = Instant::now();
    let component = engine.load(wasm.into()).await.unwrap();
    print("compile the guest", start.elapsed());
    let cwasm: &'static [u8] = Engine::precompile(wasm).unwrap().leak();
    let mut loads = Vec::new();
    for _ in 0..50 {
        let start = Instant::now();
        engine.load_precompiled(Precompiled { digest: "", wasm, cwasm }).await.unwrap();
        loads.push(start.elapsed());
    }
    print("load the compiled guest", median(loads));

    let limits = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    let plugin = Plugin::new(&engine, component.clone(), limits(|_| ())).unwrap();
    let nothing: Arc<dyn Imports> = Fake::new(|_| ());
    calls("reconcile that does nothing", &plugin, &nothing, "done", 100_000).await;
    calls("reconcile that reads an object of 3.3 kB", &plugin, &objects(ROW), "get", 100_000).await;
    calls("reconcile that lists 1,000 rows of 3.3 kB", &plugin, &objects(1000 * ROW), "page", 500).await;
    calls("reconcile that lists 1,000 rows of 200 B", &plugin, &objects(1000 * 200), "page", 5000).await;
    calls("reconcile that writes a batch of 3", &plugin, &nothing, "write", 1000).await;

    let fresh = Plugin::new(&engine, component, limits(|limits| limits.recycle_calls = 1)).unwrap();
    calls("reconcile in a fresh instance", &fresh, &nothing, "done", 10_000).await;

    let single = engine_with(|options| options.threads = 1);
    let component = single.load(wasm.into()).await.unwrap();
    let plugin = Plugin::new(&single, component, limits(|_| ())).unwrap();
    let count = 100_000;
    let start = Instant::now();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (plugin, nothing) = (plugin.clone(), nothing.clone());
            tokio::spawn(async move {
                for _ in 0..count / 8 {
                    plugin.reconcile(nothing.clone(), "queue", "done", 0).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    print("reconcile that does nothing, 8 at once, one thread", start.elapsed() / count);
    print("of that, on the guests' thread", plugin.stats().cpu / count);
}

/// Imports that answer with so many bytes.
fn objects(bytes: usize) -> Arc<dyn Imports> {
    Fake::new(|fake| fake.object = vec![b'x'; bytes])
}

/// Measures calls, one after the other.
async fn calls(name: &str, plugin: &Plugin, imports: &Arc<dyn Imports>, key: &str, count: u32) {
    for _ in 0..count / 10 {
        plugin.reconcile(imports.clone(), "queue", key, 0).await.unwrap();
    }
    let (start, cpu) = (Instant::now(), plugin.stats().cpu);
    for _ in 0..count {
        plugin.reconcile(imports.clone(), "queue", key, 0).await.unwrap();
    }
    print(name, start.elapsed() / count);
    print("  of that, on the guests' thread", (plugin.stats().cpu - cpu) / count);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn print(name: &str, time: Duration) {
    println!("{name}\t{}\tns", time.as_nanos());
}
