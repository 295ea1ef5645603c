//! Deletes old requests: answered ones after an hour, and others after a day.
//!
//! Upstream: pkg/controller/resourcepoolstatusrequest/controller.go: cleanupExpiredRequests, shouldDeleteRequest,
//! isOlderThan.

use std::time::Duration;

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::views::PoolsRequest;

/// Configuration keys.
pub(crate) const PERIOD_KEY: &str = "cleanup-period";
const ANSWERED_KEY: &str = "completed-request-ttl";
const PENDING_KEY: &str = "pending-request-ttl";
/// How often requests are checked.
pub(crate) const PERIOD: Duration = Duration::from_secs(10 * 60);
/// How long answered requests are kept.
const ANSWERED: Duration = Duration::from_secs(60 * 60);
/// How long requests without an answer are kept.
const PENDING: Duration = Duration::from_secs(24 * 60 * 60);

/// Declares the configuration.
pub(crate) fn declare(described: Description) -> Description {
    described
        .config(
            PERIOD_KEY,
            Some("10m"),
            "How often old requests are deleted.",
        )
        .config(
            ANSWERED_KEY,
            Some("1h"),
            "How long answered requests are kept.",
        )
        .config(
            PENDING_KEY,
            Some("24h"),
            "How long requests without an answer are kept.",
        )
}

/// The part of a status that says when the request was answered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    #[serde(deserialize_with = "null_is_default")]
    conditions: Vec<Condition>,
}

/// How long the requests are kept.
#[derive(Clone, Copy, Debug)]
struct Ages {
    answered: Duration,
    pending: Duration,
}

/// Deletes the requests that are too old.
pub(crate) fn delete_expired(host: &Host) -> Result<(), Error> {
    let ages = Ages {
        answered: host.config_duration(ANSWERED_KEY, ANSWERED)?,
        pending: host.config_duration(PENDING_KEY, PENDING)?,
    };
    let now = host.now();
    let mut expired = Vec::new();
    host.list::<PoolsRequest>().each(|request| {
        if is_expired(&request, ages, now)? {
            expired.push(request.meta);
        }
        Ok(())
    })?;
    host.delete_all(PoolsRequest::KIND, &expired)
}

/// Whether a request is too old. An answered one ages from its answer on.
fn is_expired(request: &PoolsRequest, ages: Ages, now: Time) -> Result<bool, Error> {
    let created = request.meta.creation_timestamp;
    let Some(Answer { conditions }) = request.status.parse()? else {
        return Ok(is_older(created, ages.pending, now));
    };
    let is_end =
        |condition: &&Condition| matches!(condition.condition_type.as_str(), "Complete" | "Failed");
    let since = match conditions.iter().find(is_end) {
        Some(end) => end.last_transition_time,
        None => created,
    };
    Ok(is_older(since, ages.answered, now))
}

fn is_older(time: Option<Time>, age: Duration, now: Time) -> bool {
    time.is_some_and(|time| time + age < now)
}
