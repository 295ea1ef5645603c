//! The workqueue: decides which key is reconciled when, and never by two workers at once.
//!
//! The router adds keys, and workers get them and call a guest. It knows neither Kubernetes nor wasm: a key is any
//! value that is cheap to hash and to clone (the host uses `Arc<str>`), and a reason is any value that says why a key
//! was queued.
//!
//! The contract is that of client-go's `workqueue`:
//! - a key is queued once, however often it is added before a worker gets it;
//! - a key is never processed by two workers at once: a key that is added while it is processed is queued again when
//!   its [`Item`] is dropped;
//! - a delayed add keeps the earliest requested time;
//! - a rate-limited add waits for the longer of the key's own exponential backoff and the queue's token bucket;
//! - after a shutdown adds are ignored, queued keys are still served, then [`WorkQueue::get`] returns `None`.
//!
//! Additions to it are a lane of low priority (see [`Priority`]), the reasons why a key was queued (see [`Causes`]),
//! and a minimum interval between two runs of a key (see [`Config::minimum_interval`]).
//!
//! Read in this order: `queue.rs` ([`WorkQueue`]) locks the state, wakes getters and reports metrics; `state.rs`
//! decides, with no clock, no lock and no `await` of its own, on top of `lanes.rs` (the ready keys) and `delayed.rs`
//! (the keys that are not due); `limiter.rs` computes how long a retry waits, with the token bucket of
//! `token_bucket.rs`.
//!
//! ```
//! use std::sync::Arc;
//! use flyball_workqueue::{Config, Priority, WorkQueue};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let queue: WorkQueue<Arc<str>, &str> = WorkQueue::new(Config::default());
//! queue.add("default/web".into(), Priority::Normal, "pod added");
//! queue.add("default/web".into(), Priority::Normal, "pod changed");
//!
//! let item = queue.get().await.expect("the queue is open");
//! assert_eq!(&**item.key(), "default/web");
//! assert_eq!(item.causes().first, "pod added");
//! assert_eq!(item.causes().coalesced, 1);
//! drop(item); // The key is done.
//!
//! queue.shutdown();
//! assert!(queue.get().await.is_none());
//! # });
//! ```

mod delayed;
mod lanes;
mod limiter;
mod metrics;
mod pending;
mod queue;
mod state;
mod token_bucket;

pub use lanes::LOW_SHARE;
pub use limiter::RateLimit;
pub use metrics::{Held, Metrics, NoMetrics, Snapshot};
pub use pending::{Causes, Priority};
pub use queue::{Config, Item, WorkQueue};
pub use token_bucket::{BucketConfig, TokenBucket};

/// Frees memory after a burst, such as an initial list. Called after an entry was removed.
///
/// Shrinks a large map that is mostly empty, and leaves room for twice its entries, so that the cost is amortised over
/// the removals.
fn shrink_if_sparse<K: Eq + std::hash::Hash, V>(map: &mut std::collections::HashMap<K, V>) {
    if map.capacity() > 1024 && map.len() < map.capacity() / 8 {
        map.shrink_to(usize::max(map.len() * 2, 512));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A map with this many entries and at least this capacity, after `shrink_if_sparse`, and its capacity before.
    fn shrunk(entries: usize, capacity: usize) -> (HashMap<usize, ()>, usize) {
        let mut map: HashMap<usize, ()> = HashMap::with_capacity(capacity);
        map.extend((0..entries).map(|key| (key, ())));
        let before = map.capacity();
        shrink_if_sparse(&mut map);
        (map, before)
    }

    #[test]
    fn a_large_map_shrinks_once_it_is_mostly_empty_and_keeps_room_to_double() {
        let sparse = shrunk(0, 10_000).1 / 8;
        let (map, before) = shrunk(sparse, 10_000);
        assert_eq!(map.capacity(), before, "an eighth is in use");
        let (map, before) = shrunk(sparse - 1, 10_000);
        assert!(map.capacity() < before, "less than an eighth is in use");
        // Not near a power of two, where the capacity that is left depends on rounding.
        let (map, before) = shrunk(1000, 10_000);
        assert!(map.capacity() < before);
        assert!(map.capacity() >= 2 * map.len());
    }

    #[test]
    fn a_small_map_keeps_its_capacity() {
        let (map, before) = shrunk(1, 800);
        assert_eq!(map.capacity(), before);
        // A large map is not shrunk below the capacity of a small one.
        assert!(shrunk(1, 10_000).0.capacity() >= 512);
    }
}
