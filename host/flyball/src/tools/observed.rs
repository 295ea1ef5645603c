//! The host's log during a test or a plan: failed reconciles, denied requests, and the plugin's own lines.

use std::collections::BTreeMap;

use super::host_log::{GUEST, Line, RECONCILE, WARNINGS};

/// The target of the lines about denied requests.
pub(super) const DENIALS: &str = "flyball_api::incidents";

/// How many failed reconciles are kept.
const FAILED: usize = 20;
/// The lines of the host that explain its end.
const HOST_LINES: usize = 3;

/// The plugin's log so far, and the failures that it shows.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The plugin's lines, and the API server's warnings about its writes.
    pub(super) log: Vec<String>,
    /// The plugins and keys whose last reconcile failed.
    pub(super) failing: BTreeMap<(String, String), Failure>,
    /// The first failed reconciles, as `KEY: MESSAGE`, also those whose key succeeded later.
    pub(super) failed: Vec<String>,
    /// Denied requests, each with the number of times.
    pub(super) denials: BTreeMap<String, usize>,
    /// The last warnings and errors of the host.
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
            self.add_problem(line.to_owned());
            return;
        };
        let key = || (line.text("plugin").to_owned(), line.text("key").to_owned());
        let message = line.text("msg");
        match line.text("target") {
            GUEST | WARNINGS => self.log.push(line.shown()),
            RECONCILE if line.is_problem() || message.starts_with("failed") => {
                let failure = self.failing.entry(key()).or_default();
                failure.times += 1;
                failure.last = format!("{message}\n{}", line.text("backtrace"));
                if self.failed.len() < FAILED {
                    let (_, key) = key();
                    self.failed.push(format!("{key}: {message}"));
                }
            }
            RECONCILE => drop(self.failing.remove(&key())),
            DENIALS => *self.denials.entry(message.to_owned()).or_default() += 1,
            _ if line.is_problem() => self.add_problem(line.shown()),
            _ => {}
        }
    }

    /// Keeps a line of the host. Only the last ones are ever shown.
    fn add_problem(&mut self, line: String) {
        if self.host.len() == HOST_LINES {
            self.host.remove(0);
        }
        self.host.push(line);
    }

    /// The last warnings and errors of the host, on one line.
    pub(super) fn host_lines(&self) -> String {
        match self.host.as_slice() {
            [] => "it logged no problem".to_owned(),
            lines => lines.join("; "),
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
            let line = json!({"ts": 1.0, "level": level, "target": target, "msg": msg, "plugin": "p", "key": "a/b"});
            observed.add(&line.to_string());
        };
        add("WARN", "flyball::reconcile", "failed: no");
        add("ERROR", "flyball::reconcile", "a trap");
        add("DEBUG", "flyball_api::incidents", "it may not");
        add("DEBUG", "flyball_api::incidents", "it may not");
        add("WARN", "flyball_cache", "lost");
        let failure = &observed.failing[&("p".to_owned(), "a/b".to_owned())];
        assert_eq!(failure.times, 2);
        assert!(failure.last.starts_with("a trap"));
        assert_eq!(observed.denials["it may not"], 2);
        assert!(observed.host_lines().contains("lost"));
        let reconciled = json!({
            "level": "DEBUG", "target": "flyball::reconcile", "msg": "reconciled", "plugin": "p", "key": "a/b",
        });
        observed.add(&reconciled.to_string());
        assert!(observed.failing.is_empty());
        assert_eq!(observed.failed, ["a/b: failed: no", "a/b: a trap"]);
    }
}
