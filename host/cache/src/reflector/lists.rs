//! Lists: streamed at the start of a watch where the server supports that, otherwise in pages.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_types::Mask;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::recovery::{AfterVerify, ended_early};
use super::watches::Watching;
use super::{ListMode, Phase, Reflector, watch_timeout};
use crate::decode::Event;
use crate::stream::Events;
use crate::{Object, Uid};

/// A streamed list without events for this long is replaced by pages: a server that doesn't support streaming hangs.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// How long lists are requested in pages after the server failed to stream one.
const NO_STREAM_FOR: Duration = Duration::from_secs(600);

/// An incomplete list in pages.
pub(super) struct PagedList {
    objects: Vec<Arc<Object>>,
    /// The token of the next page; empty for the first one.
    next: String,
    mask: Arc<Mask>,
    reset: bool,
    one_page: bool,
}

/// An incomplete list, streamed at the start of a watch.
pub(super) struct StreamedList {
    stream: Events,
    objects: HashMap<Uid, Arc<Object>>,
    mask: Arc<Mask>,
    reset: bool,
    started: Instant,
}

impl StreamedList {
    /// The state that starts the same list again.
    fn again(&self) -> Phase {
        Phase::List {
            reset: self.reset,
            one_page: false,
        }
    }
}

impl Reflector {
    pub(super) async fn list(&mut self, reset: bool, one_page: bool) -> Phase {
        let mask = self.core.wanted_mask();
        self.widen_at = None;
        let pages_only = self.list_mode == ListMode::Paged
            || self
                .pages_only_until
                .is_some_and(|until| Instant::now() < until);
        if pages_only || one_page {
            return Phase::Pages(PagedList {
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
                Phase::StreamedList(StreamedList {
                    stream,
                    objects: HashMap::new(),
                    mask,
                    reset,
                    started: Instant::now(),
                })
            }
            Err(error) if error.is_too_large_version() => {
                self.failed(&error, Phase::Verify(AfterVerify::List))
            }
            Err(error) if error.is_no_watch_list() => {
                debug!(kind = %self.core.resource.kind, %error, "the server does not stream lists");
                self.pages_only_until = Some(Instant::now() + NO_STREAM_FOR);
                Phase::List { reset, one_page }
            }
            Err(error) => self.failed(&error, Phase::List { reset, one_page }),
        }
    }

    /// The resource version that a list must not be older than; 0 for a consistent read.
    fn lower_bound(&self, reset: bool) -> u64 {
        if reset { 0 } else { self.core.position() }
    }

    pub(super) async fn pages(&mut self, mut list: PagedList) -> Phase {
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
                debug!(kind = %self.core.resource.kind, "the list expired between two of its pages");
                return Phase::List {
                    reset,
                    one_page: true,
                };
            }
            Err(error) if error.is_too_large_version() => {
                return self.failed(&error, Phase::Verify(AfterVerify::List));
            }
            Err(error) => return self.failed(&error, Phase::List { reset, one_page }),
        };
        self.reachability.restored();
        let page = match self.core.decoder(&list.mask, &mut self.scratch).page(&body) {
            Ok(page) => page,
            Err(error) => return self.undecodable(&error, Phase::List { reset, one_page }),
        };
        list.objects.extend(page.objects);
        if !page.next.is_empty() {
            list.next = page.next;
            return Phase::Pages(list);
        }
        if page.resource_version < self.lower_bound(reset) {
            return Phase::Verify(AfterVerify::List);
        }
        self.take_list(list.objects, page.resource_version, list.mask, reset);
        Phase::connect()
    }

    pub(super) async fn streamed_list(&mut self, mut list: StreamedList) -> Phase {
        let again = list.again();
        let Ok(filled) = timeout(LIST_SILENCE, list.stream.fill()).await else {
            debug!(kind = %self.core.resource.kind, "the server stopped in the middle of a streamed list");
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
    fn listed_events(&mut self, mut list: StreamedList, events: Vec<Event>) -> Phase {
        let again = list.again();
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            match event {
                Event::Upsert(object) => drop(list.objects.insert(object.uid.clone(), object)),
                Event::Delete(object) => drop(list.objects.remove(&object.uid)),
                Event::Error(error) if error.is_too_large_version() => {
                    return Phase::Verify(AfterVerify::List);
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
                        return Phase::Verify(AfterVerify::List);
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
        Phase::StreamedList(list)
    }

    fn take_list(
        &mut self,
        objects: Vec<Arc<Object>>,
        position: u64,
        mask: Arc<Mask>,
        reset: bool,
    ) {
        debug!(kind = %self.core.resource.kind, objects = objects.len(), position, "listed");
        self.observed(|core| core.replace(objects, position, mask, reset));
        self.succeeded();
    }
}
