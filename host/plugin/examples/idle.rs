//! Measures the cost of idle plugins. Loads many plugins from different files and keeps one busy. Prints the memory of
//! the process, and the duration of a call with and without the plugin's code in memory. One `name<TAB>value<TAB>unit`
//! per line.
//!
//!     cargo xtask bench idle

#[path = "support/memory.rs"]
mod memory;
#[path = "../tests/support/mod.rs"]
mod support;
#[path = "support/variants.rs"]
mod variants;

use std::time::{Duration, Instant};

use flyball_plugin::{Engine, EngineOptions, Limits, Plugin};
use memory::resident_mib;
use support::{component_file, plain};
use variants::{spread, variant};

/// The maximum memory of the process, in MiB.
const MAX_MEMORY: f64 = 300.0;
/// The maximum additional duration of a call whose plugin's code is not in memory.
const MAX_WAKE: Duration = Duration::from_millis(5);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1000);
    let name = arguments.next().unwrap_or_else(|| "greeter".into());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    if !runtime.block_on(measure(count, &name)) {
        std::process::exit(support::OUT_OF_BOUNDS);
    }
}

async fn measure(count: usize, name: &str) -> bool {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    let options = EngineOptions {
        cache: Some(cache.clone()),
        cache_bytes: u64::MAX,
        ..EngineOptions::default()
    };
    let wasm = component_file(name);
    // The code is the same in each, and is compiled once.
    {
        let engine = Engine::new(options.clone()).unwrap();
        engine.load(wasm.clone().into()).await.unwrap();
        spread(&cache, &wasm, count);
    }
    let engine = Engine::new(options).unwrap();
    let base = resident_mib();
    print("the engine alone", base, "MiB");
    let mut plugins = Vec::new();
    let start = Instant::now();
    for number in 0..count {
        let component = engine.load(variant(&wasm, number).into()).await.unwrap();
        let limits = Limits {
            cpu_share: Some(250),
            ..Limits::default()
        };
        let plugin = Plugin::new(&engine, component, limits).unwrap();
        plugin.describe(plain()).await.unwrap();
        plugin.trim_idle(Duration::ZERO);
        plugins.push(plugin);
    }
    print(
        "time to load and describe one",
        start.elapsed().as_secs_f64() * 1e3 / count as f64,
        "ms",
    );
    print(&format!("{count} described"), resident_mib(), "MiB");

    let busy = plugins[0].clone();
    let work = tokio::spawn(async move {
        loop {
            let _ = busy.reconcile(plain(), "q", "busy", 0).await;
        }
    });
    // Each plugin gets an event, and is then trimmed like an idle plugin in the host.
    let (mut unloaded, mut loaded) = (Vec::new(), Vec::new());
    for plugin in &plugins[1..] {
        let mut times = Vec::new();
        for _ in 0..2 {
            let start = Instant::now();
            let _ = plugin.reconcile(plain(), "q", "default", 0).await;
            times.push(start.elapsed());
        }
        unloaded.push(times[0]);
        loaded.push(times[1]);
        plugin.trim_idle(Duration::ZERO);
    }
    let resident = resident_mib();
    print(&format!("{count} after an event each"), resident, "MiB");
    print(
        "of that, each",
        (resident - base) * 1024.0 / count as f64,
        "KiB",
    );
    work.abort();
    let difference = quantile(&mut unloaded, 99).saturating_sub(quantile(&mut loaded, 99));
    for (state, times) in [("loaded", &mut loaded), ("unloaded", &mut unloaded)] {
        print(
            &format!("an event, {state}, median"),
            quantile(times, 50).as_secs_f64() * 1e3,
            "ms",
        );
        print(
            &format!("an event, {state}, p99"),
            quantile(times, 99).as_secs_f64() * 1e3,
            "ms",
        );
    }
    let is_within = resident <= MAX_MEMORY && difference <= MAX_WAKE;
    if !is_within {
        println!(
            "OUT OF BOUNDS: {MAX_MEMORY} MiB, and {MAX_WAKE:?} between the p99 unloaded and loaded"
        );
    }
    is_within
}

fn quantile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times[times.len() * percent / 100]
}

fn print(name: &str, value: f64, unit: &str) {
    println!("{name}\t{value:.3}\t{unit}");
}
