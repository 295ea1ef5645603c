//! The progress of an operation on an object: how long its attempt has taken, and how many have failed.

use std::time::Duration;

use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::script::{Behaviour, Operation, Script};

/// What a reconcile ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The operation has succeeded, or there is none.
    Done,
    /// The attempt takes this much longer.
    Wait(Duration),
    /// The attempt has failed with this error.
    Fail(String),
}

/// The state of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// When the attempt started, in milliseconds since 1970.
    pub started: Option<i64>,
    /// The number of attempts that have failed.
    pub failures: u32,
}

impl Progress {
    /// Returns the next step and the state after it.
    pub fn next(self, behaviour: &Behaviour, now: i64) -> (Step, Self) {
        let started = self.started.unwrap_or(now);
        let taken = u64::try_from(now - started).map_or(Duration::ZERO, Duration::from_millis);
        let current = Self {
            started: Some(started),
            ..self
        };
        match behaviour.after.checked_sub(taken) {
            Some(left) if !left.is_zero() => (Step::Wait(left), current),
            _ if self.failures < behaviour.failures => {
                let failed = Self {
                    started: None,
                    failures: self.failures + 1,
                };
                (Step::Fail(behaviour.error.clone()), failed)
            }
            _ => (Step::Done, Self::default()),
        }
    }
}

/// Advances an operation on the object with this UID, as the script says. [`Step::Done`] means that it succeeds now.
///
/// # Errors
/// The script is invalid, or the memo is full.
pub fn advance(
    host: &Host,
    uid: &str,
    operation: Operation,
    script: Script,
) -> Result<Step, Error> {
    let behaviour = script
        .behaviour(operation)
        .map_err(|problem| Error::terminal(problem.to_string()))?;
    // Most operations have no script and need no state.
    if behaviour.after.is_zero() && behaviour.failures == 0 {
        return Ok(Step::Done);
    }
    let key = format!("{}/{uid}", operation.name());
    let now = host.now();
    let now = now.seconds * 1000 + i64::from(now.nanoseconds / 1_000_000);
    let progress: Progress = host.memo().get(&key).unwrap_or_default();
    let (step, after) = progress.next(&behaviour, now);
    match step {
        Step::Done => host.memo().remove(&key),
        _ => host.memo().put(&key, &after, uid, Duration::ZERO)?,
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_takes_its_time_and_fails_until_one_succeeds() {
        let behaviour = Behaviour {
            after: Duration::from_millis(300),
            failures: 1,
            error: "no".into(),
        };
        let mut progress = Progress::default();
        for (now, expected) in [
            (1_000, Step::Wait(Duration::from_millis(300))),
            (1_100, Step::Wait(Duration::from_millis(200))),
            (1_300, Step::Fail("no".into())),
            (1_400, Step::Wait(Duration::from_millis(300))),
            (1_900, Step::Done),
        ] {
            let step;
            (step, progress) = progress.next(&behaviour, now);
            assert_eq!(step, expected, "{now}");
        }
        assert_eq!(progress, Progress::default());
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_end_an_attempt() {
        let behaviour = Behaviour {
            after: Duration::from_millis(300),
            ..Behaviour::default()
        };
        let progress = Progress {
            started: Some(1_000),
            failures: 0,
        };
        let (step, _) = progress.next(&behaviour, 0);
        assert_eq!(step, Step::Wait(Duration::from_millis(300)));
    }
}
