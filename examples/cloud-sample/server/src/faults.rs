//! Faults that a test asks for: the cloud is slow, fails, throttles, lies, or loses a response.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A fault of the requests that it matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Fault {
    /// The method, such as `PUT`; empty for all.
    pub method: String,
    /// A text in the path, the query or the body, or the Service of the load balancer in the path; empty for all.
    pub contains: String,
    /// Requests that it applies to; 0 until the faults are removed.
    pub times: u32,
    /// Whether the operation is done all the same, and only its response is replaced.
    pub after: bool,
    /// Time before the response, in milliseconds.
    pub delay: u64,
    /// The status of the response; 0 for that of the operation.
    pub status: u16,
    /// The code of the error in the response.
    pub code: String,
    pub message: String,
    /// Seconds after which the cloud wants to be asked again.
    pub retry_after: Option<u64>,
    /// The body of the response, instead of an error.
    pub body: Option<Value>,
    /// Whether the connection is closed without a response.
    pub drops: bool,
}

/// The faults that were asked for, and the requests of the last second.
#[derive(Debug, Default)]
pub struct Faults {
    faults: Vec<Fault>,
    /// When the allowance below was computed.
    refilled: Option<Instant>,
    /// Requests that may still be made.
    allowance: f64,
}

impl Faults {
    pub fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub fn clear(&mut self) {
        self.faults.clear();
    }

    pub fn all(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns the first fault that matches a request, and uses it up. `about` is what the request is about, beside its
    /// path.
    pub fn take(&mut self, method: &str, path: &str, about: &str) -> Option<Fault> {
        let matches = |fault: &Fault| {
            let contains = &fault.contains;
            (fault.method.is_empty() || fault.method == method)
                && (path.contains(contains) || about.contains(contains))
        };
        let at = self.faults.iter().position(matches)?;
        let fault = self.faults[at].clone();
        match fault.times {
            0 => {}
            1 => drop(self.faults.remove(at)),
            left => self.faults[at].times = left - 1,
        }
        Some(fault)
    }

    /// Whether a request exceeds this rate. A second's worth of requests may be made at once.
    pub fn exceeds(&mut self, per_second: f64, now: Instant) -> bool {
        let most = per_second.max(1.0);
        let gained = match self.refilled {
            Some(last) => now.duration_since(last).as_secs_f64() * per_second,
            None => most,
        };
        self.refilled = Some(now);
        self.allowance = (self.allowance + gained).min(most);
        if self.allowance < 1.0 {
            return true;
        }
        self.allowance -= 1.0;
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_fault_applies_to_the_requests_that_it_matches_as_often_as_it_says() {
        let mut faults = Faults::default();
        faults.add(Fault {
            method: "PUT".into(),
            contains: "team/web".into(),
            times: 2,
            status: 503,
            ..Fault::default()
        });
        let put =
            |faults: &mut Faults, body| faults.take("PUT", "/v1/load-balancers/a", body).is_some();
        assert_eq!(faults.take("GET", "/v1/load-balancers/a", "team/web"), None);
        assert!(!put(&mut faults, "team/other"));
        assert!(put(&mut faults, "team/web") && put(&mut faults, "team/web"));
        assert!(!put(&mut faults, "team/web"));
        faults.add(Fault::default());
        for _ in 0..5 {
            assert!(faults.take("GET", "/", "").is_some());
        }
        faults.clear();
        assert!(faults.all().is_empty());
    }

    #[test]
    fn requests_beyond_the_rate_are_throttled() {
        let (mut faults, now) = (Faults::default(), Instant::now());
        let exceeding = |faults: &mut Faults, at: Duration| {
            (0..5).filter(|_| faults.exceeds(2.0, now + at)).count()
        };
        assert_eq!(exceeding(&mut faults, Duration::ZERO), 3);
        assert_eq!(exceeding(&mut faults, Duration::from_millis(500)), 4);
        assert_eq!(exceeding(&mut faults, Duration::from_secs(60)), 3);
    }
}
