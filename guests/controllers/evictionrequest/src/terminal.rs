//! When a target ended. Once a pod is gone, only the memo knows: without it, the time when that was found counts, so that the
//! last report of a responder is awaited for somewhat longer.
//!
//! Upstream: pkg/controller/evictionrequest/terminal_time_cache.go.
//! Upstream: pkg/controller/evictionrequest/evictionrequest_controller.go: computeEvictionStatus.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::responders::End;
use crate::target::Target;

/// Returns when the target of an Eviction ended or is to end, and remembers it; `None` if it goes on. If it has ended, that is
/// not later than `now`.
///
/// # Errors
/// The memo is full.
pub fn time(
    host: &Host,
    eviction_uid: &str,
    target: &Target,
    end: Option<End>,
    now: Time,
) -> Result<Option<Time>, Error> {
    let (memo, key) = (host.memo(), key(eviction_uid));
    let remembered = memo
        .get::<(i64, u32)>(&key)
        .map(|(seconds, nanoseconds)| Time {
            seconds,
            nanoseconds,
        });
    let mut time = target.terminal_time().or(remembered);
    if matches!(end, Some(End::Gone | End::Terminal)) {
        time = Some(time.filter(|time| *time <= now).unwrap_or(now));
    }
    if let Some(new) = time.filter(|_| time != remembered) {
        let value = (new.seconds, new.nanoseconds);
        memo.put(&key, &value, eviction_uid, Duration::ZERO)?;
    }
    Ok(time)
}

/// Forgets the time of a target whose eviction has ended.
pub fn forget(host: &Host, eviction_uid: &str) {
    host.memo().remove(&key(eviction_uid));
}

fn key(eviction_uid: &str) -> String {
    format!("terminal/{eviction_uid}")
}
