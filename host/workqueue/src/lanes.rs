//! The keys that are ready, in two first-in-first-out lanes, and the rule for which lane is served next.

use std::collections::VecDeque;

use tokio::time::{Duration, Instant};

use crate::Priority;

/// One get in this many serves the low lane while its oldest key has waited longer than the ageing limit.
///
/// A share, and not strict precedence: after a long initial list the whole low lane is old, and new changes must still
/// come first most of the time. Nor one key per limit: a low lane of 150,000 keys must get through.
pub const LOW_SHARE: u32 = 4;

/// A key's place in a lane. It is stale, and skipped, if the key's ticket is no longer this one.
struct Slot<K> {
    key: K,
    ticket: u64,
    /// When the key joined the lane. Never decreases along a lane.
    since: Instant,
}

/// The two lanes. Which slots are stale is known only to the owner of the keys, who tells by `live(key, ticket)`.
pub(crate) struct Lanes<K> {
    /// Never holds a stale slot: nothing moves a key out of it but a get.
    normal: VecDeque<Slot<K>>,
    /// Holds a stale slot for each key that was promoted, until it is met or swept.
    low: VecDeque<Slot<K>>,
    stale: usize,
    next_ticket: u64,
    /// How many normal keys were served since the last low one.
    normal_in_a_row: u32,
    ageing: Duration,
}

impl<K> Lanes<K> {
    pub(crate) fn new(ageing: Duration) -> Self {
        Self {
            normal: VecDeque::new(),
            low: VecDeque::new(),
            stale: 0,
            next_ticket: 0,
            normal_in_a_row: 0,
            ageing,
        }
    }

    pub(crate) fn normal_len(&self) -> usize {
        self.normal.len()
    }

    pub(crate) fn low_len(&self) -> usize {
        self.low.len() - self.stale
    }

    pub(crate) fn len(&self) -> usize {
        self.normal_len() + self.low_len()
    }

    /// Puts a key at the end of a lane and returns its ticket.
    pub(crate) fn push(&mut self, key: K, priority: Priority, since: Instant) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let slot = Slot { key, ticket, since };
        match priority {
            Priority::Normal => self.normal.push_back(slot),
            Priority::Low => self.low.push_back(slot),
        }
        ticket
    }

    /// Notes that a key in the low lane got a ticket for the normal one, and sweeps when stale slots prevail.
    pub(crate) fn promoted(&mut self, live: impl Fn(&K, u64) -> bool) {
        self.stale += 1;
        if self.stale > 64 && self.stale > self.low.len() / 2 {
            self.low.retain(|slot| live(&slot.key, slot.ticket));
            self.stale = 0;
            trim(&mut self.low);
        }
    }

    /// Takes the key that is served next.
    pub(crate) fn pop(&mut self, now: Instant, live: impl Fn(&K, u64) -> bool) -> Option<K> {
        // The loop is left at the first live slot; a stale one says nothing about the age of what is behind it.
        while let Some(head) = self.low.front() {
            let aged = now.saturating_duration_since(head.since) >= self.ageing;
            let lows_turn = aged && self.normal_in_a_row >= LOW_SHARE - 1;
            if !lows_turn && !self.normal.is_empty() {
                break;
            }
            let Some(slot) = self.low.pop_front() else {
                break;
            };
            trim(&mut self.low);
            if live(&slot.key, slot.ticket) {
                self.normal_in_a_row = 0;
                return Some(slot.key);
            }
            self.stale -= 1;
        }
        let slot = self.normal.pop_front()?;
        trim(&mut self.normal);
        self.normal_in_a_row = self.normal_in_a_row.saturating_add(1);
        Some(slot.key)
    }
}

/// Gives memory back after a burst; as for the crate's maps.
fn trim<T>(lane: &mut VecDeque<T>) {
    if lane.capacity() > 1024 && lane.len() < lane.capacity() / 8 {
        lane.shrink_to(usize::max(lane.len() * 2, 512));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGEING: Duration = Duration::from_secs(1);

    fn always(_: &u32, _: u64) -> bool {
        true
    }

    #[test]
    fn a_young_low_key_waits_for_every_normal_one() {
        let now = Instant::now();
        let mut lanes = Lanes::new(AGEING);
        lanes.push(100, Priority::Low, now);
        for key in 0..10 {
            lanes.push(key, Priority::Normal, now);
        }
        let served: Vec<u32> = std::iter::from_fn(|| lanes.pop(now, always)).collect();
        assert_eq!(served, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100]);
    }

    #[test]
    fn an_aged_low_lane_gets_every_fourth_turn() {
        let start = Instant::now();
        let mut lanes = Lanes::new(AGEING);
        for key in 0..8 {
            lanes.push(key, Priority::Normal, start);
            lanes.push(100 + key, Priority::Low, start);
        }
        let served: Vec<u32> = std::iter::from_fn(|| lanes.pop(start + AGEING, always)).collect();
        assert_eq!(
            served,
            [
                0, 1, 2, 100, 3, 4, 5, 101, 6, 7, 102, 103, 104, 105, 106, 107
            ]
        );
    }

    #[test]
    fn stale_slots_are_skipped_and_swept() {
        let now = Instant::now();
        let mut lanes = Lanes::new(AGEING);
        let first_live = 900;
        for key in 0..1000 {
            lanes.push(key, Priority::Low, now);
        }
        let live = |_: &u32, ticket: u64| ticket >= first_live;
        // 900 keys are promoted; the sweeper is told only once they all are, so the first to sweep sweeps them all.
        lanes.stale = 899;
        lanes.promoted(live);
        assert_eq!((lanes.low.len(), lanes.low_len()), (100, 100));
        assert_eq!(lanes.pop(now, live), Some(900));
    }

    #[test]
    fn a_stale_head_does_not_lend_its_age_to_the_next_key() {
        let start = Instant::now();
        let now = start + AGEING;
        let mut lanes = Lanes::new(AGEING);
        lanes.push(1, Priority::Low, start);
        lanes.push(2, Priority::Low, now);
        lanes.normal_in_a_row = 10;
        lanes.push(3, Priority::Normal, now);
        lanes.promoted(|_, _| true);
        assert_eq!(lanes.pop(now, |key, _| *key != 1), Some(3));
        assert_eq!(lanes.low_len(), 1);
    }
}
