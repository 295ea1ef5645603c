//! Decides which events are sent, and how, with client-go's three steps in its order: similar events are combined, a
//! repeated event raises the count of the previous one, and the number of events about one object is limited.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use flyball_workqueue::{BucketConfig, TokenBucket};
use tokio::time::Instant;

use super::object::{self, Correlated, Event};
use super::recent::{Digest, Recent};

/// The number of events, equal except for their message, from which on they are combined into one. Each must follow the
/// previous one within this time.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// The limit of events of one type about one object: 25 at once, and one more every 300 seconds.
pub(super) const SPAM: BucketConfig = BucketConfig {
    qps: 1.0 / 300.0,
    burst: 25,
};

/// The time for which an event that is emitted once is not sent again. The API server keeps events for the same time by
/// default.
const ONCE_WITHIN: Duration = Duration::from_secs(3600);

/// Remembers the events of one source.
#[derive(Default)]
pub(crate) struct Correlator {
    hasher: RandomState,
    /// The times at which events that are emitted once were sent.
    once: Recent<Option<Instant>>,
    groups: Recent<Group>,
    observed: Recent<Observed>,
    spam: Recent<TokenBucket>,
}

struct Hashes {
    object: Digest,
    /// Of all but the message.
    similar: Digest,
    message: Digest,
}

/// Similar events.
#[derive(Default)]
struct Group {
    /// The messages of the events that were sent separately; fewer than [`SIMILAR`].
    messages: Vec<Digest>,
    last: Option<Instant>,
}

/// The state that is kept of an event, whether or not it was sent.
struct Observed {
    name: String,
    first: SystemTime,
    count: u32,
}

impl Correlator {
    /// Whether the event is emitted once and was sent within [`ONCE_WITHIN`]. If not, it counts as sent now.
    pub(crate) fn is_repeated(&mut self, event: &Event, now: Instant) -> bool {
        if !event.options.once {
            return false;
        }
        let Hashes {
            similar, message, ..
        } = self.hashes(event);
        let sent = self
            .once
            .entry(self.hasher.hash_one((similar, message)), || None);
        if sent.is_some_and(|sent| now.duration_since(sent) < ONCE_WITHIN) {
            return true;
        }
        *sent = Some(now);
        false
    }

    fn hashes(&self, event: &Event) -> Hashes {
        let about = &event.about;
        let object = self
            .hasher
            .hash_one((&about.kind, &about.namespace, &about.name, &about.uid));
        let similar = self
            .hasher
            .hash_one((object, &event.event_type, &event.reason));
        let message = self.hasher.hash_one(&event.message);
        Hashes {
            object,
            similar,
            message,
        }
    }

    /// Returns the event as it is to be sent; none if there were too many about its object, or if it is emitted once
    /// and was sent. The times are the current one.
    pub(crate) fn correlate(
        &mut self,
        mut event: Event,
        now: Instant,
        time: SystemTime,
    ) -> Option<Correlated> {
        if self.is_repeated(&event, now) {
            return None;
        }
        let Hashes {
            object,
            similar,
            message,
        } = self.hashes(&event);
        let is_combined = self.groups.entry(similar, Group::default).add(message, now);
        if is_combined {
            event.message = format!("(combined from similar events): {}", event.message);
            event.at = time;
        }

        let of_event = (similar, (!is_combined).then_some(message));
        let new = || Observed {
            name: object::name(&event.about.name, event.at),
            first: event.at,
            count: 0,
        };
        let observed = self.observed.entry(self.hasher.hash_one(of_event), new);
        observed.count = observed.count.saturating_add(1);

        let of_type = self.hasher.hash_one((object, &event.event_type));
        let spam = self.spam.entry(of_type, || TokenBucket::new(SPAM));
        if !spam.try_take(now) {
            return None;
        }
        Some(Correlated {
            name: observed.name.clone(),
            first: observed.first,
            count: observed.count,
            is_combined,
            event,
        })
    }
}

impl Group {
    /// Adds a message. Returns whether its event is combined with similar ones.
    fn add(&mut self, message: Digest, now: Instant) -> bool {
        let is_over = |last| now.duration_since(last) > SIMILAR_WITHIN;
        if self.last.replace(now).is_some_and(is_over) {
            self.messages.clear();
        }
        if self.messages.contains(&message) {
            return false;
        }
        // client-go adds the message and then drops any one of ten: the others are still sent separately.
        let is_combined = self.messages.len() + 1 >= SIMILAR;
        if !is_combined {
            self.messages.push(message);
        }
        is_combined
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use flyball_plugin::ObjectReference;
    use flyball_types::EventOptions;

    use super::super::recent::REMEMBERED;
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
            at: at(second),
        }
    }

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    /// Correlates an event at the time when it was emitted.
    fn correlate(correlator: &mut Correlator, event: Event) -> Option<Correlated> {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        let (time, since) = (event.at, event.at.duration_since(SystemTime::UNIX_EPOCH));
        correlator.correlate(event, *START + since.unwrap(), time)
    }

    #[test]
    fn a_repeated_event_raises_the_count_of_the_one_before() {
        let mut correlator = Correlator::default();
        let first = correlate(&mut correlator, event("a", 0)).unwrap();
        assert_eq!((first.count, first.name.as_str()), (1, "web.0"));
        let second = correlate(&mut correlator, event("a", 1)).unwrap();
        assert_eq!((second.count, second.name.as_str()), (2, "web.0"));
        assert_eq!((second.first, second.event.at), (at(0), at(1)));
    }

    #[test]
    fn an_event_that_is_emitted_once_is_sent_again_after_an_hour() {
        let mut correlator = Correlator::default();
        let mut sent = |message: &str, second| {
            let mut event = event(message, second);
            event.options.once = true;
            correlate(&mut correlator, event).map(|sent| sent.count)
        };
        assert_eq!(sent("a", 0), Some(1));
        assert_eq!(sent("a", 1), None);
        assert_eq!(sent("b", 1), Some(1));
        assert_eq!(sent("a", 3599), None);
        assert_eq!(sent("a", 3600), Some(2));
        assert_eq!(sent("a", 3601), None);
    }

    #[test]
    fn similar_events_are_combined_from_the_tenth_message_on() {
        let mut correlator = Correlator::default();
        let mut of = |message: &str, second| {
            let sent = correlate(&mut correlator, event(message, second)).unwrap();
            (sent.event.message, sent.count, sent.name)
        };
        for n in 0..9 {
            let (message, count, _) = of(&format!("pod {n}"), n);
            assert_eq!((message, count), (format!("pod {n}"), 1));
        }
        let (message, count, name) = of("pod 9", 9);
        assert_eq!(
            (message.as_str(), count),
            ("(combined from similar events): pod 9", 1)
        );
        let next = of("pod 10", 10);
        let combined = "(combined from similar events): pod 10".to_owned();
        assert_eq!(next, (combined, 2, name));
        // A message among the first ones is still sent separately.
        assert_eq!(of("pod 3", 11), ("pod 3".into(), 2, "web.b2d05e00".into()));
        assert_eq!(of("pod 11", 611).1, 3, "600 s later they are still similar");
        let (message, count, _) = of("pod 12", 1212);
        assert_eq!((message.as_str(), count), ("pod 12", 1));
    }

    #[test]
    fn a_combined_event_occurs_when_it_is_combined() {
        let mut correlator = Correlator::default();
        for n in 0..9 {
            correlate(&mut correlator, event(&format!("pod {n}"), 0)).unwrap();
        }
        let late = correlator
            .correlate(event("pod 9", 0), Instant::now(), at(16))
            .unwrap();
        assert!(late.is_combined);
        assert_eq!((late.first, late.event.at), (at(16), at(16)));
        assert_eq!(late.name, "web.3b9aca000");
    }

    #[test]
    fn what_occurred_is_forgotten_after_so_many_others() {
        let mut correlator = Correlator::default();
        correlate(&mut correlator, event("a", 0)).unwrap();
        for object in 0..REMEMBERED {
            let mut other = event("a", 0);
            other.about.uid = format!("other {object}");
            correlate(&mut correlator, other).unwrap();
        }
        assert_eq!(correlate(&mut correlator, event("a", 1)).unwrap().count, 1);
    }

    #[test]
    fn a_flood_of_one_type_about_one_object_is_cut_and_others_are_not() {
        let mut correlator = Correlator::default();
        let sent = (0..100)
            .filter(|_| correlate(&mut correlator, event("a", 0)).is_some())
            .count();
        assert_eq!(sent, 25);
        // Events that were dropped count.
        let later = correlate(&mut correlator, event("a", 300)).unwrap();
        assert_eq!((later.count, later.name.as_str()), (101, "web.0"));
        assert!(correlate(&mut correlator, event("a", 301)).is_none());
        assert!(correlate(&mut correlator, event("b", 301)).is_none());
        let mut warning = event("a", 301);
        warning.event_type = "Warning".into();
        assert!(correlate(&mut correlator, warning).is_some());
        let mut other = event("a", 0);
        other.about.uid = "2".into();
        assert!(correlate(&mut correlator, other).is_some());
    }
}
