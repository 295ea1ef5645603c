//! Counts repeated warnings and errors instead of writing each. A fault that many keys or all built-in controllers share
//! has one line, and later lines that say how often it was repeated, at growing intervals. A built-in controller that
//! joins later has a line of its own first. Lines of a dropped-in plugin are counted only with its own: it could log the
//! same line as another plugin, and hide that plugin's failure.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::Level;

use super::line::{Line, PLUGIN};

/// How long the repetitions of a line are counted before they are written, and the longest such time.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Lines whose repetitions are counted. Further lines are always written.
const MAX_LINES: usize = 1024;
/// The most of these lines that one dropped-in plugin may have, so that it leaves some to the others.
const MAX_LINES_OF_PLUGIN: usize = 64;
/// Plugins that a line about repetitions names, and that are remembered for each line.
const MAX_PLUGINS: usize = 64;
/// Fields of one attempt. Lines that differ only in these and in the plugin are the same.
const ATTEMPT_FIELDS: [&str; 12] = [
    "attempt",
    "backtrace",
    "coalesced",
    "dropped",
    "key",
    "queue",
    "queued_ms",
    "spans",
    "tick",
    "took_ms",
    "why",
    "wrote",
];

/// The lines that were written lately, by a hash of the parts that make them equal.
#[derive(Default)]
pub(super) struct Repeats {
    hasher: RandomState,
    lines: Mutex<HashMap<u64, Repeated>>,
}

/// A line that was written, and its repetitions since then.
struct Repeated {
    /// Time at which the first line was written.
    begun: Instant,
    written: Instant,
    pause: Duration,
    count: u32,
    last: Line,
    /// The plugins of the repetitions.
    plugins: BTreeSet<String>,
    /// The plugins of all lines so far.
    known: BTreeSet<String>,
}

impl Repeats {
    /// Returns the lines to write now: lines whose repetitions were counted for long enough, and this one unless it is
    /// a repetition.
    pub(super) fn note(&self, line: Line, now: Instant) -> Vec<Line> {
        let mut lines = self.lines.lock();
        let mut written = due(&mut lines, now);
        if line.level > Level::WARN {
            written.push(line);
            return written;
        }
        let of = self.identity(&line);
        match lines.get_mut(&of) {
            Some(repeated) if repeated.is_first_of_plugin(&line, now) => {
                repeated.known.extend(plugin(&line).map(str::to_owned));
                written.push(line);
            }
            Some(repeated) => repeated.add(line),
            None => {
                if lines.len() < MAX_LINES && has_room(&lines, dropped_in(&line)) {
                    lines.insert(of, Repeated::new(line.clone(), now));
                }
                written.push(line);
            }
        }
        written
    }

    fn identity(&self, line: &Line) -> u64 {
        let is_own = |name: &&'static str| *name != PLUGIN && !ATTEMPT_FIELDS.contains(name);
        let fields = line.fields().iter();
        let own: Vec<_> = fields.filter(|(name, _)| is_own(name)).collect();
        let parts = (line.target(), line.message(), own, dropped_in(line));
        self.hasher.hash_one(parts)
    }
}

/// Whether a dropped-in plugin may have another line.
fn has_room(lines: &HashMap<u64, Repeated>, dropped_in: Option<&str>) -> bool {
    dropped_in.is_none() || {
        let own = lines
            .values()
            .filter(|line| plugin(&line.last) == dropped_in);
        own.count() < MAX_LINES_OF_PLUGIN
    }
}

/// Takes the lines whose repetitions were counted for long enough, and forgets lines without repetitions.
fn due(lines: &mut HashMap<u64, Repeated>, now: Instant) -> Vec<Line> {
    let mut written = Vec::new();
    lines.retain(|_, repeated| {
        if now.duration_since(repeated.written) < repeated.pause {
            return true;
        }
        let line = repeated.take(now);
        let is_kept = line.is_some();
        written.extend(line);
        is_kept
    });
    written
}

impl Repeated {
    fn new(line: Line, now: Instant) -> Self {
        Self {
            begun: now,
            written: now,
            pause: FIRST_PAUSE,
            count: 0,
            plugins: plugin(&line).map(str::to_owned).into_iter().collect(),
            known: plugin(&line).map(str::to_owned).into_iter().collect(),
            last: line,
        }
    }

    /// Whether a line is the first one of a plugin that did not fail together with the others. Plugins that failed
    /// together are named with the first repetitions, which follow soon.
    fn is_first_of_plugin(&self, line: &Line, now: Instant) -> bool {
        now.duration_since(self.begun) >= FIRST_PAUSE
            && self.known.len() < MAX_PLUGINS
            && plugin(line).is_some_and(|plugin| !self.known.contains(plugin))
    }

    fn add(&mut self, line: Line) {
        self.count = self.count.saturating_add(1);
        for names in [&mut self.plugins, &mut self.known] {
            if names.len() <= MAX_PLUGINS {
                names.extend(plugin(&line).map(str::to_owned));
            }
        }
        self.last = line;
    }

    /// Returns the last line with the number of repetitions; none if there were none.
    fn take(&mut self, now: Instant) -> Option<Line> {
        if self.count == 0 {
            return None;
        }
        let mut line = self.last.clone();
        let (times, seconds) = (self.count, now.duration_since(self.written).as_secs());
        let plural = if times == 1 { "" } else { "s" };
        line.push("repeated", &format!("{times} time{plural} in {seconds} s"));
        if self.plugins.len() > 1 {
            let mut names: Vec<&str> = self.plugins.iter().map(String::as_str).collect();
            if names.len() > MAX_PLUGINS {
                names.truncate(MAX_PLUGINS);
                names.push("…");
            }
            line.push("plugins", &names.join(", "));
        }
        self.written = now;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        self.count = 0;
        self.plugins.clear();
        Some(line)
    }
}

/// Whether a plugin of this name is a built-in controller. No other plugin has such a name, unless the policy puts it in
/// the controller's place.
fn is_builtin(name: &str) -> bool {
    flyball_controllers::built_in().any(|(controller, _)| controller.name == name)
}

/// The plugin that a line names, unless it is a built-in controller.
fn dropped_in(line: &Line) -> Option<&str> {
    plugin(line).filter(|name| !is_builtin(name))
}

/// The plugin that a line names.
fn plugin(line: &Line) -> Option<&str> {
    let mut fields = line.fields().iter();
    let (_, value) = fields.find(|(name, _)| *name == PLUGIN)?;
    Some(value.as_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: Level, message: &str, fields: &[(&'static str, &str)]) -> Line {
        let mut line = Line::new(level, "flyball", message);
        fields.iter().for_each(|(name, text)| line.push(name, text));
        line
    }

    /// Built-in controllers.
    const A: &str = "job-controller";
    const B: &str = "node-ipam-controller";
    const C: &str = "taint-eviction-controller";

    /// Collects the lines that are written for a line at a time in seconds: the message and the fields of each.
    struct Log(Repeats, Instant);

    impl Log {
        fn start() -> Self {
            Self(Repeats::default(), Instant::now())
        }

        fn at(&self, second: u64, line: Line) -> Vec<String> {
            let written = self.0.note(line, self.1 + Duration::from_secs(second));
            written.iter().map(Line::to_text).collect()
        }

        fn failed(&self, second: u64, plugin: &str, attempt: &str) -> Vec<String> {
            let fields = [("plugin", plugin), ("attempt", attempt)];
            self.at(second, line(Level::WARN, "failed", &fields))
        }

        /// Returns the lines that are written when another line comes.
        fn later(&self, second: u64) -> Vec<String> {
            let mut written = self.at(second, line(Level::INFO, "later", &[]));
            assert_eq!(written.pop().as_deref(), Some("\"later\""));
            written
        }
    }

    #[test]
    fn a_fault_that_built_in_controllers_share_has_one_line_and_a_count() {
        let log = Log::start();
        let first = r#""failed" plugin="job-controller" attempt="0""#;
        assert_eq!(log.failed(0, A, "0"), [first]);
        for attempt in 0..56 {
            assert_eq!(log.failed(attempt / 10, B, &attempt.to_string()), [""; 0]);
        }
        assert_eq!(log.failed(9, C, "7"), [""; 0]);
        assert_eq!(
            log.later(10),
            [
                r#""failed" plugin="taint-eviction-controller" attempt="7" repeated="57 times in 10 s" plugins="job-controller, node-ipam-controller, taint-eviction-controller""#
            ]
        );
    }

    #[test]
    fn a_built_in_controller_that_joins_later_has_a_line_of_its_own_first() {
        let log = Log::start();
        let failed = |second, name| log.failed(second, name, "0").pop();
        for second in 0..100 {
            failed(second, A);
        }
        let first = r#""failed" plugin="node-ipam-controller" attempt="0""#;
        assert_eq!(failed(100, B).as_deref(), Some(first));
        assert_eq!(failed(101, B), None, "it is counted from now on");
        let counted = log.later(200);
        let both = r#"plugins="job-controller, node-ipam-controller""#;
        assert!(counted[0].contains(both), "{counted:?}");
    }

    #[test]
    fn a_dropped_in_plugin_hides_no_line_of_another_one() {
        let log = Log::start();
        // It fails beforehand, and again and again.
        for second in 0..100 {
            log.failed(second, "hostile", "0");
        }
        for name in ["victim", A, "another"] {
            let own = format!(r#""failed" plugin="{name}" attempt="0""#);
            assert_eq!(log.failed(100, name, "0").pop(), Some(own));
            assert_eq!(
                log.failed(100, name, "0"),
                [""; 0],
                "it is counted from now on"
            );
        }
        let counted = log.later(200);
        assert_eq!(counted.len(), 4);
        let is_shared = |line: &String| line.contains("plugins=");
        assert!(!counted.iter().any(is_shared), "{counted:?}");
    }

    #[test]
    fn repetitions_are_written_at_growing_intervals_until_there_are_none() {
        let log = Log::start();
        log.failed(0, "a", "0");
        let counted = (1..100).filter_map(|second| log.failed(second, "a", "0").pop());
        let counted: Vec<String> = counted.collect();
        let expected = ["9 times in 10 s", "20 times in 20 s", "40 times in 40 s"];
        assert_eq!(counted.len(), expected.len(), "{counted:?}");
        for (counted, expected) in counted.iter().zip(expected) {
            assert!(
                counted.contains(expected) && !counted.contains("plugins="),
                "{counted}"
            );
        }
        assert_eq!(log.later(150).len(), 1, "those since then");
        assert_eq!(log.later(1000), [""; 0]);
        // The fault is over. The next failure counts as a new fault.
        assert_eq!(
            log.failed(1001, "a", "0"),
            [r#""failed" plugin="a" attempt="0""#]
        );
    }

    #[test]
    fn lines_with_other_messages_or_fields_and_those_of_lower_levels_are_written() {
        let log = Log::start();
        let refused = |kind| line(Level::WARN, "refused", &[("kind", kind)]);
        assert_eq!(log.at(0, refused("Pod")).len(), 1);
        assert_eq!(log.at(0, refused("Secret")).len(), 1);
        assert_eq!(log.at(0, refused("Pod")).len(), 0);
        for _ in 0..3 {
            assert_eq!(log.at(0, line(Level::INFO, "running", &[])).len(), 1);
        }
    }

    #[test]
    fn a_dropped_in_plugin_with_many_lines_leaves_room_for_others() {
        let log = Log::start();
        for number in 0..MAX_LINES {
            let own = line(Level::WARN, &number.to_string(), &[("plugin", "hostile")]);
            assert_eq!(log.at(0, own).len(), 1);
        }
        assert_eq!(log.failed(0, "victim", "0").len(), 1);
        assert_eq!(log.failed(0, "victim", "0").len(), 0);
    }

    #[test]
    fn lines_beyond_the_greatest_number_are_written() {
        let log = Log::start();
        for number in 0..=MAX_LINES {
            log.at(0, line(Level::ERROR, &number.to_string(), &[]));
        }
        assert_eq!(log.at(0, line(Level::ERROR, "0", &[])).len(), 0);
        let last = MAX_LINES.to_string();
        assert_eq!(log.at(0, line(Level::ERROR, &last, &[])).len(), 1);
    }
}
