//! A rate limit, like the API server's priority and fairness.

use std::time::Duration;

use flyball_types::ApiError;

use crate::time::Time;

/// Admits a number of calls in each time window.
pub(super) struct RateLimit {
    calls: usize,
    window: Duration,
    start: Time,
    admitted: usize,
}

impl RateLimit {
    pub(super) fn new(calls: usize, window: Duration, now: Time) -> Self {
        Self {
            calls,
            window,
            start: now,
            admitted: 0,
        }
    }

    /// Counts a call.
    ///
    /// # Errors
    /// 429 with the time until the next window, if the limit is reached.
    pub(super) fn admit(&mut self, now: Time) -> Result<(), ApiError> {
        if now >= self.start + self.window {
            (self.start, self.admitted) = (now, 0);
        }
        if self.admitted == self.calls {
            let left = (self.start + self.window).from_now(now);
            let message = "too many requests, please try again later";
            let error = ApiError::of_server(429, "TooManyRequests", message);
            return Err(error.with_retry_after(Some(crate::time::millis(left))));
        }
        self.admitted += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Cluster;
    use crate::write::Write;

    #[test]
    fn calls_beyond_the_limit_fail_with_a_retry_time() {
        let cluster = Cluster::new();
        cluster.limit_rate(2, Duration::from_secs(10));
        let host = cluster.host();
        let create = || {
            let pod = json!({"metadata": {"generateName": "web-"}});
            host.write(Write::create("v1/Pod", "d", &pod)).map(drop)
        };
        assert!(create().is_ok() && create().is_ok());
        cluster.advance(Duration::from_secs(4));
        let refused = create().expect_err("the window is full");
        assert_eq!(
            (refused.status, refused.reason.as_str()),
            (429, "TooManyRequests")
        );
        assert_eq!(refused.retry_after_ms, Some(6000));
        cluster.advance(Duration::from_secs(6));
        assert!(create().is_ok());
        assert_eq!(cluster.objects("v1/Pod").len(), 3);
    }
}
