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
//! `token_bucket.rs`; `memory.rs` frees memory after a burst.
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
mod memory;
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
