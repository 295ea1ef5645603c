//! The result of a plan, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::io::IsTerminal;
use std::process::ExitCode;

use flyball_manager::{PluginState, PluginStatus};
use flyball_plan::{Action, Change, Outcome, Summary, diff, shown_change};
use flyball_types::printable;
use serde_json::{Value, json};

use super::settle::{Ended, Limit};
use super::{Arguments, NOT_COMPLETE};
use crate::output::Format;
use crate::tools::observed::Observed;
use crate::tools::output::{Done, pretty_json};

/// The most failed keys that are shown.
const SHOWN_FAILURES: usize = 20;

pub(super) struct Report<'a> {
    pub(super) outcome: Outcome,
    pub(super) ended: Ended,
    pub(super) observed: &'a Observed,
    pub(super) arguments: &'a Arguments,
}

impl Report<'_> {
    pub(super) fn done(&self) -> anyhow::Result<Done> {
        let problems = self.problems();
        let (out, err) = match self.arguments.output {
            Format::Json => (pretty_json(&self.json(&problems)), String::new()),
            Format::Text => {
                let style = Style::of_output();
                let problems = problems.iter().map(|problem| format!("{problem}\n"));
                (
                    self.text(&style)?,
                    printable_lines(&problems.collect::<String>()),
                )
            }
        };
        let code = match (problems.is_empty(), self.outcome.is_empty()) {
            (false, _) => ExitCode::from(NOT_COMPLETE),
            (true, false) => ExitCode::FAILURE,
            (true, true) => ExitCode::SUCCESS,
        };
        Ok(Done { out, err, code })
    }

    /// Why the plan is not complete.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let Arguments {
            max_writes, within, ..
        } = self.arguments;
        match self.ended.stopped {
            Some(Limit::Writes) => problems.push(format!(
                "the plan is not complete: it has reached its limit of {max_writes} writes; --max-writes raises it"
            )),
            Some(Limit::Time) => problems.push(format!(
                "the plan is not complete: something is left to do after {within} s ({}); --within gives it more time",
                busy(&self.ended.plugins)
            )),
            None => {}
        }
        for plugin in &self.ended.plugins {
            if plugin.state != PluginState::Running && self.ended.stopped != Some(Limit::Time) {
                let reason = plugin.reason.as_deref().unwrap_or("no reason is known");
                problems.push(format!(
                    "{} is {}: {reason}",
                    plugin.name,
                    plugin.state.name()
                ));
            }
        }
        let failing = &self.observed.failing;
        if let Some(more) = failing.len().checked_sub(SHOWN_FAILURES + 1) {
            problems.push(format!("{} more keys fail", more + 1));
        }
        for ((plugin, key), failure) in failing.iter().take(SHOWN_FAILURES) {
            let last = failure.last.trim().replace('\n', "\n    ");
            let times = failure.times;
            problems.push(format!(
                "{plugin}: the reconcile of {key} failed {times} times: {last}"
            ));
        }
        for (message, times) in &self.observed.denials {
            problems.push(format!("denied {times} times: {message}"));
        }
        problems
    }

    fn text(&self, style: &Style) -> anyhow::Result<String> {
        let changes = &self.outcome.changes;
        let mut out = String::new();
        for change in changes {
            let text = diff(change, self.arguments.show_status)?;
            out += &style.diff(&printable_lines(&text));
        }
        let listed = changes
            .iter()
            .filter(|change| !change.is_status_only || self.arguments.show_status);
        for change in listed {
            let _ = writeln!(out, "{}", style.change(change));
        }
        let _ = writeln!(out, "{}", style.summary(&self.outcome.summary()));
        for restart in &self.outcome.restarts {
            let name = named(&restart.kind, &restart.namespace, &restart.name);
            let _ = writeln!(out, "    {name}: {}", count(restart.pods, "pod"));
        }
        let counted = |lines: &BTreeMap<String, usize>| {
            let line = |(line, times): (&String, &usize)| match times {
                1 => line.clone(),
                times => format!("{line} ({times} times)"),
            };
            lines.iter().map(line).collect::<Vec<_>>()
        };
        section(&mut out, "left waiting", &waiting(&self.ended.plugins));
        section(&mut out, "events", &counted(&self.outcome.events));
        section(&mut out, "notes", &counted(&self.outcome.notes));
        Ok(out)
    }

    fn json(&self, problems: &[String]) -> Value {
        let changes = self.outcome.changes.iter().map(|change| {
            let (before, after) = shown_change(change);
            json!({
                "action": change.action,
                "kind": change.kind,
                "namespace": change.namespace,
                "name": change.name,
                "given": change.is_given,
                "writers": change.writers,
                "statusOnly": change.is_status_only,
                "waitsFor": change.waits_for,
                "before": before,
                "after": after,
            })
        });
        let delayed = self
            .ended
            .plugins
            .iter()
            .filter(|plugin| plugin.delayed > 0);
        let delayed = delayed.map(|plugin| {
            json!({"plugin": plugin.name, "keys": plugin.delayed, "nextMs": plugin.next_delayed_ms})
        });
        json!({
            "complete": problems.is_empty(),
            "problems": problems,
            "summary": self.outcome.summary(),
            "changes": changes.collect::<Value>(),
            "restarts": self.outcome.restarts,
            "waiting": delayed.collect::<Value>(),
            "events": self.outcome.events,
            "notes": self.outcome.notes,
        })
    }
}

/// Which plugins are not done.
fn busy(plugins: &[PluginStatus]) -> String {
    let is_busy = |plugin: &&PluginStatus| {
        plugin.state != PluginState::Running || plugin.queued + plugin.processing > 0
    };
    let busy = plugins
        .iter()
        .filter(is_busy)
        .map(|plugin| match plugin.state {
            PluginState::Running => format!(
                "{}: {}",
                plugin.name,
                count(plugin.queued + plugin.processing, "key")
            ),
            state => format!("{} is {}", plugin.name, state.name()),
        });
    let busy: Vec<String> = busy.collect();
    match busy.is_empty() {
        true => "writes go on".to_owned(),
        false => busy.join(", "),
    }
}

/// The plugins with keys that wait for their time.
fn waiting(plugins: &[PluginStatus]) -> Vec<String> {
    let delayed = plugins.iter().filter(|plugin| plugin.delayed > 0);
    let line = |plugin: &PluginStatus| {
        let due = plugin.next_delayed_ms.unwrap_or(0).div_ceil(1000);
        format!(
            "{}: {}, the first of them in {due} s",
            plugin.name,
            count(plugin.delayed, "key")
        )
    };
    delayed.map(line).collect()
}

/// The colours of a terminal, or none.
struct Style {
    is_terminal: bool,
}

impl Style {
    fn of_output() -> Self {
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            is_terminal: std::io::stdout().is_terminal() && !is_plain,
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        match self.is_terminal {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn diff(&self, text: &str) -> String {
        let painted = text.lines().map(|line| {
            let line = match line.as_bytes().first() {
                _ if line.starts_with("+++ ") || line.starts_with("--- ") => self.bold(line),
                Some(b'+') => self.paint("32", line),
                Some(b'-') => self.paint("31", line),
                Some(b'@') => self.paint("36", line),
                _ => line.to_owned(),
            };
            line + "\n"
        });
        painted.collect()
    }

    /// A line such as `delete v1/Secret shop/token (by operator; waits for a/b)`.
    fn change(&self, change: &Change) -> String {
        let verb = match change.action {
            Action::Created => "create",
            Action::Changed => "change",
            Action::Deleted => "DELETE",
            Action::Replaced => "replace",
        };
        let mut remarks = Vec::new();
        if change.is_given {
            remarks.push("given".to_owned());
        }
        if !change.writers.is_empty() {
            let writers: Vec<&str> = change.writers.iter().map(String::as_str).collect();
            remarks.push(format!("by {}", writers.join(", ")));
        }
        if change.is_status_only {
            remarks.push("in its status".to_owned());
        }
        if !change.waits_for.is_empty() {
            remarks.push(format!("waits for {}", change.waits_for.join(", ")));
        }
        let name = named(&change.kind, &change.namespace, &change.name);
        let line = match remarks.is_empty() {
            true => format!("{verb:<7} {name}"),
            false => format!("{verb:<7} {name} ({})", remarks.join("; ")),
        };
        let line = printable(&line);
        match change.action {
            Action::Deleted => self.bold(&line),
            _ => line,
        }
    }

    /// A line such as `2 created, 1 changed, 1 DELETED, 0 replaced; 3 pods restarted`.
    fn summary(&self, summary: &Summary) -> String {
        let Summary {
            created,
            changed,
            status_only,
            deleted,
            replaced,
            restarted_pods,
        } = summary;
        let all = created + changed + status_only + deleted + replaced;
        if all == 0 {
            return "nothing would change".to_owned();
        }
        let deleted = match deleted {
            0 => "0 deleted".to_owned(),
            deleted => self.bold(&format!("{deleted} DELETED")),
        };
        format!(
            "{created} created, {changed} changed ({status_only} more in their status), {deleted}, {replaced} replaced; {} restarted",
            count(*restarted_pods, "pod")
        )
    }
}

/// `v1/Pod default/web`
fn named(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

fn count(number: impl Display, what: &str) -> String {
    let plural = if number.to_string() == "1" { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn section(out: &mut String, name: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(out, "{name}:");
        for line in lines {
            let _ = writeln!(out, "    {}", printable(line));
        }
    }
}

/// The text without control characters, which may be the guest's, but with its lines.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn change(action: Action) -> Change {
        Change {
            action,
            kind: "v1/Secret".into(),
            namespace: "shop".into(),
            name: "token\u{1b}[2J".into(),
            is_given: false,
            writers: BTreeSet::from(["operator".to_owned()]),
            is_status_only: false,
            waits_for: vec!["a/b".into()],
            before: None,
            after: None,
        }
    }

    #[test]
    fn a_deletion_is_bold_in_a_terminal_and_names_control_no_terminal() {
        let line = Style { is_terminal: true }.change(&change(Action::Deleted));
        assert_eq!(
            line,
            "\u{1b}[1mDELETE  v1/Secret shop/token\\u001b[2J (by operator; waits for a/b)\u{1b}[0m"
        );
        let plain = Style { is_terminal: false }.change(&change(Action::Created));
        assert!(plain.starts_with("create  v1/Secret shop/token"), "{plain}");
    }

    #[test]
    fn the_summary_counts_and_an_empty_one_says_so() {
        let style = Style { is_terminal: false };
        assert_eq!(style.summary(&Summary::default()), "nothing would change");
        let summary = Summary {
            created: 2,
            deleted: 1,
            restarted_pods: 3,
            ..Summary::default()
        };
        assert_eq!(
            style.summary(&summary),
            "2 created, 0 changed (0 more in their status), 1 DELETED, 0 replaced; 3 pods restarted"
        );
    }
}
