//! Schedules and their next times.
//!
//! Kube-controller-manager computes that with `github.com/robfig/cron` v3.0.1. Its results at changes
//! of the clocks follow from how it searches, so [`Fields::next`] searches in the same order.
//! `testdata` has a table of its results.

use flyball_sdk::Time;

use crate::zone::{Moment, Zone};

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    Fields(Fields),
    /// `@every`, in seconds; at least 1.
    Every(i64),
}

/// The five fields of a schedule, as sets: bit `n` stands for the value `n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    pub minute: u64,
    pub hour: u64,
    pub day: u64,
    pub month: u64,
    /// 0 is Sunday.
    pub weekday: u64,
    /// The zone whose clocks count.
    pub zone: Zone,
}

/// A bit that says that the field was a star.
pub const STAR: u64 = 1 << 63;
/// How many years ahead a date is searched for.
const YEARS: i64 = 5;
const HOUR: i64 = 3600;
const MINUTE: i64 = 60;

impl Schedule {
    /// The first time after `after`. `None` if there is none in the next five years, as for February 30.
    pub fn next(&self, after: Time) -> Option<Time> {
        match self {
            Self::Fields(fields) => fields.next(after.seconds).map(Time::of_seconds),
            Self::Every(seconds) => Some(Time::of_seconds(after.seconds.saturating_add(*seconds))),
        }
    }
}

impl Fields {
    /// Moves forward until month, day, hour and minute fit, one after the other. When a field wraps around, the search
    /// begins again with the month.
    fn next(&self, after: i64) -> Option<i64> {
        if [self.minute, self.hour, self.month].contains(&0) {
            // A field such as `,` has no values. The search would take millions of steps.
            return None;
        }
        let zone = &self.zone;
        let mut at = zone.at(after.saturating_add(1));
        let last_year = at.year + YEARS;
        // Whether the smaller fields have been set to their first values.
        let mut is_reset = false;
        'wrapped: while at.year <= last_year {
            while !has(self.month, at.month) {
                if !is_reset {
                    is_reset = true;
                    at = zone.date([at.year, at.month, 1], [0, 0, 0]);
                }
                at = zone.date([at.year, at.month + 1, at.day], time_of(&at));
                if at.month == 1 {
                    continue 'wrapped;
                }
            }
            while !self.has_day(&at) {
                if !is_reset {
                    is_reset = true;
                    at = zone.date([at.year, at.month, at.day], [0, 0, 0]);
                }
                at = self.next_day(&at);
                if at.day == 1 {
                    continue 'wrapped;
                }
            }
            while !has(self.hour, at.hour) {
                if !is_reset {
                    is_reset = true;
                    at = zone.date([at.year, at.month, at.day], [at.hour, 0, 0]);
                }
                at = zone.at(at.seconds + HOUR);
                if at.hour == 0 {
                    continue 'wrapped;
                }
            }
            while !has(self.minute, at.minute) {
                if !is_reset {
                    is_reset = true;
                    at = zone.at(at.seconds - at.seconds.rem_euclid(MINUTE));
                }
                at = self.forward(&at, self.until_minute(&at), MINUTE);
                if at.minute == 0 {
                    continue 'wrapped;
                }
            }
            while at.second != 0 {
                is_reset = true;
                at = self.forward(&at, MINUTE - at.second, 1);
                if at.second == 0 {
                    continue 'wrapped;
                }
            }
            return Some(at.seconds);
        }
        None
    }

    /// Whether the day fits. If neither the day of the month nor the weekday is a star, one of them is enough.
    fn has_day(&self, at: &Moment) -> bool {
        let (day, weekday) = (has(self.day, at.day), has(self.weekday, at.weekday));
        if (self.day | self.weekday) & STAR != 0 {
            day && weekday
        } else {
            day || weekday
        }
    }

    /// The beginning of the next day. Where clocks skip midnight, the day after is found from 23:00 or 1:00. Where they
    /// skip the whole day, the search goes on hour by hour.
    fn next_day(&self, at: &Moment) -> Moment {
        let next = self.zone.date([at.year, at.month, at.day + 1], time_of(at));
        let seconds = match next.hour {
            0 => next.seconds,
            1..=12 => next.seconds - next.hour * HOUR,
            _ => next.seconds + (24 - next.hour) * HOUR,
        };
        self.zone.at(seconds.max(at.seconds + HOUR))
    }

    /// Seconds until the next minute of the set, or until the next hour.
    fn until_minute(&self, at: &Moment) -> i64 {
        let later = (self.minute & !STAR) >> (at.minute + 1);
        let minutes = (i64::from(later.trailing_zeros()) + 1).min(60 - at.minute);
        minutes * MINUTE
    }

    /// Moves forward by `seconds`, or only by `step` if the clocks change in between.
    fn forward(&self, at: &Moment, seconds: i64, step: i64) -> Moment {
        let later = self.zone.at(at.seconds + seconds);
        if later.offset == at.offset {
            later
        } else {
            self.zone.at(at.seconds + step)
        }
    }
}

fn time_of(at: &Moment) -> [i64; 3] {
    [at.hour, at.minute, at.second]
}

fn has(set: u64, value: i64) -> bool {
    set & (1 << value) != 0
}
