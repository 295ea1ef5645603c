//! The queue under real threads and real time, which the tests on paused time don't cover. Bounded by counts, not by
//! the clock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

use flyball_workqueue::{Config, Priority, WorkQueue};
use tokio::time::Duration;

const KEYS: usize = 40;
const PRODUCERS: u64 = 4;
const WORKERS: u64 = 4;
const ADDS: u64 = 20_000;

/// An object of the API, as far as the test models one: a key with a version.
#[derive(Default)]
struct Object {
    version: AtomicU64,
    /// The latest version that a worker has read.
    seen: AtomicU64,
    held: AtomicBool,
}

#[derive(Default)]
struct World {
    objects: Vec<Object>,
    accepted: AtomicU64,
    served: AtomicU64,
}

/// A xorshift generator: cheap, and deterministic.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

type Queue = WorkQueue<usize, u64>;

fn produce(queue: &Queue, world: &World, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..ADDS {
        let key = random.below(KEYS as u64) as usize;
        let priority = if random.below(3) == 0 {
            Priority::Low
        } else {
            Priority::Normal
        };
        let version = world.objects[key].version.fetch_add(1, SeqCst) + 1;
        world.accepted.fetch_add(1, SeqCst);
        match random.below(20) {
            0 => queue.add_after(
                key,
                Duration::from_micros(random.below(3000)),
                priority,
                version,
            ),
            _ => queue.add(key, priority, version),
        }
        if random.below(50) == 0 {
            std::thread::yield_now();
        }
    }
}

async fn work(queue: &Queue, world: &World, seed: u64) {
    let mut random = Random(seed);
    loop {
        let item = if random.below(4) == 0 {
            // The get is cancelled if no key is ready.
            tokio::select! {
                item = queue.get() => item,
                () = tokio::task::yield_now() => continue,
            }
        } else {
            queue.get().await
        };
        let Some(item) = item else { return };
        let object = &world.objects[*item.key()];
        assert!(
            !object.held.swap(true, SeqCst),
            "two workers hold {}",
            item.key()
        );
        object.seen.fetch_max(object.version.load(SeqCst), SeqCst);
        world
            .served
            .fetch_add(1 + u64::from(item.causes().coalesced), SeqCst);
        if random.below(3) == 0 {
            tokio::task::yield_now().await;
        }
        object.held.store(false, SeqCst);
        if random.below(500) == 0 {
            let panicked = catch_unwind(AssertUnwindSafe(move || {
                let _item = item;
                std::panic::resume_unwind(Box::new("on purpose"));
            }));
            assert!(panicked.is_err());
        }
    }
}

#[test]
fn many_threads_lose_no_key_and_share_none() {
    let queue = Queue::new(Config {
        ageing: Duration::from_millis(1),
        ..Config::default()
    });
    let objects = std::iter::repeat_with(Object::default).take(KEYS).collect();
    let world = Arc::new(World {
        objects,
        ..World::default()
    });

    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (queue, world) = (queue.clone(), world.clone());
            // Each has its own runtime, so that getters are also woken from threads outside of it.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            std::thread::spawn(move || runtime.block_on(work(&queue, &world, 1000 + worker)))
        })
        .collect();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let (queue, world) = (queue.clone(), world.clone());
            std::thread::spawn(move || produce(&queue, &world, 1 + producer))
        })
        .collect();
    for producer in producers {
        producer.join().unwrap();
    }
    // A shutdown drops the delayed keys: wait until they are queued.
    while queue.snapshot().delayed > 0 {
        std::thread::yield_now();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(queue.shutdown_with_drain());
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(
        world.served.load(SeqCst),
        world.accepted.load(SeqCst),
        "every add is served"
    );
    for (key, object) in world.objects.iter().enumerate() {
        assert_eq!(
            object.seen.load(SeqCst),
            object.version.load(SeqCst),
            "the last version of {key} was processed"
        );
    }
}

#[test]
fn as_many_getters_are_woken_as_keys_are_added() {
    // Each getter keeps its key until every other one has a key too, so that the test hangs if one wake-up is lost
    // while the getters go to sleep.
    const GETTERS: usize = 3;
    let queue = Queue::new(Config::default());
    let barrier = Arc::new(Barrier::new(GETTERS + 1));
    let getters: Vec<_> = (0..GETTERS)
        .map(|_| {
            let (queue, barrier) = (queue.clone(), barrier.clone());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            std::thread::spawn(move || {
                while let Some(_item) = runtime.block_on(queue.get()) {
                    barrier.wait();
                }
            })
        })
        .collect();
    for round in 0..20_000 {
        for key in 0..GETTERS {
            // Varies the point at which the adds meet getters on their way to sleep.
            for _ in 0..round % 97 {
                std::hint::spin_loop();
            }
            queue.add(key, Priority::Normal, round);
        }
        barrier.wait();
    }
    queue.shutdown();
    for getter in getters {
        getter.join().unwrap();
    }
}
