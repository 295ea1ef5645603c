//! The reflector: keeps one informer's cache equal to the server by lists and watches, and recovers
//! from every kind of failure. It is an explicit state machine with one step function. `stream.rs`
//! has its requests, and `core.rs` the cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_types::{Mask, error_chain};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use crate::backoff::{Backoff, random};
use crate::core::Core;
use crate::decode::Event;
use crate::reachability::Reachability;
use crate::stream::{Events, Requests};
use crate::{DecodeError, Object, Source, SourceError, Uid};

/// A watch without events for this long counts as dead. The server sends a bookmark each minute.
const WATCH_SILENCE: Duration = Duration::from_secs(180);
/// A streamed list without events for this long is replaced by pages: a server that doesn't support
/// streaming hangs.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// A watch that ends sooner, without an event, counts as a failure.
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// A watch of this length resets the backoff.
const HEALTHY_WATCH: Duration = Duration::from_secs(30);
/// How long requests for a wider mask are gathered.
const WIDEN_GATHER: Duration = Duration::from_millis(100);
/// The minimum interval between two lists for a wider mask.
const WIDEN_INTERVAL: Duration = Duration::from_secs(2);
/// How long a caller waits for a version before a bookmark is requested.
const BOOKMARK_AFTER: Duration = Duration::from_secs(1);
/// The minimum interval between two such requests.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(5);
/// The timeout of a watch that is started for its bookmark, which a server sends 2 s before the
/// end.
const BOOKMARK_WATCH: Duration = Duration::from_secs(4);
/// How long lists are requested in pages after the server failed to stream one.
const NO_STREAM_FOR: Duration = Duration::from_secs(600);

/// Lists and watches for one informer.
pub(crate) struct Reflector {
    core: Arc<Core>,
    requests: Requests,
    reachability: Arc<Reachability>,
    backoff: Backoff,
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
enum State {
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
    /// Check whether the server's versions went back, after a failure that a server restored from a
    /// backup may cause.
    Verify(AfterVerify),
    /// Wait, then enter another state.
    Wait(Duration, Box<State>),
}

/// The state after a check that found the server's versions in order.
#[derive(Clone, Copy)]
enum AfterVerify {
    List,
    Connect,
}

/// An incomplete list in pages.
struct PagedList {
    objects: Vec<Arc<Object>>,
    /// The token of the next page; empty for the first one.
    next: String,
    mask: Arc<Mask>,
    reset: bool,
    one_page: bool,
}

/// An incomplete list, streamed at the start of a watch.
struct StreamedList {
    stream: Events,
    objects: HashMap<Uid, Arc<Object>>,
    mask: Arc<Mask>,
    reset: bool,
    started: Instant,
}

/// A running watch.
struct Watching {
    stream: Events,
    mask: Arc<Mask>,
    started: Instant,
    /// The timeout that was requested for the watch.
    timeout: Duration,
    /// Whether an event was received.
    received: bool,
}

impl Reflector {
    pub(crate) fn new(
        core: Arc<Core>,
        source: Arc<dyn Source>,
        reachability: Arc<Reachability>,
    ) -> Self {
        Self {
            requests: Requests::new(source, Arc::clone(&core)),
            core,
            reachability,
            backoff: Backoff::new(),
            scratch: Vec::new(),
            pages_only_until: None,
            widen_at: None,
            last_widened: None,
            last_bookmark_request: None,
        }
    }

    /// Runs until it is stopped, or until the sender of `stop` is dropped.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut state = State::List {
            reset: false,
            one_page: false,
        };
        loop {
            state = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                state = self.step(state) => state,
            };
        }
        self.core.close();
    }

    async fn step(&mut self, state: State) -> State {
        match state {
            State::List { reset, one_page } => self.list(reset, one_page).await,
            State::Pages(list) => self.pages(list).await,
            State::StreamedList(list) => self.streamed_list(list).await,
            State::Connect { for_bookmark } => self.connect(for_bookmark).await,
            State::Watch(watching) => self.watch(watching).await,
            State::Verify(then) => self.verify(then).await,
            State::Wait(delay, then) => {
                sleep(delay).await;
                *then
            }
        }
    }
}

/// Lists.
impl Reflector {
    async fn list(&mut self, reset: bool, one_page: bool) -> State {
        let mask = self.core.wanted_mask();
        self.widen_at = None;
        let pages_only = self
            .pages_only_until
            .is_some_and(|until| Instant::now() < until);
        if pages_only || one_page {
            return State::Pages(PagedList {
                objects: Vec::new(),
                next: String::new(),
                mask,
                reset,
                one_page,
            });
        }
        let not_older_than = self.lower_bound(reset);
        match self
            .requests
            .stream_list(not_older_than, watch_timeout())
            .await
        {
            Ok(stream) => {
                self.reachability.restored();
                State::StreamedList(StreamedList {
                    stream,
                    objects: HashMap::new(),
                    mask,
                    reset,
                    started: Instant::now(),
                })
            }
            Err(error) if error.is_too_large_version() => {
                self.failed(&error, State::Verify(AfterVerify::List))
            }
            Err(error) if error.is_no_watch_list() => {
                debug!(resource = %self.core.resource.kind, %error, "the server does not stream lists");
                self.pages_only_until = Some(Instant::now() + NO_STREAM_FOR);
                State::List { reset, one_page }
            }
            Err(error) => self.failed(&error, State::List { reset, one_page }),
        }
    }

    /// The resource version that a list must not be older than; 0 for a consistent read.
    fn lower_bound(&self, reset: bool) -> u64 {
        if reset { 0 } else { self.core.position() }
    }

    async fn pages(&mut self, mut list: PagedList) -> State {
        let PagedList {
            reset, one_page, ..
        } = list;
        let not_older_than = self.lower_bound(reset);
        let body = match self
            .requests
            .page(&list.next, not_older_than, one_page)
            .await
        {
            Ok(body) => body,
            Err(error) if error.is_expired() && !list.next.is_empty() => {
                debug!(resource = %self.core.resource.kind, "the list expired between two of its pages");
                return State::List {
                    reset,
                    one_page: true,
                };
            }
            Err(error) if error.is_too_large_version() => {
                return self.failed(&error, State::Verify(AfterVerify::List));
            }
            Err(error) => return self.failed(&error, State::List { reset, one_page }),
        };
        self.reachability.restored();
        let page = match self.core.decoder(&list.mask, &mut self.scratch).page(&body) {
            Ok(page) => page,
            Err(error) => return self.undecodable(&error, State::List { reset, one_page }),
        };
        list.objects.extend(page.objects);
        if !page.next.is_empty() {
            list.next = page.next;
            return State::Pages(list);
        }
        if page.resource_version < self.lower_bound(reset) {
            return State::Verify(AfterVerify::List);
        }
        self.take_list(list.objects, page.resource_version, list.mask, reset);
        State::Connect {
            for_bookmark: false,
        }
    }

    async fn streamed_list(&mut self, mut list: StreamedList) -> State {
        let again = State::List {
            reset: list.reset,
            one_page: false,
        };
        let Ok(filled) = timeout(LIST_SILENCE, list.stream.fill()).await else {
            debug!(resource = %self.core.resource.kind, "the server stopped in the middle of a streamed list");
            self.pages_only_until = Some(Instant::now() + NO_STREAM_FOR);
            return again;
        };
        match filled {
            Ok(true) => {}
            Ok(false) => return self.failed(&ended_early(), again),
            Err(error) => return self.failed(&error, again),
        }
        let events = match self
            .core
            .decoder(&list.mask, &mut self.scratch)
            .events(list.stream.whole())
        {
            Ok(events) => events,
            Err(error) => return self.undecodable(&error, again),
        };
        list.stream.consume();
        self.listed_events(list, events)
    }

    /// Handles events of a streamed list. The bookmark that ends the list starts the watch.
    fn listed_events(&mut self, mut list: StreamedList, events: Vec<Event>) -> State {
        let again = State::List {
            reset: list.reset,
            one_page: false,
        };
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            match event {
                Event::Upsert(object) => drop(list.objects.insert(object.uid.clone(), object)),
                Event::Delete(object) => drop(list.objects.remove(&object.uid)),
                Event::Error(error) if error.is_too_large_version() => {
                    return State::Verify(AfterVerify::List);
                }
                Event::Error(error) if error.is_no_watch_list() => {
                    self.pages_only_until = Some(Instant::now() + NO_STREAM_FOR);
                    return again;
                }
                Event::Error(error) => return self.failed(&error, again),
                Event::Bookmark {
                    initial_end: false, ..
                } => {}
                Event::Bookmark {
                    resource_version, ..
                } => {
                    if resource_version < self.lower_bound(list.reset) {
                        return State::Verify(AfterVerify::List);
                    }
                    self.take_list(
                        list.objects.into_values().collect(),
                        resource_version,
                        list.mask.clone(),
                        list.reset,
                    );
                    let watching = Watching {
                        stream: list.stream,
                        mask: list.mask,
                        started: list.started,
                        timeout: Duration::MAX,
                        received: true,
                    };
                    return self.changes(events.collect(), watching);
                }
            }
        }
        State::StreamedList(list)
    }

    fn take_list(
        &mut self,
        objects: Vec<Arc<Object>>,
        position: u64,
        mask: Arc<Mask>,
        reset: bool,
    ) {
        debug!(resource = %self.core.resource.kind, objects = objects.len(), position, "listed");
        self.core.replace(objects, position, mask, reset);
        self.succeeded();
    }
}

/// Watches.
impl Reflector {
    async fn connect(&mut self, for_bookmark: bool) -> State {
        let limit = if for_bookmark {
            BOOKMARK_WATCH
        } else {
            watch_timeout()
        };
        match self.requests.watch(self.core.position(), limit).await {
            Ok(stream) => {
                self.succeeded();
                if self.core.is_too_narrow() {
                    self.widen_soon();
                }
                // This server may have been restored from a backup.
                self.core.acknowledged.clear();
                let mask = self.core.held_mask();
                State::Watch(Watching {
                    stream,
                    mask,
                    started: Instant::now(),
                    timeout: limit,
                    received: false,
                })
            }
            Err(error) if error.is_expired() => self.expired(),
            Err(error) if error.is_too_large_version() => {
                self.failed(&error, State::Verify(AfterVerify::Connect))
            }
            Err(error) if error.is_not_found() => self.failed(
                &error,
                State::List {
                    reset: false,
                    one_page: false,
                },
            ),
            Err(error) => self.failed(&error, State::Verify(AfterVerify::Connect)),
        }
    }

    async fn watch(&mut self, mut watching: Watching) -> State {
        let never = Instant::now() + Duration::from_secs(86_400);
        let mut awaited = self.core.awaited.subscribe();
        let is_awaited = *awaited.borrow_and_update() > self.core.position();
        let bookmark_at = match self.last_bookmark_request {
            _ if !is_awaited => never,
            Some(last) => (last + BOOKMARK_INTERVAL).max(Instant::now() + BOOKMARK_AFTER),
            None => Instant::now() + BOOKMARK_AFTER,
        };
        let filled = tokio::select! {
            biased;
            () = self.core.widen.notified() => {
                if self.core.is_too_narrow() {
                    self.widen_soon();
                }
                return State::Watch(watching);
            }
            () = sleep_until(self.widen_at.unwrap_or(never)), if self.widen_at.is_some() => {
                self.last_widened = Some(Instant::now());
                return State::List { reset: false, one_page: false };
            }
            filled = timeout(WATCH_SILENCE, watching.stream.fill()) => filled,
            _ = awaited.changed() => return State::Watch(watching),
            () = sleep_until(bookmark_at), if is_awaited => {
                self.last_bookmark_request = Some(Instant::now());
                return State::Connect { for_bookmark: true };
            }
        };
        let lasted = watching.started.elapsed();
        match filled {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) if lasted < SHORT_WATCH && !watching.received => {
                return self.failed(&ended_early(), State::Verify(AfterVerify::Connect));
            }
            // A server ends a watch at the requested timeout. If it does so earlier, it may have
            // been restarted.
            Ok(Ok(false)) if lasted + SHORT_WATCH < watching.timeout => {
                return State::Verify(AfterVerify::Connect);
            }
            Ok(Ok(false)) => {
                return State::Connect {
                    for_bookmark: false,
                };
            }
            Ok(Err(error)) => {
                if lasted >= HEALTHY_WATCH {
                    self.backoff.reset();
                }
                return self.failed(&error, State::Verify(AfterVerify::Connect));
            }
            Err(_silent) => return State::Verify(AfterVerify::Connect),
        }
        watching.received = true;
        match self
            .core
            .decoder(&watching.mask, &mut self.scratch)
            .events(watching.stream.whole())
        {
            Ok(events) => {
                watching.stream.consume();
                if lasted >= HEALTHY_WATCH {
                    self.backoff.reset();
                }
                self.changes(events, watching)
            }
            Err(error) => self.undecodable(
                &error,
                State::List {
                    reset: false,
                    one_page: false,
                },
            ),
        }
    }

    fn changes(&mut self, mut events: Vec<Event>, watching: Watching) -> State {
        let error_at = events
            .iter()
            .position(|event| matches!(event, Event::Error(_)));
        // Events after an error are dropped.
        let error = error_at.map(|at| events.drain(at..).next());
        if !events.is_empty() && !self.core.apply(events) {
            return State::Verify(AfterVerify::List);
        }
        match error {
            None => State::Watch(watching),
            Some(Some(Event::Error(error))) if error.is_expired() => self.expired(),
            Some(Some(Event::Error(error))) => {
                self.failed(&error, State::Verify(AfterVerify::Connect))
            }
            Some(_) => unreachable!("the event at this position is an error"),
        }
    }

    /// Schedules a list for a wider mask.
    fn widen_soon(&mut self) {
        let earliest = self.last_widened.map(|at| at + WIDEN_INTERVAL);
        let soon = Instant::now() + WIDEN_GATHER;
        self.widen_at
            .get_or_insert(earliest.map_or(soon, |earliest| earliest.max(soon)));
    }
}

/// Failures and recovery.
impl Reflector {
    /// Compares the position with that of a consistent read.
    async fn verify(&mut self, then: AfterVerify) -> State {
        let position = self.core.position();
        if position == 0 {
            return State::List {
                reset: false,
                one_page: false,
            };
        }
        match self.requests.fresh_position().await {
            Ok(fresh) if fresh < position => {
                warn!(
                    resource = %self.core.resource.kind, position, server_position = fresh,
                    "THE SERVER'S RESOURCE VERSIONS WENT BACK, as after a restore from a backup: listing again"
                );
                State::List {
                    reset: true,
                    one_page: false,
                }
            }
            Ok(_) => match then {
                AfterVerify::List => State::Wait(
                    self.backoff.next(),
                    Box::new(State::List {
                        reset: false,
                        one_page: false,
                    }),
                ),
                AfterVerify::Connect => State::Connect {
                    for_bookmark: false,
                },
            },
            Err(error) => self.failed(&error, State::Verify(then)),
        }
    }

    /// Handles the error that the server no longer has the versions after the position.
    fn expired(&mut self) -> State {
        info!(resource = %self.core.resource.kind, position = self.core.position(), "the watch is too far behind; listing again");
        State::List {
            reset: false,
            one_page: false,
        }
    }

    /// Records that a list or watch succeeded.
    fn succeeded(&mut self) {
        self.reachability.restored();
        if self.core.set_problem(None) {
            info!(resource = %self.core.resource.kind, "can list and watch again");
        }
    }

    /// Handles a response that can't be decoded. If it is protobuf, JSON is requested from now on.
    fn undecodable(&mut self, error: &DecodeError, next: State) -> State {
        if matches!(error, DecodeError::Protobuf(_)) && self.core.read_json_only() {
            info!(resource = %self.core.resource.kind, %error, "can't decode the server's protobuf; requesting JSON from now on");
            return next;
        }
        self.failed(&SourceError::Invalid(error.to_string()), next)
    }

    /// Records a failure, and waits before the next state.
    fn failed(&mut self, error: &SourceError, next: State) -> State {
        let mut delay = self.backoff.next();
        if let SourceError::Refused {
            retry_after: Some(seconds),
            ..
        } = error
        {
            delay = delay.max(Duration::from_secs(u64::from(*seconds).min(120)));
        }
        let is_new = self.core.set_problem(Some(error_chain(error)));
        if error.is_unreachable() {
            self.reachability.lost(error);
        } else {
            self.reachability.restored();
            if is_new {
                warn!(resource = %self.core.resource.kind, error = %error_chain(error), "can't list or watch; retrying");
            }
        }
        State::Wait(delay, Box::new(next))
    }
}

/// 5 to 10 minutes, so that watches that start together don't end together.
fn watch_timeout() -> Duration {
    Duration::from_secs(300).mul_f64(1.0 + random())
}

fn ended_early() -> SourceError {
    SourceError::Unreachable("the server ended the watch early".into())
}
