//! The output of `flyball dev`: the plugin's log, its reconciles, and how long a new version took from saving to its
//! first reconcile.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use flyball_types::printable;

use crate::tools::host_log::{GUEST, Line, RECONCILE};
use crate::tools::output::brief;

/// The targets of lines that are shown at every level.
const SHOWN: [&str; 2] = [GUEST, RECONCILE];

/// The beginning of the host's warning about a plugin without a policy, with a flag that the author has not given.
const TRUSTED: &str = "--trust-plugins:";

/// Follows the host's log.
#[derive(Debug, Default)]
pub(super) struct Console {
    /// The version that the host was given, until its first reconcile.
    awaited: Option<Version>,
    /// The plugins whose reconciles and own lines are not shown: built-in controllers.
    hidden: BTreeSet<&'static str>,
}

/// The beginning of the times that are shown.
#[derive(Clone, Debug)]
pub(super) struct Since {
    /// What happened, with what came before the build.
    pub(super) event: String,
    /// When it happened.
    at: Instant,
    /// When the build could begin.
    pub(super) build: Instant,
}

impl Since {
    /// The start of the command, at `at`, and the time that its control plane took to start, if it has one.
    pub(super) fn start(at: Instant, control_plane: Option<Duration>) -> Self {
        let (event, build) = match control_plane {
            Some(took) => (
                format!("started -> control plane {}", brief(took)),
                at + took,
            ),
            None => ("started".to_owned(), at),
        };
        Self { event, at, build }
    }

    /// A save.
    pub(super) fn save(at: Instant) -> Self {
        Self {
            event: "saved".to_owned(),
            at,
            build: at,
        }
    }
}

/// A version on its way to its first reconcile.
#[derive(Debug)]
struct Version {
    digest: String,
    since: Since,
    built: Instant,
    loaded: Option<Instant>,
}

impl Console {
    /// A console that shows only the problems of these plugins.
    pub(super) fn hiding(hidden: BTreeSet<&'static str>) -> Self {
        Self {
            hidden,
            ..Self::default()
        }
    }

    /// The host gets a component with this digest, which was built at `built`.
    pub(super) fn await_version(&mut self, since: Since, built: Instant, digest: &str) {
        self.awaited = Some(Version {
            digest: digest.to_owned(),
            since,
            built,
            loaded: None,
        });
    }

    /// Shows a line of the host's log.
    pub(super) fn show(&mut self, line: &str) {
        for line in self.lines(line, Instant::now()) {
            say(&line);
        }
    }

    /// Returns what is shown for a line that the host logged at `now`.
    fn lines(&mut self, line: &str, now: Instant) -> Vec<String> {
        let Some(line) = Line::parse(line) else {
            return vec![line.to_owned()];
        };
        if self.hidden.contains(line.text("plugin")) && !line.is_problem() {
            return Vec::new();
        }
        if line.text("msg").starts_with(TRUSTED) {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let is_start = ["starting", "takes over"].contains(&line.text("msg"));
        if let Some(version) = &mut self.awaited
            && is_start
            && line.text("digest") == version.digest
        {
            version.loaded = Some(now);
            let (plugin, version) = (line.text("plugin"), line.text("version"));
            lines.push(format!("loaded {plugin} {version}"));
        }
        if SHOWN.contains(&line.text("target")) || line.is_problem() {
            lines.push(line.shown());
        }
        if let (Some(took), RECONCILE) = (line.number("took_ms"), line.text("target")) {
            lines.extend(self.reconciled(now, took / 1e3, line.text("key")));
        }
        lines
    }

    /// Returns the times of a new version if this reconcile, which ends now, is its first one. Calls of the version
    /// before may end after the new one has taken over.
    fn reconciled(&mut self, now: Instant, took: f64, key: &str) -> Option<String> {
        let loaded = self.awaited.as_ref()?.loaded?;
        let ran = now - loaded;
        if took > ran.as_secs_f64() {
            return None;
        }
        let version = self.awaited.take()?;
        Some(format!(
            "{} -> built {} -> loaded {} -> first reconcile {} ({key}): {} in all",
            version.since.event,
            brief(version.built - version.since.build),
            brief(loaded - version.built),
            brief(ran),
            brief(now - version.since.at)
        ))
    }
}

/// Prints a text. Its lines may quote the plugin. A closed pipe is not an error.
pub(super) fn say(text: &str) {
    let mut safe = String::new();
    for line in text.lines() {
        let _ = writeln!(safe, "{}", printable(line));
    }
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(safe.as_bytes());
    let _ = out.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"{"ts":1767261600123.456,"v":0,"level":"INFO","msg":"takes over","plugin":"a","version":"0.1.0","digest":"d2","target":"flyball_manager"}"#;

    fn reconciled(took_ms: f64) -> String {
        format!(
            r#"{{"ts":1767261600123.456,"v":4,"level":"DEBUG","msg":"reconciled","plugin":"a","key":"b/c","why":"d","took_ms":{took_ms},"target":"flyball::reconcile"}}"#
        )
    }

    #[test]
    fn the_times_are_those_of_the_first_reconcile_that_the_new_version_began() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut console = Console::default();
        console.await_version(Since::save(start), after(1200), "d2");
        let shown = "10:00:00.123 DEBUG b/c: reconciled took_ms=1 why=\"d\"";
        assert_eq!(console.lines(&reconciled(1.0), after(1250)), [shown]);
        let other = START.replace("d2", "d1");
        assert_eq!(console.lines(&other, after(1260)), [] as [&str; 0]);
        assert_eq!(console.lines(START, after(1300)), ["loaded a 0.1.0"]);
        // A call of the previous version.
        let lines = console.lines(&reconciled(100.0), after(1310));
        assert_eq!(lines.len(), 1, "{lines:?}");
        let lines = console.lines(&reconciled(20.0), after(1350));
        let times =
            "saved -> built 1.2 s -> loaded 0.1 s -> first reconcile 50 ms (b/c): 1.4 s in all";
        assert_eq!(lines[1..], [times]);
        // Once.
        assert_eq!(console.lines(&reconciled(1.0), after(1400)), [shown]);
    }

    #[test]
    fn the_first_time_of_all_begins_with_the_control_plane() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut console = Console::default();
        let since = Since::start(start, Some(Duration::from_secs(3)));
        console.await_version(since, after(4000), "d2");
        console.lines(START, after(4200));
        let lines = console.lines(&reconciled(1.0), after(4240));
        let times = "started -> control plane 3.0 s -> built 1.0 s -> loaded 0.2 s -> first reconcile 40 ms (b/c): 4.2 s in all";
        assert_eq!(lines[1..], [times]);
        assert_eq!(Since::start(start, None).event, "started");
    }

    #[test]
    fn of_built_in_controllers_only_problems_are_shown() {
        let mut console = Console::hiding(["a"].into());
        let now = Instant::now();
        let before = now - Duration::from_secs(1);
        console.await_version(Since::save(before), before, "d2");
        console.lines(&START.replace("\"a\"", "\"mine\""), before);
        assert_eq!(console.lines(&reconciled(1.0), now), [] as [&str; 0]);
        let mine = reconciled(1.0).replace("\"plugin\":\"a\"", "\"plugin\":\"mine\"");
        assert_eq!(console.lines(&mine, now).len(), 2);
        let warning = reconciled(1.0).replace("DEBUG", "WARN");
        assert_eq!(console.lines(&warning, now).len(), 1);
    }

    #[test]
    fn warnings_and_what_the_plugin_logs_are_shown_and_traces_are_below() {
        let mut console = Console::default();
        let line = |level: &str, target: &str| {
            let text = r#"{"ts":1767261600123.456,"level":"L","msg":"m","key":"b/c","trace":"one\ntwo","target":"T"}"#;
            text.replace("\"L\"", &format!("{level:?}"))
                .replace("\"T\"", &format!("{target:?}"))
        };
        let now = Instant::now();
        assert_eq!(
            console.lines(&line("TRACE", "flyball::guest"), now),
            ["10:00:00.123 TRACE b/c: m\n    trace:\n    one\n    two"]
        );
        assert_eq!(console.lines(&line("WARN", "flyball_cache"), now).len(), 1);
        assert_eq!(console.lines(&line("INFO", "flyball_cache"), now).len(), 0);
        let error = "flyball: can't start";
        assert_eq!(console.lines(error, now), [error]);
    }
}
