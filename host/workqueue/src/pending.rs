//! The record of a key that is to be processed: its priority, and why it was added.

use tokio::time::Instant;

/// The lane that a key waits in.
///
/// Keys of the low lane are served when no normal key is ready. Once the oldest has waited longer than
/// [`Config::ageing`](crate::Config::ageing), every [`LOW_SHARE`](crate::LOW_SHARE)th get serves the low lane, so that
/// neither lane starves the other, however long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// For initial lists, resyncs and reloads of a plugin.
    Low,
    /// For changes. A normal add of a key in the low lane moves it to the normal lane.
    Normal,
}

/// Why a key is queued: the first and the latest reason since a worker last took the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Causes<R> {
    /// The reason of the add that queued the key.
    pub first: R,
    /// The reason of the latest add that was coalesced with the first one, if any.
    pub latest: Option<R>,
    /// The number of adds that were coalesced with the first one.
    pub coalesced: u32,
}

impl<R> Causes<R> {
    pub(crate) fn new(first: R) -> Self {
        Self {
            first,
            latest: None,
            coalesced: 0,
        }
    }

    /// Merges the causes of a later add into these.
    pub(crate) fn merge(&mut self, later: Self) {
        self.latest = Some(later.latest.unwrap_or(later.first));
        self.coalesced = self
            .coalesced
            .saturating_add(later.coalesced)
            .saturating_add(1);
    }
}

/// A key that is to be processed, from the add to the get.
pub(crate) struct Pending<R> {
    pub(crate) causes: Causes<R>,
    pub(crate) priority: Priority,
    /// When the first of the coalesced adds took place.
    pub(crate) added: Instant,
    /// The key's place in its lane. `None` while a worker has the key or its minimum interval lasts.
    pub(crate) ticket: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_latest_reason_are_kept_and_the_others_counted() {
        let mut causes = Causes::new("a");
        causes.merge(Causes::new("b"));
        assert_eq!(
            causes,
            Causes {
                first: "a",
                latest: Some("b"),
                coalesced: 1
            }
        );

        let mut delayed = Causes::new("c");
        delayed.merge(Causes::new("d"));
        causes.merge(delayed);
        assert_eq!(
            causes,
            Causes {
                first: "a",
                latest: Some("d"),
                coalesced: 3
            }
        );
    }

    #[test]
    fn normal_is_more_urgent_than_low() {
        assert_eq!(Priority::Low.max(Priority::Normal), Priority::Normal);
    }
}
