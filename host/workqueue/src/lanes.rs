//! The ready keys, in two first-in-first-out lanes, and the rule that selects the lane of the next get.

use std::collections::VecDeque;

use tokio::time::{Duration, Instant};

use crate::Priority;

/// One get in this many serves the low lane while its oldest key has waited longer than the ageing limit.
///
/// Aged keys get a share rather than precedence: after a long initial list the whole low lane has aged, and new changes
/// must still come first most of the time. One key per ageing limit would be too few: a low lane of 150,000 keys must
/// drain.
pub const LOW_SHARE: u32 = 4;

/// A key's place in a lane. The slot is stale, and is skipped, if the key has another ticket by now.
struct Slot<K> {
    key: K,
    ticket: u64,
    /// When the key joined the lane. Never decreases along a lane.
    joined: Instant,
}

/// The two lanes. Only the owner of the keys knows which slots are stale: it passes `is_current(key, ticket)`.
pub(crate) struct Lanes<K> {
    /// Holds no stale slot: only a get removes a key from it.
    normal: VecDeque<Slot<K>>,
    /// Holds a stale slot for each promoted key, until a get skips it or a sweep removes it.
    low: VecDeque<Slot<K>>,
    /// The number of stale slots in `low`.
    stale: usize,
    next_ticket: u64,
    /// The number of normal keys served since the last low one.
    normal_in_a_row: u32,
    /// How long a key waits in the low lane before it counts as aged.
    ageing: Duration,
}

impl<K> Lanes<K> {
    /// The bytes of a key's place.
    pub(crate) const SLOT: usize = size_of::<Slot<K>>();

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

    /// Appends a key to a lane and returns its ticket.
    pub(crate) fn push(&mut self, key: K, priority: Priority, joined: Instant) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let slot = Slot {
            key,
            ticket,
            joined,
        };
        match priority {
            Priority::Normal => self.normal.push_back(slot),
            Priority::Low => self.low.push_back(slot),
        }
        ticket
    }

    /// Records that a key of the low lane got a ticket for the normal one. Removes the stale slots once most are stale.
    pub(crate) fn record_promotion(&mut self, is_current: impl Fn(&K, u64) -> bool) {
        self.stale += 1;
        if self.stale > 64 && self.stale > self.low.len() / 2 {
            self.low.retain(|slot| is_current(&slot.key, slot.ticket));
            self.stale = 0;
            shrink_if_sparse(&mut self.low);
        }
    }

    /// Removes the key that is served next.
    pub(crate) fn pop(&mut self, now: Instant, is_current: impl Fn(&K, u64) -> bool) -> Option<K> {
        // Ends at the first current slot. The age of a stale slot says nothing about the slots behind it.
        while let Some(first) = self.low.front() {
            let aged = now.saturating_duration_since(first.joined) >= self.ageing;
            let is_lows_turn = aged && self.normal_in_a_row >= LOW_SHARE - 1;
            if !is_lows_turn && !self.normal.is_empty() {
                break;
            }
            let Some(slot) = self.low.pop_front() else {
                break;
            };
            shrink_if_sparse(&mut self.low);
            if is_current(&slot.key, slot.ticket) {
                self.normal_in_a_row = 0;
                return Some(slot.key);
            }
            self.stale -= 1;
        }
        let slot = self.normal.pop_front()?;
        shrink_if_sparse(&mut self.normal);
        self.normal_in_a_row = self.normal_in_a_row.saturating_add(1);
        Some(slot.key)
    }
}

/// Frees memory after a burst, as the function of the same name does for the crate's maps.
fn shrink_if_sparse<T>(lane: &mut VecDeque<T>) {
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
    fn a_low_key_that_has_not_aged_waits_for_every_normal_one() {
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
        let first_current = 900;
        for key in 0..1000 {
            lanes.push(key, Priority::Low, now);
        }
        let is_current = |_: &u32, ticket: u64| ticket >= first_current;
        // 900 keys are promoted. Only the last promotion is recorded by a call, so that one sweep removes all stale
        // slots.
        lanes.stale = 899;
        lanes.record_promotion(is_current);
        assert_eq!((lanes.low.len(), lanes.low_len()), (100, 100));
        assert_eq!(lanes.pop(now, is_current), Some(900));
    }

    #[test]
    fn a_stale_slot_does_not_pass_its_age_on_to_the_next_key() {
        let start = Instant::now();
        let now = start + AGEING;
        let mut lanes = Lanes::new(AGEING);
        lanes.push(1, Priority::Low, start);
        lanes.push(2, Priority::Low, now);
        lanes.normal_in_a_row = 10;
        lanes.push(3, Priority::Normal, now);
        lanes.record_promotion(|_, _| true);
        assert_eq!(lanes.pop(now, |key, _| *key != 1), Some(3));
        assert_eq!(lanes.low_len(), 1);
    }

    #[test]
    fn stale_slots_are_swept_if_there_are_many_and_they_are_most_of_the_lane() {
        let cases = [
            (64, 70, false),
            (65, 70, true),
            (100, 200, false),
            (101, 200, true),
        ];
        for (stale, slots, is_swept) in cases {
            let now = Instant::now();
            let mut lanes = Lanes::new(AGEING);
            for key in 0..slots {
                lanes.push(key, Priority::Low, now);
            }
            lanes.stale = stale - 1;
            lanes.record_promotion(|_, ticket| ticket >= stale as u64);
            assert_eq!(lanes.low_len(), slots as usize - stale);
            assert_eq!(lanes.stale == 0, is_swept, "{stale} of {slots}");
        }
    }

    #[test]
    fn a_large_lane_shrinks_once_it_is_mostly_empty_and_keeps_room_to_double() {
        let shrunk = |slots: usize, capacity: usize| {
            let mut lane = VecDeque::with_capacity(capacity);
            lane.extend(0..slots);
            shrink_if_sparse(&mut lane);
            lane.capacity()
        };
        assert_eq!(shrunk(1, 1024), 1024, "a small lane");
        assert_eq!(shrunk(1000, 8000), 8000, "an eighth is in use");
        assert_eq!(shrunk(999, 8000), 1998);
        assert_eq!(shrunk(1, 8000), 512);
    }
}
