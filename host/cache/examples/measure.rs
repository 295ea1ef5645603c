//! Measures a cache: `cargo run --release -p flyball-cache --example measure [pods]`. Serves a big cluster from memory,
//! and prints the memory of the pods and the CPU time of the initial list.

#[path = "../benches/support/mod.rs"]
mod support;

use flyball_fakes::memory::resident;

/// The CPU time of the process in seconds.
fn cpu_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|nanoseconds| nanoseconds.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1e9
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let count = std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(150_000);
    for (name, mask) in support::masks() {
        let (before, began) = (resident(), cpu_time());
        let (factory, informer) = support::synced(
            support::Pods {
                count,
                each: support::EACH,
            },
            mask,
        )
        .await;
        let (seconds, status) = (cpu_time() - began, informer.status());
        let grown = (resident() - before) / 1_000_000;
        println!(
            "{count} pods, {name} mask: {seconds:.1} s, {} MB counted, {grown} MB resident",
            status.bytes / 1_000_000
        );
        factory.shutdown().await;
    }
}
