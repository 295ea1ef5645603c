//! How long an operation that failed is not tried again. Only the memo knows it: after a restart, the first try is due
//! at once.
//!
//! Upstream: pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go: SafeToRetry, Update.

use std::time::Duration;

use flyball_sdk::MicroTime;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::metrics::Operation;

/// The first delay. Each further one is twice as long.
const FIRST: Duration = Duration::from_millis(500);
/// The longest delay. It is a little more than two minutes in kube-controller-manager, too.
const LONGEST: Duration = Duration::from_secs(122);

/// The backoff of one operation on one object.
pub(crate) struct Backoff<'a> {
    key: String,
    uid: &'a str,
}

/// The last failure.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Failure {
    /// In milliseconds.
    delay: u64,
    at: MicroTime,
}

impl<'a> Backoff<'a> {
    /// The backoff of an operation on the object with this UID.
    pub(crate) fn new(operation: Operation, uid: &'a str) -> Self {
        let key = format!("backoff/{}/{uid}", operation.label());
        Self { key, uid }
    }

    /// Whether the operation failed just now.
    pub(crate) fn is_waiting(&self, host: &Host) -> bool {
        let failure = host.memo().get::<Failure>(&self.key);
        failure.is_some_and(|failure| {
            host.now() <= failure.at.0 + Duration::from_millis(failure.delay)
        })
    }

    /// Notes a failure.
    pub(crate) fn fail(&self, host: &Host) {
        let before = host.memo().get::<Failure>(&self.key);
        let delay = before.map_or(FIRST, |before| {
            LONGEST.min(Duration::from_millis(2 * before.delay))
        });
        let failure = Failure {
            delay: delay.as_millis() as u64,
            at: MicroTime(host.now()),
        };
        // Without room in the memo, the operation is repeated sooner.
        let _ = host
            .memo()
            .put(&self.key, &failure, self.uid, Duration::ZERO);
    }

    /// Forgets the failures.
    pub(crate) fn succeed(&self, host: &Host) {
        host.memo().remove(&self.key);
    }
}
