//! The log of the host that `flyball dev`, `flyball test` and `flyball plan` run. The host writes it as JSON.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The lines that the host logs, as a value of `RUST_LOG`: all lines of the plugin, each reconcile, and lines that an
/// operator needs.
pub(super) const FILTER: &str = "warn,flyball=info,flyball::reconcile=debug,flyball::guest=trace,kube_client::client::tls::rustls_tls=error";
/// The target of the plugin's own lines.
pub(super) const GUEST: &str = "flyball::guest";
/// The target of the lines with the API server's warnings about the plugin's writes.
pub(super) const WARNINGS: &str = "flyball::warning";
/// The target of the line about each reconcile.
pub(super) const RECONCILE: &str = "flyball::reconcile";

/// Fields that have a place of their own in a shown line, or are useless to the author of the only plugin.
const HIDDEN: [&str; 11] = [
    "attempt", "caller", "key", "level", "msg", "plugin", "queue", "spans", "target", "ts", "v",
];

/// A line of the log.
pub(super) struct Line(Map<String, Value>);

impl Line {
    /// Parses a line; `None` if it isn't JSON, which is the host's error before its log begins.
    pub(super) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok().map(Self)
    }

    /// The text of a field; empty if the line has no such text.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number in a field.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    /// Whether it is a warning or an error.
    pub(super) fn is_problem(&self) -> bool {
        ["WARN", "ERROR"].contains(&self.text("level"))
    }

    /// The line for people: the time, the level, the key, the message and the fields, long ones below.
    pub(super) fn shown(&self) -> String {
        let milliseconds = self.number("ts").unwrap_or_default();
        let time = Timestamp::from_millisecond(milliseconds as i64).unwrap_or_default();
        let time = time.strftime("%H:%M:%S%.3f");
        let mut line = format!("{time} {:>5} ", self.text("level"));
        if !self.text("key").is_empty() {
            line += &format!("{}: ", self.text("key"));
        }
        line += self.text("msg");
        let mut below = String::new();
        for (name, value) in &self.0 {
            if HIDDEN.contains(&&**name) {
                continue;
            }
            match value.as_str() {
                Some(long) if long.contains('\n') => below += &format!("\n{name}:\n{long}"),
                Some(short) => line += &format!(" {name}={short:?}"),
                None => line += &format!(" {name}={value}"),
            }
        }
        (line + &below).replace('\n', "\n    ")
    }
}
