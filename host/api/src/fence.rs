//! Decides whether this process may write now. A leader may write from the moment at which it requested its lease until
//! the renew deadline. The clock includes the time for which the process or the machine was suspended: a process that
//! resumes after another has taken over starts no write. `lease.rs` moves the fence, and `client.rs` checks it.

use std::time::Duration;

use flyball_types::ApiError;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine was started, including the time for which it was suspended.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// The period in which a lease allows writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Writes may start before this time.
    pub start_until: Duration,
    /// Writes must end before this time, because another process may take the lease then.
    pub end_until: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FenceState {
    /// The process takes part in no election.
    Open,
    Closed,
    Leading(Term),
}

/// The fence before all writes of this process.
#[derive(Debug)]
pub struct Fence(Mutex<FenceState>);

impl Fence {
    /// A fence that is always open, for a process without an election.
    pub fn open() -> Self {
        Self(Mutex::new(FenceState::Open))
    }

    /// A fence that is closed until the lease is held.
    pub fn closed() -> Self {
        Self(Mutex::new(FenceState::Closed))
    }

    /// Lets writes through for the term of a lease that was acquired or renewed.
    pub fn lead(&self, term: Term) {
        *self.0.lock() = FenceState::Leading(term);
    }

    /// Stops all writes, because the lease is lost.
    pub fn close(&self) {
        *self.0.lock() = FenceState::Closed;
    }

    /// Returns how long a write that starts now may take; none if there is no limit. Fails with `Fenced` if it may not
    /// start.
    pub fn admit(&self, now: Duration) -> Result<Option<Duration>, ApiError> {
        match *self.0.lock() {
            FenceState::Open => Ok(None),
            FenceState::Leading(term) if now < term.start_until => {
                Ok(Some(term.end_until.saturating_sub(now)))
            }
            FenceState::Leading(_) | FenceState::Closed => Err(ApiError::fenced()),
        }
    }

    /// Returns how long ago the lease ended, if this process has not noticed yet.
    pub fn overdue(&self, now: Duration) -> Option<Duration> {
        match *self.0.lock() {
            FenceState::Leading(term) => now.checked_sub(term.end_until),
            FenceState::Open | FenceState::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_write_starts_before_the_renew_deadline_and_ends_before_the_lease_does() {
        let fence = Fence::closed();
        assert_eq!(fence.admit(s(1)).unwrap_err().reason, "Fenced");
        fence.lead(Term {
            start_until: s(20),
            end_until: s(25),
        });
        assert_eq!(fence.admit(s(19)), Ok(Some(s(6))));
        assert!(fence.admit(s(20)).is_err());
        fence.lead(Term {
            start_until: s(30),
            end_until: s(35),
        });
        assert_eq!(fence.admit(s(20)), Ok(Some(s(15))));
        fence.close();
        assert!(fence.admit(s(21)).is_err());
    }

    #[test]
    fn without_an_election_nothing_is_held_back() {
        assert_eq!(Fence::open().admit(s(1)), Ok(None));
        assert_eq!(Fence::open().overdue(s(1)), None);
    }

    #[test]
    fn a_lease_that_ran_out_is_overdue() {
        let fence = Fence::closed();
        fence.lead(Term {
            start_until: s(20),
            end_until: s(25),
        });
        assert_eq!(
            (fence.overdue(s(24)), fence.overdue(s(28))),
            (None, Some(s(3)))
        );
    }

    #[test]
    fn the_clock_goes_forward() {
        let before = now();
        assert!(before > Duration::ZERO && now() >= before);
    }
}
