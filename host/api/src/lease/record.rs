//! The content of a Lease, and the decision who may take it: plain values in, plain values out.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

/// Number of hex digits at the end of a Flyball's identity. Identities of client-go end with a UUID, with dashes.
const DIGITS: usize = 32;

/// A lease as this process saw it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observed {
    pub(super) lease: Value,
    /// The time at which this content was first seen, by this process's clock. The times in the lease come from other
    /// clocks.
    pub(super) at: Duration,
}

/// The decision about a lease.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Take,
    /// Another process holds it.
    Wait {
        holder: String,
    },
    /// The API server has chosen no holder, or one that has not renewed it for its duration.
    Unassigned,
    /// The API server has chosen another process to hold it next. It must not be renewed.
    EndOfTerm {
        successor: String,
    },
}

impl Observed {
    /// Returns the observation of a lease that was read now. Its time stays the same until its spec changes.
    pub(super) fn next(before: Option<Self>, lease: Value, now: Duration) -> Self {
        match before.filter(|before| before.lease["spec"] == lease["spec"]) {
            Some(before) => Self {
                lease,
                at: before.at,
            },
            None => Self { lease, at: now },
        }
    }

    fn holder(&self) -> &str {
        self.lease["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or_default()
    }

    /// Whether the holder is a Flyball, and not a stock kube-controller-manager.
    pub(super) fn is_held_by_flyball(&self) -> bool {
        let number = self.holder().rsplit_once('_').map(|(_, number)| number);
        number.is_some_and(|number| {
            number.len() == DIGITS && number.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    }

    pub(super) fn is_held_by(&self, identity: &str) -> bool {
        self.holder() == identity
    }

    /// Whether the API server has chosen another process to hold it next.
    pub(super) fn is_at_end_of_term(&self) -> bool {
        !self.successor().is_empty()
    }

    fn successor(&self) -> &str {
        self.lease["spec"]["preferredHolder"]
            .as_str()
            .unwrap_or_default()
    }

    /// Whether its holder, if it has one, has renewed it within its duration.
    fn is_valid(&self, now: Duration) -> bool {
        let seconds = self.lease["spec"]["leaseDurationSeconds"].as_u64();
        now < self.at + Duration::from_secs(seconds.unwrap_or_default())
    }
}

/// Decides whether a process may take a lease. It may if it holds the lease, if nobody holds it, or if the holder has
/// not renewed it for its duration.
pub(super) fn decide(observed: &Observed, identity: &str, now: Duration) -> Decision {
    let holder = observed.holder();
    if !holder.is_empty() && holder != identity && observed.is_valid(now) {
        return Decision::Wait {
            holder: holder.to_owned(),
        };
    }
    Decision::Take
}

/// Decides the same if the API server chooses the holder. Only the process that it chose may take the lease, before it
/// expires.
pub(super) fn decide_assigned(observed: &Observed, identity: &str, now: Duration) -> Decision {
    let (holder, successor) = (observed.holder().to_owned(), observed.successor());
    if holder.is_empty() || !observed.is_valid(now) {
        Decision::Unassigned
    } else if holder != identity {
        Decision::Wait { holder }
    } else if observed.is_at_end_of_term() {
        Decision::EndOfTerm {
            successor: successor.to_owned(),
        }
    } else {
        Decision::Take
    }
}

/// Writes a process into a lease.
pub(super) fn take(lease: &mut Value, identity: &str, duration: Duration) {
    let now = json!(micro_time(SystemTime::now()));
    let spec = &mut lease["spec"];
    if spec["holderIdentity"] != identity {
        spec["leaseTransitions"] =
            (spec["leaseTransitions"].as_u64().unwrap_or_default() + 1).into();
        spec["acquireTime"] = now.clone();
        spec["holderIdentity"] = identity.into();
    }
    spec["renewTime"] = now;
    spec["leaseDurationSeconds"] = duration.as_secs().into();
}

/// Writes the holder out of a lease, as client-go does.
pub(super) fn give_up(lease: &mut Value) {
    let now = json!(micro_time(SystemTime::now()));
    let spec = &mut lease["spec"];
    spec["holderIdentity"] = "".into();
    spec["leaseDurationSeconds"] = 1.into();
    spec["renewTime"] = now.clone();
    spec["acquireTime"] = now;
}

/// A time as a MicroTime of the API.
pub(super) fn micro_time(time: SystemTime) -> String {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or_default();
    let time = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease(holder: &str, renewed: &str) -> Value {
        json!({
            "metadata": {"resourceVersion": renewed},
            "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15, "leaseTransitions": 3},
        })
    }

    #[test]
    fn a_lease_is_anothers_until_it_was_seen_unchanged_for_its_duration() {
        let first = Observed::next(None, lease("a", "1"), s(100));
        assert_eq!(
            decide(&first, "b", s(114)),
            Decision::Wait { holder: "a".into() }
        );
        let renewed = Observed::next(Some(first), lease("a", "2"), s(110));
        assert_eq!(
            decide(&renewed, "b", s(124)),
            Decision::Wait { holder: "a".into() }
        );
        let same = Observed::next(Some(renewed), lease("a", "2"), s(120));
        assert_eq!(same.at, s(110));
        assert_eq!(decide(&same, "b", s(125)), Decision::Take);
    }

    #[test]
    fn nobodys_lease_and_ones_own_are_taken_at_once() {
        for holder in ["", "b"] {
            let observed = Observed::next(None, lease(holder, "1"), s(100));
            assert_eq!(decide(&observed, "b", s(100)), Decision::Take);
        }
        let empty = Observed::next(None, json!({"spec": {}}), s(100));
        assert_eq!(decide(&empty, "b", s(100)), Decision::Take);
    }

    #[test]
    fn an_assigned_lease_is_taken_only_by_its_holder_until_it_expires_or_another_is_preferred() {
        let observed = |lease| Observed::next(None, lease, s(100));
        let decided = |lease, now| decide_assigned(&observed(lease), "b", now);
        assert_eq!(decided(lease("b", "1"), s(114)), Decision::Take);
        assert_eq!(decided(lease("b", "1"), s(115)), Decision::Unassigned);
        let of_another = Decision::Wait { holder: "a".into() };
        assert_eq!(decided(lease("a", "1"), s(114)), of_another);
        assert_eq!(decided(lease("a", "1"), s(115)), Decision::Unassigned);
        assert_eq!(decided(lease("", "1"), s(100)), Decision::Unassigned);
        let mut ending = lease("b", "1");
        ending["spec"]["preferredHolder"] = "c".into();
        let ended = Decision::EndOfTerm {
            successor: "c".into(),
        };
        assert_eq!(decided(ending, s(100)), ended);
    }

    #[test]
    fn a_change_of_hands_is_counted_and_a_renewal_is_not() {
        let mut taken = lease("a", "1");
        take(&mut taken, "b", s(15));
        assert_eq!(
            (
                &taken["spec"]["leaseTransitions"],
                &taken["spec"]["holderIdentity"]
            ),
            (&json!(4), &json!("b"))
        );
        let acquired = taken["spec"]["acquireTime"].clone();
        assert_eq!(acquired, taken["spec"]["renewTime"]);
        take(&mut taken, "b", s(15));
        assert_eq!(
            (
                &taken["spec"]["leaseTransitions"],
                &taken["spec"]["acquireTime"]
            ),
            (&json!(4), &acquired)
        );
    }

    #[test]
    fn a_lease_that_was_given_up_is_free_after_a_second() {
        let mut given_up = lease("a", "1");
        give_up(&mut given_up);
        assert_eq!(
            decide(
                &Observed {
                    lease: given_up,
                    at: s(100)
                },
                "b",
                s(100)
            ),
            Decision::Take
        );
    }

    #[test]
    fn times_have_microseconds() {
        assert_eq!(
            micro_time(SystemTime::UNIX_EPOCH + s(1_700_000_000)),
            "2023-11-14T22:13:20.000000Z"
        );
    }
}
