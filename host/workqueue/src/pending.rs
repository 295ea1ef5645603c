//! What is remembered of a key that waits: how urgent it is, and why it was added.

use tokio::time::Instant;

/// The lane in which a key waits.
///
/// Keys of the low lane are served when no normal key is ready. Once the oldest has waited longer than
/// [`Config::ageing`](crate::Config::ageing), every [`LOW_SHARE`](crate::LOW_SHARE)th get serves the low lane, so
/// that it never starves and never starves the normal lane either, however long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// For what needs no haste: initial lists, resyncs, reloads of a plugin.
    Low,
    /// For changes. A normal add of a key that waits in the low lane moves it to the normal one.
    Normal,
}

/// Why a key is queued: the first and the latest reason given since a worker last got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Causes<R> {
    /// The reason of the add that queued the key.
    pub first: R,
    /// The reason of the newest add folded into it, if there was one.
    pub latest: Option<R>,
    /// How many adds were folded into the first.
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

    /// Folds a later record into this one.
    pub(crate) fn absorb(&mut self, later: Self) {
        self.latest = Some(later.latest.unwrap_or(later.first));
        self.coalesced = self
            .coalesced
            .saturating_add(later.coalesced)
            .saturating_add(1);
    }
}

/// A key's need to be processed, from the add to the get.
pub(crate) struct Pending<R> {
    pub(crate) causes: Causes<R>,
    pub(crate) priority: Priority,
    /// When the first of the coalesced adds came.
    pub(crate) added: Instant,
    /// The key's place in its lane; `None` while a worker still has the key.
    pub(crate) ticket: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_latest_reason_are_kept_and_the_others_counted() {
        let mut causes = Causes::new("a");
        causes.absorb(Causes::new("b"));
        assert_eq!(
            causes,
            Causes {
                first: "a",
                latest: Some("b"),
                coalesced: 1
            }
        );

        let mut delayed = Causes::new("c");
        delayed.absorb(Causes::new("d"));
        causes.absorb(delayed);
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
