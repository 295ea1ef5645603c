//! Measures how a plugin that misbehaves affects another plugin, the victim. The victim is called at a fixed rate,
//! alternately alone and beside a plugin with one kind of fault. Both have the CPU quota of a drop-in. Two controls
//! show the machine's own effect: nothing beside the victim, and a native thread that uses as much CPU time. Prints a
//! table, and after each row the figure that is compared as `name<TAB>value<TAB>unit`.
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

/// Calls of the victim per second.
const RATE: u32 = 200;
/// Bytes that the victim reads in a call: a hundred pods, reduced to the fields that a controller reads.
const BYTES: usize = 100 * 3300;
/// Rounds alone and beside each fault. The figures are medians over the rounds.
const ROUNDS: u32 = 5;
/// Keys that the faulty plugin reconciles at once.
const AT_ONCE: usize = 10;
/// The CPU quota of a drop-in, in millicores.
const SHARE: u32 = 250;
/// The controls. `native` is a thread with the nice value of guests that have used up their quota. It uses as much CPU
/// time, in bursts of some milliseconds.
const CONTROLS: [&str; 2] = [NOTHING, NATIVE];
const NOTHING: &str = "nothing";
const NATIVE: &str = "native";
const NICE: i32 = 10;
const TURN: Duration = Duration::from_millis(10);
/// The keys of the faulty plugin.
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
/// The minimum number of calls in a round for which the bounds apply. With fewer calls a p99 means nothing.
const MIN_CALLS: usize = 500;
/// The bounds of the victim's throughput and p99, relative to a run without a fault.
const MIN_THROUGHPUT: f64 = 0.95;
const MAX_P99: f64 = 2.0;

/// The figures of the victim.
struct Figures {
    /// Calls per second.
    throughput: f64,
    calls: usize,
    /// Duration of a call.
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
    let selected = all.filter(|fault| only.is_empty() || only.iter().any(|name| name == fault));
    let are_within = runtime.block_on(measure(Duration::from_secs(seconds), selected.collect()));
    if !are_within {
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
    let mut are_within = true;
    for fault in faults {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        let (mut cpu, mut elapsed, mut calls) = (Duration::ZERO, Duration::ZERO, 0);
        // Alternately and repeatedly, so that other load of the machine does not count against the fault.
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
            // The CPU time of a call is counted when it ends.
            while plugin.stats().live > plugin.stats().idle {
                tokio::task::yield_now().await;
            }
            cpu += plugin.stats().cpu;
            calls += plugin.stats().calls;
        }
        let (alone, beside) = (Figures::median(alone), Figures::median(beside));
        let ratio = beside.p99.as_secs_f64() / alone.p99.as_secs_f64();
        let is_judged = alone.calls >= MIN_CALLS && !CONTROLS.contains(&fault);
        let is_within = !is_judged
            || beside.throughput >= MIN_THROUGHPUT * alone.throughput && ratio <= MAX_P99;
        are_within &= is_within;
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
    are_within
}

impl Figures {
    /// The median of each figure over the rounds.
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

/// A native thread that uses as much CPU time as a plugin's quota allows.
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

    /// Stops the thread, and returns its CPU time.
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

/// Calls the faulty plugin endlessly and ignores the results.
async fn flood(plugin: Plugin, fault: &'static str, number: usize) {
    let imports: Arc<dyn Imports> = Fake::new(|_| ());
    loop {
        let _ = plugin
            .reconcile(imports.clone(), "faulty", &format!("{fault}/{number}"), 0)
            .await;
    }
}

/// Calls the victim at the fixed rate, without waiting for earlier calls.
async fn feed(victim: &Plugin, time: Duration) -> Figures {
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
                // Measured from here, because the timer has a resolution of a millisecond.
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
    Figures {
        throughput,
        calls: times.len(),
        median: times[times.len() / 2],
        p99: times[times.len() * 99 / 100],
    }
}
