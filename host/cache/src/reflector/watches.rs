//! Watches: receive changes, widen the mask, and request bookmarks.

use std::sync::Arc;
use std::time::Duration;

use flyball_types::Mask;
use tokio::time::{Instant, sleep_until, timeout};

use super::recovery::{AfterVerify, ended_early};
use super::{Phase, Reflector, watch_timeout};
use crate::decode::Event;
use crate::stream::Events;

/// A watch without events for this long counts as dead. The server sends a bookmark each minute.
const WATCH_SILENCE: Duration = Duration::from_secs(180);
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
/// The timeout of a watch that is started for its bookmark, which a server sends 2 s before the end.
const BOOKMARK_WATCH: Duration = Duration::from_secs(4);

/// A running watch.
pub(super) struct Watching {
    pub(super) stream: Events,
    pub(super) mask: Arc<Mask>,
    pub(super) started: Instant,
    /// The timeout that was requested for the watch.
    pub(super) timeout: Duration,
    /// Whether an event was received.
    pub(super) received: bool,
}

impl Reflector {
    pub(super) async fn connect(&mut self, for_bookmark: bool) -> Phase {
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
                Phase::Watch(Watching {
                    stream,
                    mask,
                    started: Instant::now(),
                    timeout: limit,
                    received: false,
                })
            }
            Err(error) if error.is_expired() => self.expired(),
            Err(error) if error.is_too_large_version() => {
                self.failed(&error, Phase::Verify(AfterVerify::Connect))
            }
            Err(error) if error.is_not_found() => self.failed(&error, Phase::list()),
            Err(error) => self.failed(&error, Phase::Verify(AfterVerify::Connect)),
        }
    }

    pub(super) async fn watch(&mut self, mut watching: Watching) -> Phase {
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
                return Phase::Watch(watching);
            }
            () = sleep_until(self.widen_at.unwrap_or(never)), if self.widen_at.is_some() => {
                self.last_widened = Some(Instant::now());
                return Phase::list();
            }
            filled = timeout(WATCH_SILENCE, watching.stream.fill()) => filled,
            _ = awaited.changed() => return Phase::Watch(watching),
            () = sleep_until(bookmark_at), if is_awaited => {
                self.last_bookmark_request = Some(Instant::now());
                return Phase::Connect { for_bookmark: true };
            }
        };
        let lasted = watching.started.elapsed();
        match filled {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) if lasted < SHORT_WATCH && !watching.received => {
                return self.failed(&ended_early(), Phase::Verify(AfterVerify::Connect));
            }
            // A server ends a watch at the requested timeout. If it does so earlier, it may have been restarted.
            Ok(Ok(false)) if lasted + SHORT_WATCH < watching.timeout => {
                return Phase::Verify(AfterVerify::Connect);
            }
            Ok(Ok(false)) => {
                return Phase::connect();
            }
            Ok(Err(error)) => {
                if lasted >= HEALTHY_WATCH {
                    self.backoff.reset();
                }
                return self.failed(&error, Phase::Verify(AfterVerify::Connect));
            }
            Err(_silent) => return Phase::Verify(AfterVerify::Connect),
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
            Err(error) => self.undecodable(&error, Phase::list()),
        }
    }

    pub(super) fn changes(&mut self, mut events: Vec<Event>, watching: Watching) -> Phase {
        let error_at = events
            .iter()
            .position(|event| matches!(event, Event::Error(_)));
        // Events after an error are dropped.
        let error = error_at.map(|at| events.drain(at..).next());
        if !events.is_empty() && !self.observed(|core| core.apply(events)) {
            return Phase::Verify(AfterVerify::List);
        }
        match error {
            None => Phase::Watch(watching),
            Some(Some(Event::Error(error))) if error.is_expired() => self.expired(),
            Some(Some(Event::Error(error))) => {
                self.failed(&error, Phase::Verify(AfterVerify::Connect))
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
