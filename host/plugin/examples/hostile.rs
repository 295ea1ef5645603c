//! What a plugin that misbehaves costs another one: a victim is called at a fixed rate, alone and beside each kind of fault
//! in turn, both with the share of the cores that a dropped-in plugin has; and first beside nothing, and beside a native thread
//! that uses as much, which is what the machine does to it. Prints a table, and after each of its lines
//! `name<TAB>value<TAB>unit` of what is compared.
//!
//!     cargo xtask bench hostile

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flyball_plugin::{Component, Engine, EngineOptions, Imports, Limits, Plugin};
use support::{Fake, faulty, guest};

/// Calls of the victim in a second.
const RATE: u32 = 200;
/// What the victim reads in a call: a hundred rows of a pod, reduced to what a controller reads.
const BYTES: usize = 100 * 3300;
/// How often it is called alone and beside the fault, in turn; the figures are the medians.
const ROUNDS: u32 = 5;
/// Keys that the faulty one reconciles at once.
const AT_ONCE: usize = 10;
/// The share of a dropped-in plugin, in thousandths of a core.
const SHARE: u32 = 250;
/// What says of the machine what it does to a victim: nothing beside it, and a native thread of its own, as nice as guests that
/// have used up their share, which takes as much of a core in turns of some milliseconds.
const CONTROLS: [&str; 2] = [NOTHING, NATIVE];
const NOTHING: &str = "nothing";
const NATIVE: &str = "native";
const NICE: i32 = 10;
const TURN: Duration = Duration::from_millis(10);
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
/// What is allowed: the victim's throughput at least, and its p99 at most, as parts of those alone. Of fewer calls than these
/// in a round, a p99 says nothing, and none is held against it.
const ENOUGH: usize = 500;
const THROUGHPUT: f64 = 0.95;
const P99: f64 = 2.0;

/// How a victim was served.
struct Served {
    /// Calls in a second.
    throughput: f64,
    /// Calls in all.
    calls: usize,
    /// Of the time from a call to its end.
    median: Duration,
    p99: Duration,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(3);
    let only: Vec<String> = arguments.collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let all = CONTROLS.into_iter().chain(FAULTS);
    let asked = all.filter(|fault| only.is_empty() || only.iter().any(|name| name == fault));
    let within = runtime.block_on(measure(Duration::from_secs(seconds), asked.collect()));
    if !within {
        std::process::exit(support::OUT_OF_BOUNDS);
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
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        let (mut cpu, mut elapsed, mut calls) = (Duration::ZERO, Duration::ZERO, 0);
        // In turn, many times: what else the machine does meanwhile must not count against the fault.
        for _ in 0..ROUNDS {
            alone.push(feed(&victim, time / ROUNDS).await);
            let plugin = plugin(&engine, component.clone());
            let floods = if CONTROLS.contains(&fault) {
                0
            } else {
                AT_ONCE
            };
            let floods: Vec<_> = (0..floods)
                .map(|number| tokio::spawn(flood(plugin.clone(), fault, number)))
                .collect();
            let native = (fault == NATIVE).then(Native::start);
            let start = Instant::now();
            beside.push(feed(&victim, time / ROUNDS).await);
            elapsed += start.elapsed();
            cpu += native.map_or(Duration::ZERO, Native::end);
            for flood in floods {
                flood.abort();
                let _ = flood.await;
            }
            // What a call has used is known when it has ended.
            while plugin.stats().live > plugin.stats().idle {
                tokio::task::yield_now().await;
            }
            cpu += plugin.stats().cpu;
            calls += plugin.stats().calls;
        }
        let (alone, beside) = (Served::median(alone), Served::median(beside));
        let ratio = beside.p99.as_secs_f64() / alone.p99.as_secs_f64();
        let is_judged = alone.calls >= ENOUGH && !CONTROLS.contains(&fault);
        let is_within =
            !is_judged || beside.throughput >= THROUGHPUT * alone.throughput && ratio <= P99;
        within &= is_within;
        println!(
            "{fault:12} {:>10.1} {:>10.1} {:>10.2?} {:>10.2?} {:>10.2?} {:>10.2?} {ratio:>7.2} {:>9.3} {calls:>10}{}",
            alone.throughput,
            beside.throughput,
            alone.median,
            beside.median,
            alone.p99,
            beside.p99,
            cpu.as_secs_f64() / elapsed.as_secs_f64(),
            if is_within { "" } else { "  OUT OF BOUNDS" }
        );
        println!("{fault}: p99 beside it / alone\t{ratio:.3}\t");
    }
    within
}

impl Served {
    /// The median of each figure over rounds.
    fn median(rounds: Vec<Self>) -> Self {
        fn middle<T: PartialOrd + Copy>(figures: impl Iterator<Item = T>) -> T {
            let mut figures: Vec<T> = figures.collect();
            figures.sort_by(|a, b| a.partial_cmp(b).expect("figures are numbers"));
            figures[figures.len() / 2]
        }
        Self {
            calls: rounds[0].calls,
            throughput: middle(rounds.iter().map(|round| round.throughput)),
            median: middle(rounds.iter().map(|round| round.median)),
            p99: middle(rounds.iter().map(|round| round.p99)),
        }
    }
}

/// A native thread that uses as much of a core as a plugin may.
struct Native {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Native {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            rustix::process::setpriority_process(None, NICE).unwrap();
            let mut used = Duration::ZERO;
            while !stopped.load(Relaxed) {
                let start = Instant::now();
                while start.elapsed() < TURN {
                    std::hint::spin_loop();
                }
                used += start.elapsed();
                std::thread::sleep(TURN * (1000 - SHARE) / SHARE);
            }
            used
        });
        Self { stop, thread }
    }

    /// For how long it computed.
    fn end(self) -> Duration {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap()
    }
}

fn plugin(engine: &Engine, component: Component) -> Plugin {
    Plugin::new(
        engine,
        component,
        Limits {
            cpu_share: Some(SHARE),
            ..Limits::default()
        },
    )
    .unwrap()
}

/// Calls the faulty one without end, whatever it answers.
async fn flood(plugin: Plugin, fault: &'static str, number: usize) {
    let imports: Arc<dyn Imports> = Fake::new(|_| ());
    loop {
        let _ = plugin
            .reconcile(imports.clone(), "faulty", &format!("{fault}/{number}"), 0)
            .await;
    }
}

/// Calls the victim at the fixed rate, whether or not the calls before have ended.
async fn feed(victim: &Plugin, time: Duration) -> Served {
    let imports: Arc<dyn Imports> = Fake::new(|fake| fake.object = vec![b'x'; BYTES]);
    let count = RATE * u32::try_from(time.as_millis()).unwrap() / 1000;
    let start = tokio::time::Instant::now();
    let calls: Vec<_> = (0..count)
        .map(|number| {
            let (victim, imports, due) = (
                victim.clone(),
                imports.clone(),
                start + number * Duration::from_secs(1) / RATE,
            );
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
    Served {
        throughput,
        calls: times.len(),
        median: times[times.len() / 2],
        p99: times[times.len() * 99 / 100],
    }
}
