//! The result of a test: what the plugin did, and what is wrong.

use std::fmt::Write;
use std::process::ExitCode;

use flyball_manager::PluginState;
use flyball_testserver::api::ApiServer;
use flyball_types::description::Description;
use flyball_types::printable;
use serde_json::Value;

use super::expect::Expectation;
use super::kinds::{self, Objects};
use super::watch::Ended;
use crate::tools::observed::Observed;
use crate::tools::output::{self, Done};

/// The last writes of a plugin that does not settle.
const SHOWN_WRITES: usize = 10;
/// The kind of the events that the host records for plugins.
const EVENT: &str = "v1/Event";

pub(super) struct Report<'a> {
    pub(super) server: &'a ApiServer,
    /// The objects before the plugin started.
    pub(super) before: Objects,
    pub(super) observed: &'a Observed,
    pub(super) ended: Ended,
    /// The seconds within which the plugin had to settle.
    pub(super) within: u32,
    pub(super) expectations: &'a [Expectation],
}

impl Report<'_> {
    pub(super) fn done(&self, description: &Description) -> anyhow::Result<Done> {
        let objects = kinds::objects(self.server);
        // The host records events, which are shown as such.
        let writes = self.server.writes().into_iter();
        let writes = writes.filter(|write| write.kind != EVENT);
        let writes: Vec<String> = writes.map(|write| write.to_string()).collect();
        let problems = self.problems(&objects, &writes);

        let (Ended::Settled(status) | Ended::Unsettled(status)) = &self.ended;
        let mut out = format!(
            "{} {}: {} reconciles, {} failed\n",
            description.name,
            description.version,
            status.performance.reconciles,
            status.performance.errors
        );
        section(
            &mut out,
            "failed reconciles",
            &self.failed(status.performance.errors),
        );
        section(&mut out, "writes", &writes);
        section(&mut out, "events", &events(&objects));
        section(&mut out, "log", &self.observed.log);
        let mut out = printable_lines(&out);
        if self.expectations.is_empty() {
            let written: Vec<Value> = objects
                .iter()
                .filter(|(key, object)| key[0] != EVENT && self.before.get(*key) != Some(object))
                .map(|(_, object)| object.clone())
                .collect();
            if !written.is_empty() {
                out += "objects:\n";
                out += &output::yaml(&written)?;
            }
        } else if problems.is_empty() {
            let _ = writeln!(out, "all {} expectations hold", self.expectations.len());
        }
        let code = match problems.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
        let err = problems.iter().map(|problem| format!("{problem}\n"));
        Ok(Done {
            out,
            err: printable_lines(&err.collect::<String>()),
            code,
        })
    }

    /// The failed reconciles. `all` is their number.
    fn failed(&self, all: u64) -> Vec<String> {
        let mut lines = self.observed.failed.clone();
        let more = all.saturating_sub(lines.len() as u64);
        if more > 0 && !lines.is_empty() {
            lines.push(format!("… and {more} more"));
        }
        lines
    }

    fn problems(&self, objects: &Objects, writes: &[String]) -> Vec<String> {
        let mut problems = Vec::new();
        match &self.ended {
            Ended::Unsettled(status) => {
                let last = writes.len().saturating_sub(SHOWN_WRITES);
                problems.push(format!(
                    "the plugin does not settle within {} s: {} reconciles and {} writes; the last writes:\n    {}",
                    self.within,
                    status.performance.reconciles,
                    writes.len(),
                    writes[last..].join("\n    ")
                ));
            }
            Ended::Settled(status) if status.state == PluginState::Quarantined => {
                let reason = status.reason.as_deref().unwrap_or_default();
                problems.push(format!("the plugin is quarantined: {reason}"));
            }
            Ended::Settled(_) => {}
        }
        for ((_, key), failure) in &self.observed.failing {
            let last = failure.last.trim().replace('\n', "\n    ");
            problems.push(format!(
                "the reconcile of {key} failed {} times: {last}",
                failure.times
            ));
        }
        for (message, times) in &self.observed.denials {
            problems.push(format!("denied {times} times: {message}"));
        }
        let unmet = self.expectations.iter();
        problems.extend(unmet.filter_map(|expectation| expectation.problem(objects)));
        problems
    }
}

/// The events, as lines such as `Normal Created: v1/Pod default/web: created it`.
fn events(objects: &Objects) -> Vec<String> {
    let events = objects.iter().filter(|([kind, ..], _)| kind == EVENT);
    let line = |(_, event): (_, &Value)| {
        let text = |pointer: &str| {
            let value = event.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default()
        };
        let about = [
            text("/involvedObject/kind"),
            text("/involvedObject/namespace"),
            text("/involvedObject/name"),
        ];
        let about = about.into_iter().filter(|part| !part.is_empty());
        let about = about.collect::<Vec<_>>().join("/");
        let (kind, reason, message) = (text("/type"), text("/reason"), text("/message"));
        format!("{kind} {reason} {about}: {message}")
    };
    events.map(line).collect()
}

fn section(out: &mut String, name: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(out, "{name}:");
        for line in lines {
            let _ = writeln!(out, "    {}", line.replace('\n', "\n    "));
        }
    }
}

/// The text without control characters, which may be the guest's, but with its lines.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}
