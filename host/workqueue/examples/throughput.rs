//! How fast the queue is: `cargo run --release -p flyball-workqueue --example throughput`.

use std::sync::Arc;
use std::time::Instant;

use flyball_workqueue::{Config, Priority, WorkQueue};
use tokio::time::Duration;

const KEYS: u32 = 200_000;

type Queue = WorkQueue<Arc<str>, u64>;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let keys: Vec<Arc<str>> = (0..KEYS).map(|n| format!("namespace-{}/name-{n}", n % 100).into()).collect();
        let queue = Queue::new(Config::default());

        time("add, get, done: one key at a time", || async {
            for key in &keys {
                queue.add(key.clone(), Priority::Normal, 1);
                drop(queue.get().await);
            }
        })
        .await;
        time("add all, then get and done all", || async {
            for key in &keys {
                queue.add(key.clone(), Priority::Low, 1);
            }
            for _ in &keys {
                drop(queue.get().await);
            }
        })
        .await;
        time("add all low, promote all, then get and done all", || async {
            for priority in [Priority::Low, Priority::Normal] {
                for key in &keys {
                    queue.add(key.clone(), priority, 1);
                }
            }
            for _ in &keys {
                drop(queue.get().await);
            }
        })
        .await;
        time("add one key again and again", || async {
            for _ in &keys {
                queue.add(keys[0].clone(), Priority::Normal, 1);
            }
            drop(queue.get().await);
        })
        .await;
        time("add all for later (one second is for waiting), then get and done all", || async {
            for key in &keys {
                queue.add_after(key.clone(), Duration::from_secs(1), Priority::Normal, 1);
            }
            for _ in &keys {
                drop(queue.get().await);
            }
        })
        .await;
    });
}

async fn time<F: Future<Output = ()>>(what: &str, run: impl FnOnce() -> F) {
    let start = Instant::now();
    run().await;
    let taken = start.elapsed();
    println!("{what}: {taken:?}, {:.0} ns a key", taken.as_nanos() as f64 / f64::from(KEYS));
}
