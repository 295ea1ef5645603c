//! What a cache takes: `cargo run --release -p flyball-cache --example measure [pods]`. It serves a big cluster from memory and
//! prints how much memory the pods take, and how long the initial list does.

#[path = "../benches/support/mod.rs"]
mod support;

/// The process's memory in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok())
        .unwrap_or(0)
        * 4096
}

/// How long this process has computed, in seconds: other processes' work does not count.
fn computed() -> f64 {
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
        let (before, began) = (memory(), computed());
        let (factory, informer) = support::synced(
            support::Pods {
                count,
                each: support::EACH,
            },
            mask,
        )
        .await;
        let (seconds, status) = (computed() - began, informer.status());
        let grown = (memory() - before) / 1_000_000;
        println!(
            "{count} pods, {name} mask: {seconds:.1} s, {} MB counted, {grown} MB grown",
            status.bytes / 1_000_000
        );
        factory.shutdown().await;
    }
}
