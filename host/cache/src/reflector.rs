//! The reflector: keeps one informer's cache equal to the server by lists and watches, and recovers from every kind of
//! failure. It is an explicit state machine with one step function. Its states are in `reflector/lists.rs`,
//! `reflector/watches.rs` and `reflector/recovery.rs`. `stream.rs` has its requests, and `core.rs` the cache.
//!
//! Lists are streamed (KEP-3157) or paged (KEP-365); bookmarks (KEP-956) keep the position recent while nothing
//! changes.
//!
//! # Example: a relist
//!
//! The cache is at position 100 and holds the pods `p` (version 90) and `q` (version 95). The connection is cut for ten
//! minutes. Meanwhile `p` changes twice, `q` is deleted, `r` is created, and etcd is compacted.
//!
//! 1. `Connect` requests a watch from 100. The server responds 410 (Gone): it no longer has the versions after 100. The
//!    next state is `List`.
//! 2. `List` requests a list that is not older than 100. Without that bound, a server whose own cache is behind could
//!    return an older list, with objects that the plugins have seen being deleted (kubernetes/kubernetes#59848). The
//!    list is of version 180 and holds `p` (170) and `r` (150).
//! 3. `Core::replace` takes the list under one lock, so that no reader finds a part of it. Subscribers get three
//!    deltas: `q` was deleted, with version 95 as its last known state (client-go's `DeletedFinalStateUnknown`); `p`
//!    changed from 90 to 170, in one step; `r` was added.
//! 4. `Watch` goes on from 180.
//!
//! If the server's newest version were 80, the list would fail with "too large resource version", or
//! come with version 80. `Verify` then finds that versions went back, as after a restore from a backup,
//! and lists with `reset`: the cache accepts older versions.

mod lists;
mod recovery;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::backoff::{Backoff, random};
use crate::core::Core;
use crate::reachability::Reachability;
use crate::stream::Requests;
use crate::{ApiResource, Source};
use lists::{PagedList, StreamedList};
use recovery::{AfterVerify, BusyResponses};
use watches::Watching;

/// How lists are requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListMode {
    /// Streamed at the start of a watch where the server supports that, otherwise in pages.
    #[default]
    Streamed,
    /// Always in pages.
    Paged,
}

/// Receives how long the cache and its subscribers took to process a list or a batch of changes of a kind.
pub type Observe = dyn Fn(&ApiResource, Duration) + Send + Sync;

/// Lists and watches for one informer.
pub(crate) struct Reflector {
    list_mode: ListMode,
    observe: Arc<Observe>,
    core: Arc<Core>,
    requests: Requests,
    reachability: Arc<Reachability>,
    backoff: Backoff,
    busy: BusyResponses,
    /// The decoder's buffer.
    scratch: Vec<u8>,
    pages_only_until: Option<Instant>,
    /// When to list for a wider mask, if a handle needs one.
    widen_at: Option<Instant>,
    last_widened: Option<Instant>,
    /// When a bookmark was last requested.
    last_bookmark_request: Option<Instant>,
}

/// The state of the reflector.
enum Phase {
    /// Start a list.
    List {
        /// The server's versions went back: accept older versions than those seen.
        reset: bool,
        /// Request everything in one page, because the list expired between two pages.
        one_page: bool,
    },
    /// Receive the pages of a list.
    Pages(PagedList),
    /// Receive a list that is streamed at the start of a watch.
    StreamedList(StreamedList),
    /// Start a watch at the position of the last one.
    Connect {
        /// Start a short watch, to receive its bookmark.
        for_bookmark: bool,
    },
    /// Receive changes.
    Watch(Watching),
    /// Check whether the server's versions went back, after a failure that a server restored from a backup may cause.
    Verify(AfterVerify),
    /// Wait, then enter another state.
    Wait(Duration, Box<Phase>),
}

impl Phase {
    /// A list that is not older than what was seen.
    fn list() -> Self {
        Self::List {
            reset: false,
            one_page: false,
        }
    }

    /// A watch from the position of the last one.
    fn connect() -> Self {
        Self::Connect {
            for_bookmark: false,
        }
    }
}

impl Reflector {
    pub(crate) fn new(
        core: Arc<Core>,
        source: Arc<dyn Source>,
        reachability: Arc<Reachability>,
        list_mode: ListMode,
        observe: Arc<Observe>,
    ) -> Self {
        Self {
            list_mode,
            observe,
            requests: Requests::new(source, Arc::clone(&core)),
            core,
            reachability,
            backoff: Backoff::new(),
            busy: BusyResponses::default(),
            scratch: Vec::new(),
            pages_only_until: None,
            widen_at: None,
            last_widened: None,
            last_bookmark_request: None,
        }
    }

    /// Runs until it is stopped, or until the sender of `stop` is dropped.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut state = Phase::list();
        loop {
            state = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                state = self.step(state) => state,
            };
        }
        self.core.close();
    }

    /// Runs a change of the cache, and reports how long it took.
    fn observed<T>(&self, change: impl FnOnce(&Core) -> T) -> T {
        let started = std::time::Instant::now();
        let result = change(&self.core);
        (self.observe)(&self.core.resource, started.elapsed());
        result
    }

    async fn step(&mut self, state: Phase) -> Phase {
        match state {
            Phase::List { reset, one_page } => self.list(reset, one_page).await,
            Phase::Pages(list) => self.pages(list).await,
            Phase::StreamedList(list) => self.streamed_list(list).await,
            Phase::Connect { for_bookmark } => self.connect(for_bookmark).await,
            Phase::Watch(watching) => self.watch(watching).await,
            Phase::Verify(then) => self.verify(then).await,
            Phase::Wait(delay, then) => {
                sleep(delay).await;
                *then
            }
        }
    }
}

/// 5 to 10 minutes, so that watches that start together don't end together.
fn watch_timeout() -> Duration {
    Duration::from_secs(300).mul_f64(1.0 + random())
}
