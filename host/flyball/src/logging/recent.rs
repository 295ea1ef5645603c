//! The last lines of the log about each plugin.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::line::PLUGIN;
use super::span;

/// Lines that are kept of each plugin.
const MAX_LINES: usize = 256;
/// Plugins whose lines are kept; lines about further plugins are dropped.
const MAX_PLUGINS: usize = 4096;
/// Maximum length of a line in bytes; longer lines are truncated.
const MAX_LINE_BYTES: usize = 4096;
/// Maximum bytes of all lines together. Beyond that, the plugin with the most bytes loses its oldest line.
const MAX_BYTES: usize = 64 << 20;
/// The bytes that a line takes beside its text: its place in the list, and the allocator's own.
const LINE: usize = 64;
/// Lines that a follower may lag behind before it misses some.
const MAX_LAG: usize = 1024;

/// The last lines about each plugin. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Recent {
    plugins: Arc<Mutex<Plugins>>,
}

#[derive(Default)]
struct Plugins {
    by_name: BTreeMap<String, Lines>,
    /// The bytes of all lines.
    bytes: usize,
}

#[derive(Default)]
struct Lines {
    /// Without spare capacity, which a line that was truncated has.
    last: VecDeque<Box<str>>,
    /// The bytes of these lines.
    bytes: usize,
    followers: Vec<mpsc::Sender<String>>,
}

/// The layer that adds the log's lines to [`Recent`].
pub(crate) struct RecentLayer(Recent);

/// The log keeps lines of the maximum number of plugins, so no further plugin can be followed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log keeps the lines of {MAX_PLUGINS} plugins already, and none of this one")]
pub(crate) struct TooManyPlugins;

impl Recent {
    /// Returns the layer that adds the log's lines.
    pub(crate) fn layer(&self) -> RecentLayer {
        RecentLayer(self.clone())
    }

    /// Returns the last lines about a plugin, the oldest first.
    pub(crate) fn lines(&self, plugin: &str) -> Vec<String> {
        self.all()
            .by_name
            .get(plugin)
            .map(Lines::texts)
            .unwrap_or_default()
    }

    /// Returns the last lines about a plugin, the oldest first, and a channel that receives each further one.
    pub(crate) fn follow(
        &self,
        plugin: &str,
    ) -> Result<(Vec<String>, mpsc::Receiver<String>), TooManyPlugins> {
        let mut all = self.all();
        let lines = all.of(plugin).ok_or(TooManyPlugins)?;
        let (sender, further) = mpsc::channel(MAX_LAG);
        lines.followers.retain(|follower| !follower.is_closed());
        lines.followers.push(sender);
        Ok((lines.texts(), further))
    }

    fn add(&self, plugin: &str, line: &str) {
        let mut all = self.all();
        let Some(lines) = all.of(plugin) else {
            return;
        };
        lines.followers.retain(|follower| !follower.is_closed());
        lines
            .followers
            .iter()
            .for_each(|follower| drop(follower.try_send(line.to_owned())));
        let mut freed = 0;
        if lines.last.len() == MAX_LINES {
            freed = lines.drop_oldest();
        }
        let bytes = line.len() + LINE;
        lines.last.push_back(line.into());
        lines.bytes += bytes;
        all.bytes = all.bytes + bytes - freed;
        while all.bytes > MAX_BYTES {
            all.shrink();
        }
    }

    fn all(&self) -> MutexGuard<'_, Plugins> {
        self.plugins.lock()
    }
}

impl Plugins {
    /// Returns the lines of a plugin; none if there are too many plugins and this is a new one.
    fn of(&mut self, plugin: &str) -> Option<&mut Lines> {
        let known = &mut self.by_name;
        if !known.contains_key(plugin) {
            if known.len() >= MAX_PLUGINS {
                // Drops plugins that were only followed and have no lines.
                known.retain(|_, lines| !lines.is_unused());
            }
            if known.len() >= MAX_PLUGINS {
                return None;
            }
        }
        Some(known.entry(plugin.to_owned()).or_default())
    }

    /// Drops the oldest line of the plugin with the most bytes.
    fn shrink(&mut self) {
        let largest = self.by_name.values_mut().max_by_key(|lines| lines.bytes);
        self.bytes -= largest.map_or(self.bytes, Lines::drop_oldest);
    }
}

impl Lines {
    fn texts(&self) -> Vec<String> {
        self.last.iter().map(|line| String::from(&**line)).collect()
    }

    /// Drops the oldest line, and returns its bytes.
    fn drop_oldest(&mut self) -> usize {
        let bytes = self.last.pop_front().map_or(0, |line| line.len() + LINE);
        self.bytes -= bytes;
        bytes
    }

    fn is_unused(&self) -> bool {
        self.last.is_empty() && self.followers.iter().all(mpsc::Sender::is_closed)
    }
}

impl<S> Layer<S> for RecentLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let has_own = event.metadata().fields().field(PLUGIN).is_some();
        if !has_own && !span::has_field(context.event_scope(event), PLUGIN) {
            return;
        }
        let mut values = span::values(event, context.event_scope(event));
        let Some(plugin) = values.remove(PLUGIN) else {
            return;
        };
        let (time, level) = (jiff::Timestamp::now(), event.metadata().level());
        let mut text = format!("{time:.3} {level:>5} {values}");
        if text.len() > MAX_LINE_BYTES {
            let end = (0..=MAX_LINE_BYTES)
                .rev()
                .find(|end| text.is_char_boundary(*end))
                .unwrap_or_default();
            text.truncate(end);
            text.push('…');
        }
        self.0.add(&plugin, &text);
    }
}

#[cfg(test)]
mod tests {
    use flyball_fakes::memory::{is_alone, resident};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::logging::span::SpanLayer;

    #[test]
    fn lines_are_kept_by_plugin() {
        let recent = Recent::default();
        let (before, mut followed) = recent.follow("hello").expect("it is followed");
        assert_eq!(before, [""; 0]);
        tracing::subscriber::with_default(
            tracing_subscriber::registry()
                .with(SpanLayer)
                .with(recent.layer()),
            || {
                tracing::info!(plugin = "hello", key = "demo/web", "greeted");
                tracing::info!(plugin = %"other", "did not");
                tracing::info!("about no plugin");
                let span = tracing::error_span!("reconcile", plugin = "hello", key = "demo/web");
                span.in_scope(|| tracing::warn!("{}", "é".repeat(MAX_LINE_BYTES)));
            },
        );
        let lines = recent.lines("hello");
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].ends_with(" INFO \"greeted\" key=\"demo/web\""),
            "{}",
            lines[0]
        );
        assert!(lines[1].len() <= MAX_LINE_BYTES + 3 && lines[1].ends_with('…'));
        assert_eq!(recent.lines("other").len(), 1);
        assert_eq!(followed.try_recv().ok().as_ref(), lines.first());
    }

    #[test]
    fn the_oldest_lines_are_dropped() {
        let recent = Recent::default();
        (0..MAX_LINES + 1).for_each(|number| recent.add("hello", &number.to_string()));
        assert_eq!(
            (
                recent.lines("hello").len(),
                recent.lines("hello")[0].as_str()
            ),
            (MAX_LINES, "1")
        );
    }

    #[test]
    fn a_plugin_that_logs_much_loses_its_own_lines_first() {
        let recent = Recent::default();
        recent.add("quiet", "its only line");
        let long = "x".repeat(MAX_LINE_BYTES);
        for plugin in 0..MAX_BYTES / MAX_LINES / MAX_LINE_BYTES + 8 {
            (0..MAX_LINES).for_each(|_| recent.add(&plugin.to_string(), &long));
        }
        assert_eq!(recent.lines("quiet"), ["its only line"]);
        let all = recent.all();
        let counted: usize = all.by_name.values().map(|lines| lines.bytes).sum();
        assert_eq!(counted, all.bytes);
        assert!((MAX_BYTES - 2 * MAX_LINE_BYTES..=MAX_BYTES).contains(&all.bytes));
    }

    /// The values of a line may be many times as long as what is kept of it.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_lines_that_are_kept_take_the_memory_that_is_counted() {
        const TEST: &str =
            "logging::recent::tests::the_lines_that_are_kept_take_the_memory_that_is_counted";
        const PLUGINS: usize = 4;
        /// The memory of the process that is not of the lines, in bytes.
        const OTHER: usize = 4 << 20;
        if !is_alone(TEST) {
            return;
        }
        let (recent, long) = (Recent::default(), "x".repeat(16 << 10));
        let value = &*long;
        let before = resident();
        let layers = tracing_subscriber::registry()
            .with(SpanLayer)
            .with(recent.layer());
        tracing::subscriber::with_default(layers, || {
            for number in 0..PLUGINS * MAX_LINES {
                let plugin = (number % PLUGINS).to_string();
                tracing::info!(
                    plugin = &*plugin,
                    a = value,
                    b = value,
                    c = value,
                    "{value}"
                );
            }
        });
        let (taken, counted) = (resident().saturating_sub(before), recent.all().bytes);
        assert!(
            counted >= PLUGINS * MAX_LINES * MAX_LINE_BYTES,
            "{counted} bytes"
        );
        assert!(
            taken <= counted + counted / 2 + OTHER,
            "{taken} bytes are resident, and {counted} are counted"
        );
    }

    #[test]
    fn following_adds_no_plugin_beyond_the_maximum() {
        let recent = Recent::default();
        (1..MAX_PLUGINS).for_each(|number| recent.add(&number.to_string(), "a line"));
        let (_, idle) = recent.follow("idle").expect("it is followed");
        assert_eq!(recent.follow("another").map(drop), Err(TooManyPlugins));
        recent.add("another", "a line");
        assert_eq!(recent.lines("another"), [""; 0]);
        let (lines, _further) = recent.follow("1").expect("it is known");
        assert_eq!(lines, ["a line"]);
        // The entry of a plugin that was only followed is removed to make room.
        drop(idle);
        assert_eq!(recent.follow("another").map(drop), Ok(()));
        assert_eq!(recent.all().by_name.len(), MAX_PLUGINS);
    }

    #[test]
    fn those_who_no_longer_follow_a_silent_plugin_are_forgotten() {
        let recent = Recent::default();
        (0..10).for_each(|_| drop(recent.follow("silent")));
        let count = recent.all().by_name["silent"].followers.len();
        assert_eq!(count, 1);
    }
}
