//! The workqueue: which key is reconciled when, and never by two workers at once.
//!
//! It stands between the router, which adds keys, and the workers, which get them and call a guest. It knows
//! neither Kubernetes nor wasm: a key is any cheap, hashable value (the host uses `Arc<str>`), a reason is whatever
//! the caller wants to be told about why a key was queued.
//!
//! The contract is that of client-go's `workqueue`:
//! - a key is queued once, however often it is added before a worker gets it;
//! - a key is never processed by two workers at once: added while it is processed, it is queued again when its
//!   [`Item`] is dropped;
//! - a delayed add keeps the earliest time asked for;
//! - a rate-limited add waits for the longer of the key's own exponential backoff and the queue's token bucket;
//! - after a shutdown adds are ignored, what is queued is still served, then [`WorkQueue::get`] returns `None`.
//!
//! Added to it: a lane of low priority (see [`Priority`]), and the memory of why a key was queued (see [`Causes`]).
//!
//! Read in this order: [`WorkQueue`] (`queue.rs`) locks, wakes and reports; `state.rs` decides, with no clock, no
//! lock and no `await` of its own, helped by `lanes.rs` (what is ready) and `delayed.rs` (what is not yet);
//! `limiter.rs` computes how long a retry waits.
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
//! drop(item); // done
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

pub use lanes::LOW_SHARE;
pub use limiter::{Bucket, RateLimit};
pub use metrics::{Metrics, NoMetrics, Snapshot};
pub use pending::{Causes, Priority};
pub use queue::{Config, Item, WorkQueue};

/// Gives memory back after a burst (an initial list): called where a map has just lost an entry.
///
/// It acts when a large map is mostly empty, and leaves room to double, so that its cost is spread over the removals.
fn trim<K: Eq + std::hash::Hash, V>(map: &mut std::collections::HashMap<K, V>) {
    if map.capacity() > 1024 && map.len() < map.capacity() / 8 {
        map.shrink_to(usize::max(map.len() * 2, 512));
    }
}
