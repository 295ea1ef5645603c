//! Decides which events are sent, and how, with client-go's three filters in its order: similar events are aggregated, the
//! events about one object are limited, and a repeated event raises the count of the one that was sent.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use flyball_workqueue::{BucketConfig, TokenBucket};
use tokio::time::Instant;

use super::Event;

/// How many objects, groups and events are remembered. The oldest are forgotten first.
const REMEMBERED: usize = 4096;
/// So many events that differ only in their message are combined into one, if they occur within this time.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// The limit of events about one object: 25 at once, and one more every 300 seconds.
const SPAM: BucketConfig = BucketConfig {
    qps: 1.0 / 300.0,
    burst: 25,
};

/// An event to send.
#[derive(Clone, Debug)]
pub(crate) struct Correlated {
    pub(crate) event: Event,
    /// How often it occurred.
    pub(crate) count: u32,
    /// The name under which it was sent before, if any.
    pub(crate) known_as: Option<String>,
    digest: Digest,
}

/// Remembers the events that were sent.
#[derive(Default)]
pub(crate) struct Correlator {
    hasher: RandomState,
    groups: Recent<Group>,
    spam: Recent<TokenBucket>,
    sent: Recent<Sent>,
}

/// The hash of an object, a group, an event or a message, keyed at random. The texts of a thousand owners and their events
/// would take megabytes; a collision among some thousands of 64-bit hashes is not expected.
type Digest = u64;

#[derive(Default)]
struct Group {
    messages: Vec<Digest>,
    last: Option<SystemTime>,
}

#[derive(Default)]
struct Sent {
    count: u32,
    name: Option<String>,
}

impl Correlator {
    /// Returns the event as it is to be sent; none if there were too many about its object.
    pub(crate) fn correlate(&mut self, mut event: Event, now: Instant) -> Option<Correlated> {
        let about = &event.about;
        let object = self
            .hasher
            .hash_one((&about.kind, &about.namespace, &about.name, &about.uid));
        let similar = self
            .hasher
            .hash_one((object, &event.event_type, &event.reason));
        let message = self.hasher.hash_one(&event.message);

        let group = self.groups.entry(similar, Group::default);
        if group.last.is_some_and(|last| {
            event
                .at
                .duration_since(last)
                .is_ok_and(|passed| passed > SIMILAR_WITHIN)
        }) {
            group.messages.clear();
        }
        group.last = Some(event.at);
        if !group.messages.contains(&message) && group.messages.len() < SIMILAR {
            group.messages.push(message);
        }
        let aggregate = group.messages.len() >= SIMILAR;
        let digest = self
            .hasher
            .hash_one((similar, (!aggregate).then_some(message)));
        if aggregate {
            event.message = format!("(combined from similar events): {}", event.message);
        }

        let spam = self.spam.entry(object, || TokenBucket::new(SPAM));
        if !spam.try_take(now) {
            return None;
        }

        let sent = self.sent.entry(digest, Sent::default);
        sent.count += 1;
        Some(Correlated {
            event,
            count: sent.count,
            known_as: sent.name.clone(),
            digest,
        })
    }

    /// Remembers the name under which an event was sent.
    pub(crate) fn sent(&mut self, correlated: &Correlated, name: String) {
        self.sent.entry(correlated.digest, Sent::default).name = Some(name);
    }
}

/// A map that forgets its oldest entries.
struct Recent<V> {
    values: HashMap<Digest, V>,
    order: VecDeque<Digest>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self {
            values: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<V> Recent<V> {
    fn entry(&mut self, of: Digest, new: impl FnOnce() -> V) -> &mut V {
        if !self.values.contains_key(&of) {
            if self.order.len() == REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.values.remove(&oldest);
            }
            self.order.push_back(of);
        }
        self.values.entry(of).or_insert_with(new)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use flyball_plugin::ObjectReference;
    use flyball_types::EventOptions;

    use super::*;

    fn event(message: &str, second: u64) -> Event {
        let about = ObjectReference {
            kind: "v1/Pod".into(),
            namespace: "demo".into(),
            name: "web".into(),
            uid: "1".into(),
        };
        Event {
            about,
            event_type: "Normal".into(),
            reason: "Created".into(),
            message: message.into(),
            options: EventOptions::default(),
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
        }
    }

    /// Correlates an event at the time when it was emitted.
    fn correlate(correlator: &mut Correlator, event: Event) -> Option<Correlated> {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        let since = event.at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        correlator.correlate(event, *START + since)
    }

    #[test]
    fn a_repeated_event_raises_the_count_of_the_one_that_was_sent() {
        let mut correlator = Correlator::default();
        let first = correlate(&mut correlator, event("a", 0)).unwrap();
        assert_eq!((first.count, &first.known_as), (1, &None));
        correlator.sent(&first, "web.1".into());
        let second = correlate(&mut correlator, event("a", 1)).unwrap();
        assert_eq!((second.count, second.known_as), (2, Some("web.1".into())));
    }

    #[test]
    fn similar_events_are_combined_from_the_tenth_message_on() {
        let mut correlator = Correlator::default();
        for n in 0..9 {
            assert_eq!(
                correlate(&mut correlator, event(&format!("pod {n}"), n))
                    .unwrap()
                    .event
                    .message,
                format!("pod {n}")
            );
        }
        let tenth = correlate(&mut correlator, event("pod 9", 9)).unwrap();
        assert_eq!(
            (tenth.event.message.as_str(), tenth.count),
            ("(combined from similar events): pod 9", 1)
        );
        correlator.sent(&tenth, "web.9".into());
        let next = correlate(&mut correlator, event("pod 10", 10)).unwrap();
        assert_eq!((next.count, next.known_as), (2, Some("web.9".into())));
        let later = correlate(&mut correlator, event("pod 11", 1000)).unwrap();
        assert_eq!(later.event.message, "pod 11");
    }

    #[test]
    fn what_was_sent_is_forgotten_after_so_many_others() {
        let mut correlator = Correlator::default();
        let first = correlate(&mut correlator, event("a", 0)).unwrap();
        correlator.sent(&first, "web.1".into());
        for object in 1..REMEMBERED {
            let mut other = event("a", 0);
            other.about.uid = format!("other {object}");
            correlate(&mut correlator, other).unwrap();
        }
        assert_eq!(
            correlate(&mut correlator, event("a", 1)).unwrap().known_as,
            Some("web.1".into())
        );
        let mut last = event("a", 1);
        last.about.uid = "the last".into();
        correlate(&mut correlator, last).unwrap();
        assert_eq!(
            correlate(&mut correlator, event("a", 2)).unwrap().known_as,
            None
        );
        assert_eq!(correlator.sent.values.len(), REMEMBERED);
    }

    #[test]
    fn a_flood_about_one_object_is_cut_and_another_object_is_not() {
        let mut correlator = Correlator::default();
        let sent = (0..100)
            .filter(|_| correlate(&mut correlator, event("a", 0)).is_some())
            .count();
        assert_eq!(sent, 25);
        assert!(correlate(&mut correlator, event("a", 300)).is_some());
        assert!(correlate(&mut correlator, event("a", 301)).is_none());
        let mut other = event("a", 0);
        other.about.uid = "2".into();
        assert!(correlate(&mut correlator, other).is_some());
    }
}
