//! Keeps one cache like the server: lists, watches, and finds its way back after every kind of failure. A state and one
//! step function; what each state waits for is in its description. The requests themselves are in `stream.rs`.

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
use crate::link::Link;
use crate::stream::{Events, Requests};
use crate::{DecodeError, Object, Source, SourceError, Uid};

/// How long a watch may be silent, bookmarks (one a minute) included, before its connection counts as dead.
const SILENCE: Duration = Duration::from_secs(180);
/// How long a streamed list may be silent before pages are asked for instead: a server that does not know of it hangs.
const INITIAL_SILENCE: Duration = Duration::from_secs(30);
/// A watch that ends sooner, with nothing told, counts as a failure.
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// After a watch this long, failures before it are forgotten.
const HEALTHY: Duration = Duration::from_secs(30);
/// How long wishes for wider fields are gathered.
const WIDEN_GATHER: Duration = Duration::from_millis(100);
/// How long at least lies between two lists for wider fields.
const WIDEN_INTERVAL: Duration = Duration::from_secs(2);
/// How long somebody may wait for a version before the server is asked for a bookmark, and then again.
const NUDGE_AFTER: Duration = Duration::from_secs(1);
const NUDGE_INTERVAL: Duration = Duration::from_secs(5);
/// A server sends a bookmark 2 s before a watch ends.
const NUDGE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a server that refused to stream a list is asked for pages only.
const NO_STREAM_FOR: Duration = Duration::from_secs(600);

/// Lists and watches for one informer.
pub(crate) struct Reflector {
    core: Arc<Core>,
    requests: Requests,
    link: Arc<Link>,
    backoff: Backoff,
    scratch: Vec<u8>,
    pages_only_until: Option<Instant>,
    widen_at: Option<Instant>,
    widened_at: Option<Instant>,
    nudged_at: Option<Instant>,
}

/// Where the reflector is.
enum State {
    /// A new list is to be begun.
    List {
        /// The server's versions went back: take what it has, and let versions go back too.
        reset: bool,
        /// Ask for everything in one page, because the pages before were too slow.
        one_page: bool,
    },
    /// Pages are coming.
    Pages(Listing),
    /// A list is streamed as the beginning of a watch.
    Initial {
        stream: Events,
        objects: HashMap<Uid, Arc<Object>>,
        mask: Arc<Mask>,
        reset: bool,
        started: Instant,
    },
    /// A watch is to be begun where the last one ended; a short one, if only for its bookmark.
    Connect { nudge: bool },
    /// Changes are coming.
    Watch(Watching),
    /// Something failed that may come of a server that was restored from a backup: see if its versions went back.
    Verify(Then),
    /// Wait, then go on.
    Wait(Duration, Box<State>),
}

/// What follows a verification.
#[derive(Clone, Copy)]
enum Then {
    List,
    Connect,
}

struct Listing {
    objects: Vec<Arc<Object>>,
    next: String,
    mask: Arc<Mask>,
    reset: bool,
    one_page: bool,
}

struct Watching {
    stream: Events,
    mask: Arc<Mask>,
    started: Instant,
    /// How long the server was asked to keep it.
    timeout: Duration,
    heard: bool,
}

impl Reflector {
    pub(crate) fn new(core: Arc<Core>, source: Arc<dyn Source>, link: Arc<Link>) -> Self {
        Self {
            requests: Requests::new(source, Arc::clone(&core)),
            core,
            link,
            backoff: Backoff::new(),
            scratch: Vec::new(),
            pages_only_until: None,
            widen_at: None,
            widened_at: None,
            nudged_at: None,
        }
    }

    /// Runs until told to stop, or until nobody is left to tell.
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
            State::Pages(listing) => self.pages(listing).await,
            State::Initial {
                stream,
                objects,
                mask,
                reset,
                started,
            } => self.initial(stream, objects, mask, reset, started).await,
            State::Connect { nudge } => self.connect(nudge).await,
            State::Watch(watching) => self.watch(watching).await,
            State::Verify(then) => self.verify(then).await,
            State::Wait(delay, then) => {
                sleep(delay).await;
                *then
            }
        }
    }
}

/// Listing.
impl Reflector {
    async fn list(&mut self, reset: bool, one_page: bool) -> State {
        let mask = self.core.wanted_mask();
        self.widen_at = None;
        let pages_only = self
            .pages_only_until
            .is_some_and(|until| Instant::now() < until);
        if pages_only || one_page {
            return State::Pages(Listing {
                objects: Vec::new(),
                next: String::new(),
                mask,
                reset,
                one_page,
            });
        }
        let least = if reset { 0 } else { self.core.position() };
        match self.requests.stream_list(least, watch_timeout()).await {
            Ok(stream) => {
                self.link.up();
                let objects = HashMap::new();
                State::Initial {
                    stream,
                    objects,
                    mask,
                    reset,
                    started: Instant::now(),
                }
            }
            Err(error) if error.is_too_large_version() => {
                self.failed(&error, State::Verify(Then::List))
            }
            Err(error) if error.is_no_watch_list() => {
                debug!(resource = %self.core.resource.kind, %error, "the server streams no lists");
                self.pages_only_until = Some(Instant::now() + NO_STREAM_FOR);
                State::List { reset, one_page }
            }
            Err(error) => self.failed(&error, State::List { reset, one_page }),
        }
    }

    async fn pages(&mut self, mut listing: Listing) -> State {
        let Listing {
            reset, one_page, ..
        } = listing;
        let least = if reset { 0 } else { self.core.position() };
        let body = match self.requests.page(&listing.next, least, one_page).await {
            Ok(body) => body,
            Err(error) if error.is_expired() && !listing.next.is_empty() => {
                debug!(resource = %self.core.resource.kind, "the list grew too old between two of its pages");
                return State::List {
                    reset,
                    one_page: true,
                };
            }
            Err(error) if error.is_too_large_version() => {
                return self.failed(&error, State::Verify(Then::List));
            }
            Err(error) => return self.failed(&error, State::List { reset, one_page }),
        };
        self.link.up();
        let page = match self
            .core
            .decoder(&listing.mask, &mut self.scratch)
            .page(&body)
        {
            Ok(page) => page,
            Err(error) => return self.unreadable(&error, State::List { reset, one_page }),
        };
        listing.objects.extend(page.objects);
        if !page.next.is_empty() {
            listing.next = page.next;
            return State::Pages(listing);
        }
        if page.resource_version < self.core.position() && !reset {
            return State::Verify(Then::List);
        }
        self.take_list(listing.objects, page.resource_version, listing.mask, reset);
        State::Connect { nudge: false }
    }

    async fn initial(
        &mut self,
        mut stream: Events,
        mut objects: HashMap<Uid, Arc<Object>>,
        mask: Arc<Mask>,
        reset: bool,
        started: Instant,
    ) -> State {
        let again = State::List {
            reset,
            one_page: false,
        };
        let Ok(filled) = timeout(INITIAL_SILENCE, stream.fill()).await else {
            debug!(resource = %self.core.resource.kind, "the server began to stream a list and fell silent");
            self.pages_only_until = Some(Instant::now() + NO_STREAM_FOR);
            return again;
        };
        match filled {
            Ok(true) => {}
            Ok(false) => return self.failed(&cut(), again),
            Err(error) => return self.failed(&error, again),
        }
        let mut events = match self
            .core
            .decoder(&mask, &mut self.scratch)
            .events(stream.whole())
        {
            Ok(events) => events.into_iter(),
            Err(error) => return self.unreadable(&error, again),
        };
        stream.consume();
        while let Some(event) = events.next() {
            match event {
                Event::Upsert(object) => drop(objects.insert(object.uid.clone(), object)),
                Event::Delete(object) => drop(objects.remove(&object.uid)),
                Event::Error(error) if error.is_too_large_version() => {
                    return State::Verify(Then::List);
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
                    if resource_version < self.core.position() && !reset {
                        return State::Verify(Then::List);
                    }
                    self.take_list(
                        objects.into_values().collect(),
                        resource_version,
                        mask.clone(),
                        reset,
                    );
                    let watching = Watching {
                        stream,
                        mask,
                        started,
                        timeout: Duration::MAX,
                        heard: true,
                    };
                    return self.changes(events.collect(), watching);
                }
            }
        }
        State::Initial {
            stream,
            objects,
            mask,
            reset,
            started,
        }
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
        self.well();
    }
}

/// Watching.
impl Reflector {
    async fn connect(&mut self, nudge: bool) -> State {
        let limit = if nudge {
            NUDGE_TIMEOUT
        } else {
            watch_timeout()
        };
        match self.requests.watch(self.core.position(), limit).await {
            Ok(stream) => {
                self.well();
                if self.core.is_too_narrow() {
                    self.widen_soon();
                }
                // It may be a server that was restored from a backup.
                self.core.acknowledged.clear();
                let mask = self.core.held_mask();
                State::Watch(Watching {
                    stream,
                    mask,
                    started: Instant::now(),
                    timeout: limit,
                    heard: false,
                })
            }
            Err(error) if error.is_expired() => self.expired(),
            Err(error) if error.is_too_large_version() => {
                self.failed(&error, State::Verify(Then::Connect))
            }
            Err(error) if error.is_not_found() => self.failed(
                &error,
                State::List {
                    reset: false,
                    one_page: false,
                },
            ),
            Err(error) => self.failed(&error, State::Verify(Then::Connect)),
        }
    }

    async fn watch(&mut self, mut watching: Watching) -> State {
        let never = Instant::now() + Duration::from_secs(86_400);
        let mut awaited = self.core.awaited.subscribe();
        let is_awaited = *awaited.borrow_and_update() > self.core.position();
        let nudge_at = match self.nudged_at {
            _ if !is_awaited => never,
            Some(nudged_at) => (nudged_at + NUDGE_INTERVAL).max(Instant::now() + NUDGE_AFTER),
            None => Instant::now() + NUDGE_AFTER,
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
                self.widened_at = Some(Instant::now());
                return State::List { reset: false, one_page: false };
            }
            filled = timeout(SILENCE, watching.stream.fill()) => filled,
            _ = awaited.changed() => return State::Watch(watching),
            () = sleep_until(nudge_at), if is_awaited => {
                self.nudged_at = Some(Instant::now());
                return State::Connect { nudge: true };
            }
        };
        let lasted = watching.started.elapsed();
        match filled {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) if lasted < SHORT_WATCH && !watching.heard => {
                return self.failed(&cut(), State::Verify(Then::Connect));
            }
            // The server ends a watch at the time that it was asked for. Sooner, it may have been restarted.
            Ok(Ok(false)) if lasted + SHORT_WATCH < watching.timeout => {
                return State::Verify(Then::Connect);
            }
            Ok(Ok(false)) => return State::Connect { nudge: false },
            Ok(Err(error)) => {
                if lasted >= HEALTHY {
                    self.backoff.reset();
                }
                return self.failed(&error, State::Verify(Then::Connect));
            }
            Err(_silent) => return State::Verify(Then::Connect),
        }
        watching.heard = true;
        match self
            .core
            .decoder(&watching.mask, &mut self.scratch)
            .events(watching.stream.whole())
        {
            Ok(events) => {
                watching.stream.consume();
                if lasted >= HEALTHY {
                    self.backoff.reset();
                }
                self.changes(events, watching)
            }
            Err(error) => self.unreadable(
                &error,
                State::List {
                    reset: false,
                    one_page: false,
                },
            ),
        }
    }

    fn changes(&mut self, mut events: Vec<Event>, watching: Watching) -> State {
        let error = events
            .iter()
            .position(|event| matches!(event, Event::Error(_)));
        let error = error.map(|at| events.drain(at..).next());
        if !events.is_empty() && !self.core.apply(events) {
            return State::Verify(Then::List);
        }
        match error {
            None => State::Watch(watching),
            Some(Some(Event::Error(error))) if error.is_expired() => self.expired(),
            Some(Some(Event::Error(error))) => self.failed(&error, State::Verify(Then::Connect)),
            Some(_) => unreachable!("the position is that of an error"),
        }
    }

    fn widen_soon(&mut self) {
        let earliest = self.widened_at.map(|at| at + WIDEN_INTERVAL);
        let soon = Instant::now() + WIDEN_GATHER;
        self.widen_at
            .get_or_insert(earliest.map_or(soon, |earliest| earliest.max(soon)));
    }
}

/// Failing and coming back.
impl Reflector {
    async fn verify(&mut self, then: Then) -> State {
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
                    resource = %self.core.resource.kind, seen = position, now = fresh,
                    "THE SERVER'S VERSIONS WENT BACK, as after a restore from a backup: the cache is read anew"
                );
                State::List {
                    reset: true,
                    one_page: false,
                }
            }
            Ok(_) => match then {
                Then::List => State::Wait(
                    self.backoff.next(),
                    Box::new(State::List {
                        reset: false,
                        one_page: false,
                    }),
                ),
                Then::Connect => State::Connect { nudge: false },
            },
            Err(error) => self.failed(&error, State::Verify(then)),
        }
    }

    fn expired(&mut self) -> State {
        info!(resource = %self.core.resource.kind, position = self.core.position(), "the watch fell too far behind");
        State::List {
            reset: false,
            one_page: false,
        }
    }

    fn well(&mut self) {
        self.link.up();
        if self.core.set_problem(None) {
            info!(resource = %self.core.resource.kind, "lists and watches again");
        }
    }

    /// What came can't be decoded. Where it was protobuf, it is asked for as JSON from now on.
    fn unreadable(&mut self, error: &DecodeError, next: State) -> State {
        if matches!(error, DecodeError::Protobuf(_)) && self.core.read_json_only() {
            info!(resource = %self.core.resource.kind, %error, "reads JSON from now on");
            return next;
        }
        self.failed(&SourceError::Nonsense(error.to_string()), next)
    }

    /// Notes a failure, and waits before what comes next.
    fn failed(&mut self, error: &SourceError, next: State) -> State {
        let mut delay = self.backoff.next();
        if let SourceError::Refused {
            retry_after: Some(seconds),
            ..
        } = error
        {
            delay = delay.max(Duration::from_secs(u64::from(*seconds).min(120)));
        }
        let is_news = self.core.set_problem(Some(error_chain(error)));
        if error.is_unreachable() {
            self.link.down(error);
        } else {
            self.link.up();
            if is_news {
                warn!(resource = %self.core.resource.kind, error = %error_chain(error), "can't list or watch; trying again");
            }
        }
        State::Wait(delay, Box::new(next))
    }
}

/// 5 to 10 minutes, so that watches that began together do not end together.
fn watch_timeout() -> Duration {
    Duration::from_secs(300).mul_f64(1.0 + random())
}

fn cut() -> SourceError {
    SourceError::Unreachable("the server ended the watch at once".into())
}
