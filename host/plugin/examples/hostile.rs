//! What a plugin that misbehaves costs another one: a victim is called at a fixed rate, alone and beside each kind of fault
//! in turn, both with the share of the cores that a dropped-in plugin has. Prints a table.
//!
//!     cargo xtask bench hostile

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use flyball_plugin::{Component, Engine, EngineOptions, Imports, Limits, Plugin};
use support::{Fake, faulty, guest};

/// Calls of the victim in a second.
const RATE: u32 = 200;
/// What the victim reads in a call: a hundred rows of a pod, reduced to what a controller reads.
const BYTES: usize = 100 * 3300;
/// Keys that the faulty one reconciles at once.
const AT_ONCE: usize = 10;
/// The share of a dropped-in plugin, in thousandths of a core.
const SHARE: u32 = 250;
/// What the faulty one does.
const FAULTS: [&str; 16] = [
    "spin",
    "recurse",
    "grow",
    "huge",
    "requeue",
    "again",
    "enqueue",
    "logs",
    "events",
    "memo",
    "writes",
    "handles",
    "long-log",
    "labels",
    "panic",
    "hundredth",
];
/// What is allowed: the victim's throughput at least, and its p99 at most, as parts of those alone.
const THROUGHPUT: f64 = 0.95;
const P99: f64 = 2.0;

/// How a victim was served.
struct Served {
    /// Calls in a second.
    throughput: f64,
    /// Of the time from a call to its end.
    median: Duration,
    p99: Duration,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let only: Vec<String> = arguments.collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let faults = FAULTS.into_iter().filter(|fault| only.is_empty() || only.iter().any(|name| name == fault));
    let within = runtime.block_on(measure(Duration::from_secs(seconds), faults.collect()));
    if !within {
        std::process::exit(1);
    }
}

async fn measure(time: Duration, faults: Vec<&'static str>) -> bool {
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let victim = plugin(&engine, engine.load(guest().into()).await.unwrap());
    let component = engine.load(faulty().into()).await.unwrap();
    feed(&victim, Duration::from_secs(1)).await;
    println!(
        "{:12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7} {:>9} {:>10}",
        "beside",
        "alone /s",
        "beside /s",
        "p50 alone",
        "beside",
        "p99 alone",
        "beside",
        "ratio",
        "its cores",
        "its calls"
    );
    let mut within = true;
    for fault in faults {
        // Alone before and after: what else the machine does meanwhile must not count against the fault.
        let before = feed(&victim, time / 2).await;
        let plugin = plugin(&engine, component.clone());
        let floods: Vec<_> = (0..AT_ONCE).map(|number| tokio::spawn(flood(plugin.clone(), fault, number))).collect();
        let (start, used) = (Instant::now(), plugin.stats());
        let beside = feed(&victim, time).await;
        let elapsed = start.elapsed().as_secs_f64();
        for flood in floods {
            flood.abort();
            let _ = flood.await;
        }
        // What a call has used is known when it has ended.
        while plugin.stats().live > plugin.stats().idle {
            tokio::task::yield_now().await;
        }
        let (cpu, calls) = ((plugin.stats().cpu - used.cpu).as_secs_f64(), plugin.stats().calls - used.calls);
        let cores = cpu / elapsed;
        drop(plugin);
        let after = feed(&victim, time / 2).await;
        let (throughput, p99) = ((before.throughput + after.throughput) / 2.0, (before.p99 + after.p99) / 2);
        let ratio = beside.p99.as_secs_f64() / p99.as_secs_f64();
        let is_within = beside.throughput >= THROUGHPUT * throughput && ratio <= P99;
        within &= is_within;
        println!(
            "{fault:12} {throughput:>10.1} {:>10.1} {:>10.2?} {:>10.2?} {p99:>10.2?} {:>10.2?} {ratio:>7.2} {cores:>9.3} {calls:>10}{}",
            beside.throughput,
            (before.median + after.median) / 2,
            beside.median,
            beside.p99,
            if is_within { "" } else { "  OUT OF BOUNDS" }
        );
    }
    within
}

fn plugin(engine: &Engine, component: Component) -> Plugin {
    Plugin::new(engine, component, Limits { cpu_share: Some(SHARE), ..Limits::default() }).unwrap()
}

/// Calls the faulty one without end, whatever it answers.
async fn flood(plugin: Plugin, fault: &'static str, number: usize) {
    let imports: Arc<dyn Imports> = Fake::new(|_| ());
    loop {
        let _ = plugin.reconcile(imports.clone(), "faulty", &format!("{fault}/{number}"), 0).await;
    }
}

/// Calls the victim at the fixed rate, whether or not the calls before have ended.
async fn feed(victim: &Plugin, time: Duration) -> Served {
    let imports: Arc<dyn Imports> = Fake::new(|fake| fake.object = vec![b'x'; BYTES]);
    let count = RATE * u32::try_from(time.as_millis()).unwrap() / 1000;
    let start = tokio::time::Instant::now();
    let calls: Vec<_> = (0..count)
        .map(|number| {
            let (victim, imports, due) =
                (victim.clone(), imports.clone(), start + number * Duration::from_secs(1) / RATE);
            tokio::spawn(async move {
                tokio::time::sleep_until(due).await;
                // The timer's own steps, of a millisecond, are no time of the host.
                let start = Instant::now();
                victim.reconcile(imports, "queue", "page", 0).await.unwrap();
                start.elapsed()
            })
        })
        .collect();
    let mut times = Vec::new();
    for call in calls {
        times.push(call.await.unwrap());
    }
    let throughput = f64::from(count) / start.elapsed().as_secs_f64();
    times.sort();
    Served { throughput, median: times[times.len() / 2], p99: times[times.len() * 99 / 100] }
}
