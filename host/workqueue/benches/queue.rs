//! The queue's throughput: `cargo bench -p flyball-workqueue`.

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flyball_workqueue::{Config, Priority, WorkQueue};
use tokio::time::Duration;

/// The number of keys in the queue.
const KEYS: u32 = 20_000;

type Queue = WorkQueue<Arc<str>, u64>;

fn queue(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let keys: Vec<Arc<str>> = (0..KEYS)
        .map(|n| format!("namespace-{}/name-{n}", n % 100).into())
        .collect();
    let _guard = runtime.enter();
    let queue = Queue::new(Config::default());
    let add_all = |priority| {
        keys.iter()
            .for_each(|key| queue.add(key.clone(), priority, 1))
    };
    let take_all = || {
        runtime.block_on(async {
            for _ in &keys {
                drop(queue.get().await)
            }
        })
    };

    let mut group = criterion.benchmark_group("queue");
    group.bench_function("add, get and finish one key", |bencher| {
        bencher.iter(|| {
            queue.add(keys[0].clone(), Priority::Normal, 1);
            runtime.block_on(queue.get())
        });
    });
    group.throughput(Throughput::Elements(KEYS.into()));
    group.bench_function("add all, then get and finish all", |bencher| {
        bencher.iter(|| {
            add_all(Priority::Low);
            take_all();
        });
    });
    group.bench_function(
        "add all low, promote all, then get and finish all",
        |bencher| {
            bencher.iter(|| {
                add_all(Priority::Low);
                add_all(Priority::Normal);
                take_all();
            });
        },
    );
    group.bench_function("add one key as many times", |bencher| {
        bencher.iter(|| {
            keys.iter()
                .for_each(|_| queue.add(keys[0].clone(), Priority::Normal, 1));
            runtime.block_on(queue.get())
        });
    });
    group.bench_function("add all for later", |bencher| {
        bencher.iter(|| {
            let queue = Queue::new(Config::default());
            let hour = Duration::from_secs(3600);
            keys.iter()
                .for_each(|key| queue.add_after(key.clone(), hour, Priority::Normal, 1));
            queue
        });
    });
    group.finish();
}

criterion_group!(benches, queue);
criterion_main!(benches);
