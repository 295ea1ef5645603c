//! Decides which events of `events.k8s.io` are sent, as client-go's recorder for that API does. The first event of a
//! series is created, the second one adds the series to it, and later ones are only counted: the count is sent when
//! the series has ended, and now and then before that.
//!
//! Unlike in client-go, the number of events about one object is limited, as it is for the core API: a plugin can't
//! flood the API server.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use flyball_workqueue::TokenBucket;
use tokio::time::Instant;

use super::correlator::SPAM;
use super::object::{self, Event};
use super::recent::Recent;

/// A series ends when no event has followed for this time. Ended ones are looked for as often.
const ENDED: Duration = Duration::from_secs(6 * 60);
/// How often the count of a series is sent while it goes on, so that the API server does not delete the event.
const REFRESHED: Duration = Duration::from_secs(30 * 60);

/// An event to send.
#[derive(Clone, Debug)]
pub(super) struct Reported {
    /// The first event of the series.
    pub event: Event,
    pub name: String,
    /// None for the first event.
    pub series: Option<Count>,
}

/// How often an event has occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub count: u32,
    pub last: SystemTime,
}

/// A count to send for an event that was created before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recount {
    pub namespace: String,
    pub name: String,
    pub count: Count,
}

/// The series of one source.
#[derive(Default)]
pub(super) struct Series {
    hasher: RandomState,
    running: Recent<Running>,
    spam: Recent<TokenBucket>,
    /// When ended series are looked for next; none while there is no series.
    due: Option<Instant>,
}

struct Running {
    namespace: String,
    name: String,
    count: Count,
    /// The time of the last event.
    seen: Instant,
    /// The last count that was sent, and when.
    sent: (u32, Instant),
}

impl Series {
    /// When [`Series::recount`] is to be called next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the event if it is to be sent.
    pub(super) fn add(&mut self, event: Event, now: Instant) -> Option<Reported> {
        let about = &event.about;
        let object = self
            .hasher
            .hash_one((&about.kind, &about.namespace, &about.name, &about.uid));
        let of_type = self.hasher.hash_one((object, &event.event_type));
        let spam = self.spam.entry(of_type, || TokenBucket::new(SPAM));
        if !spam.try_take(now) {
            return None;
        }
        let options = &event.options;
        let related = options.related.as_ref();
        let key = self.hasher.hash_one((
            object,
            &event.event_type,
            &event.reason,
            &options.action,
            &options.reporting_controller,
            &options.resource_version,
            related.map(|it| (&it.kind, &it.namespace, &it.name, &it.uid)),
        ));
        let count = Count {
            count: 0,
            last: event.at,
        };
        let running = self.running.entry(key, || Running {
            namespace: object::namespace(&event.about).to_owned(),
            name: object::name(&event.about.name, event.at),
            count,
            seen: now,
            sent: (0, now),
        });
        self.due.get_or_insert(now + ENDED);
        running.count = Count {
            count: running.count.count.saturating_add(1),
            last: event.at,
        };
        running.seen = now;
        if running.count.count > 2 {
            return None;
        }
        running.sent = (running.count.count, now);
        Some(Reported {
            name: running.name.clone(),
            series: (running.count.count > 1).then_some(running.count),
            event,
        })
    }

    /// Forgets the series that have ended. Returns the counts to send.
    pub(super) fn recount(&mut self, now: Instant) -> Vec<Recount> {
        let mut counts = Vec::new();
        self.running.retain(|running| {
            let has_ended = now.duration_since(running.seen) >= ENDED;
            let is_stale = now.duration_since(running.sent.1) >= REFRESHED;
            let is_series = running.count.count > 1;
            if is_series && (is_stale || (has_ended && running.sent.0 < running.count.count)) {
                running.sent = (running.count.count, now);
                counts.push(Recount {
                    namespace: running.namespace.clone(),
                    name: running.name.clone(),
                    count: running.count,
                });
            }
            !has_ended
        });
        self.due = (!self.running.is_empty()).then(|| now + ENDED);
        counts
    }
}

#[cfg(test)]
mod tests {
    use flyball_plugin::ObjectReference;
    use flyball_types::EventOptions;

    use super::*;

    fn event(reason: &str, second: u64) -> Event {
        Event {
            about: ObjectReference {
                kind: "v1/Pod".into(),
                namespace: "demo".into(),
                name: "web".into(),
                uid: "1".into(),
            },
            event_type: "Normal".into(),
            reason: reason.into(),
            message: "m".into(),
            options: EventOptions {
                action: "Creating".into(),
                reporting_controller: "example.com/web".into(),
                ..EventOptions::default()
            },
            at: at(second),
        }
    }

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    #[test]
    fn the_second_event_starts_a_series_and_later_ones_are_counted() {
        let (mut series, start) = (Series::default(), Instant::now());
        let mut sent = |reason: &str, second| {
            let now = start + Duration::from_secs(second);
            series
                .add(event(reason, second), now)
                .map(|sent| sent.series)
        };
        assert_eq!(sent("A", 0), Some(None));
        let second = Count {
            count: 2,
            last: at(1),
        };
        assert_eq!(sent("A", 1), Some(Some(second)));
        assert_eq!(sent("A", 2), None);
        assert_eq!(sent("B", 3), Some(None), "another reason is another series");
    }

    #[test]
    fn an_event_about_another_version_of_the_object_is_another_series() {
        let (mut series, now) = (Series::default(), Instant::now());
        series.add(event("A", 0), now).unwrap();
        let mut newer = event("A", 1);
        newer.options.resource_version = "8".into();
        assert_eq!(series.add(newer, now).unwrap().series, None);
    }

    #[test]
    fn the_count_of_a_series_is_sent_when_it_has_ended() {
        let (mut series, start) = (Series::default(), Instant::now());
        assert_eq!(series.due(), None);
        for second in 0..3 {
            series.add(event("A", second), start);
        }
        assert_eq!(series.due(), Some(start + ENDED));
        assert!(series.recount(start + ENDED / 2).is_empty());
        let counts = series.recount(start + ENDED);
        assert_eq!(counts.len(), 1);
        let (count, last) = (3, at(2));
        assert_eq!(counts[0].count, Count { count, last });
        assert_eq!((&*counts[0].namespace, &*counts[0].name), ("demo", "web.0"));
        assert_eq!(series.due(), None);
        let again = series.add(event("A", 400), start + ENDED).unwrap();
        assert_eq!(again.series, None, "it begins again");
    }

    #[test]
    fn the_count_of_a_long_series_is_sent_now_and_then() {
        let (mut series, start) = (Series::default(), Instant::now());
        let mut sent = 0;
        // 25 at once, and later one in five minutes, are within the limit.
        for minute in (0..=60).step_by(5) {
            let now = start + Duration::from_secs(minute * 60);
            series.add(event("A", minute * 60), now);
            sent += series.recount(now).len();
        }
        // The series was sent after 5 minutes, and 30 minutes later.
        assert_eq!(sent, 1);
    }

    #[test]
    fn a_flood_about_one_object_is_cut() {
        let (mut series, now) = (Series::default(), Instant::now());
        let sent = (0..100)
            .filter(|number| series.add(event(&format!("A{number}"), 0), now).is_some())
            .count();
        assert_eq!(sent, 25);
    }
}
