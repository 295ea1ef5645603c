//! The host's log during a test: failed reconciles, denied requests, and the plugin's own lines.

use std::collections::BTreeMap;

use crate::tools::host_log::{GUEST, Line, RECONCILE, WARNINGS};

/// The target of the lines about denied requests.
pub(super) const DENIALS: &str = "flyball_api::incidents";

/// The lines of the host that explain its end.
const HOST_LINES: usize = 3;

/// The plugin's log so far, and the failures that it shows.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The plugin's lines, and the API server's warnings about its writes.
    pub(super) log: Vec<String>,
    /// The keys whose last reconcile failed.
    pub(super) failing: BTreeMap<String, Failure>,
    /// Denied requests, each with the number of times.
    pub(super) denials: BTreeMap<String, usize>,
    /// Warnings and errors of the host.
    host: Vec<String>,
}

/// The failed reconciles of a key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) times: usize,
    /// The last error, with the backtrace of a trap.
    pub(super) last: String,
}

impl Observed {
    /// Adds a line of the log.
    pub(super) fn add(&mut self, line: &str) {
        let Some(line) = Line::parse(line) else {
            self.host.push(line.to_owned());
            return;
        };
        let (key, message) = (line.text("key"), line.text("msg"));
        match line.text("target") {
            GUEST | WARNINGS => self.log.push(line.shown()),
            RECONCILE if line.is_problem() || message.starts_with("failed") => {
                let failure = self.failing.entry(key.to_owned()).or_default();
                failure.times += 1;
                failure.last = format!("{message}\n{}", line.text("backtrace"));
            }
            RECONCILE => drop(self.failing.remove(key)),
            DENIALS => *self.denials.entry(message.to_owned()).or_default() += 1,
            _ if line.is_problem() => self.host.push(line.shown()),
            _ => {}
        }
    }

    /// The last warnings and errors of the host, on one line.
    pub(super) fn host_lines(&self) -> String {
        match self.host.as_slice() {
            [] => "it logged no problem".to_owned(),
            lines => lines[lines.len().saturating_sub(HOST_LINES)..].join("; "),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_fails_until_a_reconcile_of_it_succeeds() {
        let mut observed = Observed::default();
        let mut add = |level: &str, target: &str, msg: &str| {
            let line =
                json!({"ts": 1.0, "level": level, "target": target, "msg": msg, "key": "a/b"});
            observed.add(&line.to_string());
        };
        add("WARN", "flyball::reconcile", "failed: no");
        add("ERROR", "flyball::reconcile", "a trap");
        add("DEBUG", "flyball_api::incidents", "it may not");
        add("DEBUG", "flyball_api::incidents", "it may not");
        add("WARN", "flyball_cache", "lost");
        assert_eq!(observed.failing["a/b"].times, 2);
        assert!(observed.failing["a/b"].last.starts_with("a trap"));
        assert_eq!(observed.denials["it may not"], 2);
        assert!(observed.host_lines().contains("lost"));
        observed.add(&json!({"level": "DEBUG", "target": "flyball::reconcile", "msg": "reconciled", "key": "a/b"}).to_string());
        assert!(observed.failing.is_empty());
    }
}
