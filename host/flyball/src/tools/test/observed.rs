//! The host's log during a test: failed reconciles, denied requests, and the plugin's own lines.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::tools::dev::console;

/// The lines that the host logs, as a value of `RUST_LOG`.
pub(super) const FILTER: &str = "warn,flyball=info,flyball::reconcile=debug,flyball::guest=trace,\
                                 flyball_api::incidents=debug,kube_client::client::tls::rustls_tls=error";

/// The lines of the host that explain its end.
const HOST_LINES: usize = 3;

/// The plugin's log so far, and the failures that it shows.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The plugin's lines.
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
        let Ok(fields) = serde_json::from_str::<Map<String, Value>>(line) else {
            // The host's error before its log begins.
            self.host.push(line.to_owned());
            return;
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_problem = ["WARN", "ERROR"].contains(&text("level"));
        match text("target") {
            "flyball::guest" => self.log.push(console::shown(&fields)),
            "flyball::reconcile" if is_problem || text("msg").starts_with("failed") => {
                let failure = self.failing.entry(text("key").to_owned()).or_default();
                failure.times += 1;
                failure.last = format!("{}\n{}", text("msg"), text("backtrace"));
            }
            "flyball::reconcile" => drop(self.failing.remove(text("key"))),
            "flyball_api::incidents" => {
                *self.denials.entry(text("msg").to_owned()).or_default() += 1;
            }
            _ if is_problem => self.host.push(console::shown(&fields)),
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
