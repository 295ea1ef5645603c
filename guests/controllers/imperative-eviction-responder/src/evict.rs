//! Evicts a pod by its subresource `eviction`, which respects PodDisruptionBudgets, and again with a growing delay while the API
//! server refuses. The number of attempts is in the message of the report; the time of the last one is in the memo, so that
//! without it the next attempt comes at once.
//!
//! Upstream: pkg/controller/imperativeevictionresponder/imperative_eviction_responder_controller.go: evict.
//! Upstream: pkg/controller/imperativeevictionresponder/utils.go: exponentialBackoff, getRecordedAttempts.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::views::Pod;

/// The delay after the first refusal. Each further one doubles it.
const BASE_DELAY: Duration = Duration::from_secs(5);
const MAX_DELAY: Duration = Duration::from_secs(10 * 60);
/// The delay after the server has not found the pod: the cache soon shows that.
const NOT_FOUND_DELAY: Duration = Duration::from_secs(1);

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub message: String,
    /// When the last refused attempt was; `None` if none was refused, or the pod is being deleted now.
    pub refused: Option<Time>,
    pub again_after: Option<Duration>,
}

/// Evicts a pod unless its last refusal is too recent. `last_message` is that of the present report.
pub fn evict(host: &Host, pod: &Pod, last_message: &str) -> Attempt {
    let (refused, attempts) = (refused(host, &pod.meta.uid), recorded(last_message));
    let again_after =
        refused.map(|at| (at + delay(attempts.saturating_sub(1))).from_now(host.now()));
    if let Some(again_after) = again_after.filter(|rest| !rest.is_zero()) {
        return Attempt {
            message: last_message.into(),
            refused,
            again_after: Some(again_after),
        };
    }
    let name = &pod.meta.name;
    match host.write(eviction(&pod.meta)) {
        Ok(_) => Attempt {
            message: format!(
                "\"{name}\" pod has been marked for deletion via the /eviction subresource and will be terminated gracefully"
            ),
            refused: None,
            again_after: None,
        },
        Err(error) if error.is_not_found() => Attempt {
            message: last_message.into(),
            refused,
            again_after: Some(NOT_FOUND_DELAY),
        },
        Err(error) => Attempt {
            message: format!(
                "\"{name}\" pod deletion via the /eviction subresource failed (attempts={}): {}",
                attempts.saturating_add(1),
                error.message
            ),
            refused: Some(host.now()),
            again_after: Some(delay(attempts).max(suggested(&error))),
        },
    }
}

/// The creation of the subresource of exactly this pod.
fn eviction(pod: &Meta) -> Write {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    });
    Write::create_on(Pod::KIND, &pod.namespace, &pod.name, "eviction", &eviction)
}

/// The delay that the API server asks for.
fn suggested(error: &ApiError) -> Duration {
    Duration::from_millis(error.retry_after_ms.unwrap_or(0).into())
}

/// The delay after a refusal that this number of refusals preceded.
fn delay(refusals: u64) -> Duration {
    // More doublings exceed the maximum.
    let doublings = refusals.min(16) as u32;
    (BASE_DELAY * (1 << doublings)).min(MAX_DELAY)
}

/// Returns the number of attempts that a message records.
fn recorded(message: &str) -> u64 {
    let after = message.split("(attempts=").skip(1);
    let numbers = after.filter_map(|rest| {
        let (number, _) = rest.split_once(')')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(number)
    });
    let first = { numbers }.next();
    first.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// When the last attempt to evict a pod was refused.
fn refused(host: &Host, pod_uid: &str) -> Option<Time> {
    let (seconds, nanoseconds) = host.memo().get(&key(pod_uid))?;
    Some(Time {
        seconds,
        nanoseconds,
    })
}

/// Remembers when the last attempt to evict a pod was refused.
///
/// # Errors
/// The memo is full.
pub fn remember(host: &Host, pod_uid: &str, refused: Option<Time>) -> Result<(), Error> {
    let (memo, key) = (host.memo(), key(pod_uid));
    match refused {
        Some(at) => memo.put(&key, &(at.seconds, at.nanoseconds), pod_uid, Duration::ZERO)?,
        None => memo.remove(&key),
    }
    Ok(())
}

fn key(pod_uid: &str) -> String {
    format!("refused/{pod_uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_ten_minutes() {
        let seconds = [0, 1, 6, 7, 8, 40, u64::MAX].map(|refusals| delay(refusals).as_secs());
        assert_eq!(seconds, [5, 10, 320, 600, 600, 600, 600]);
    }

    #[test]
    fn the_number_of_attempts_is_read_from_the_message() {
        for (message, expected) in [
            ("", 0),
            ("\"web\" pod deletion failed (attempts=12): no", 12),
            ("(attempts=) (attempts=x) (attempts=3) (attempts=4)", 3),
            ("(attempts=99999999999999999999) (attempts=4)", 0),
            ("attempts=3", 0),
        ] {
            assert_eq!(recorded(message), expected, "{message}");
        }
    }
}
