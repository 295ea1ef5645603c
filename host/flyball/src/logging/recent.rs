//! The last lines of the log about each plugin.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::line::{PLUGIN, Values};
use super::span;

/// Lines that are kept of each plugin.
const MAX_LINES: usize = 256;
/// Plugins whose lines are kept; lines about further plugins are dropped.
const MAX_PLUGINS: usize = 4096;
/// Maximum length of a line in bytes; longer lines are truncated.
const MAX_LINE_BYTES: usize = 4096;
/// Lines that a follower may lag behind before it misses some.
const MAX_LAG: usize = 1024;

/// The last lines about each plugin. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Recent {
    plugins: Arc<Mutex<Plugins>>,
}

#[derive(Default)]
struct Plugins(BTreeMap<String, Lines>);

#[derive(Default)]
struct Lines {
    last: VecDeque<String>,
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
            .0
            .get(plugin)
            .map(|lines| lines.last.iter().cloned().collect())
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
        Ok((lines.last.iter().cloned().collect(), further))
    }

    fn add(&self, plugin: &str, line: String) {
        let mut all = self.all();
        let Some(lines) = all.of(plugin) else {
            return;
        };
        lines.followers.retain(|follower| !follower.is_closed());
        lines
            .followers
            .iter()
            .for_each(|follower| drop(follower.try_send(line.clone())));
        if lines.last.len() == MAX_LINES {
            lines.last.pop_front();
        }
        lines.last.push_back(line);
    }

    fn all(&self) -> MutexGuard<'_, Plugins> {
        self.plugins.lock()
    }
}

impl Plugins {
    /// Returns the lines of a plugin; none if there are too many plugins and this is a new one.
    fn of(&mut self, plugin: &str) -> Option<&mut Lines> {
        if !self.0.contains_key(plugin) {
            if self.0.len() >= MAX_PLUGINS {
                // Drops plugins that were only followed and have no lines.
                self.0.retain(|_, lines| !lines.is_unused());
            }
            if self.0.len() >= MAX_PLUGINS {
                return None;
            }
        }
        Some(self.0.entry(plugin.to_owned()).or_default())
    }
}

impl Lines {
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
        let mut values = Values::of(event, context.event_scope(event));
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
        self.0.add(&plugin, text);
    }
}

#[cfg(test)]
mod tests {
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
        (0..MAX_LINES + 1).for_each(|number| recent.add("hello", number.to_string()));
        assert_eq!(
            (
                recent.lines("hello").len(),
                recent.lines("hello")[0].as_str()
            ),
            (MAX_LINES, "1")
        );
    }

    #[test]
    fn following_adds_no_plugin_beyond_the_maximum() {
        let recent = Recent::default();
        (1..MAX_PLUGINS).for_each(|number| recent.add(&number.to_string(), "a line".to_owned()));
        let (_, idle) = recent.follow("idle").expect("it is followed");
        assert_eq!(recent.follow("another").map(drop), Err(TooManyPlugins));
        recent.add("another", "a line".to_owned());
        assert_eq!(recent.lines("another"), [""; 0]);
        let (lines, _further) = recent.follow("1").expect("it is known");
        assert_eq!(lines, ["a line"]);
        // The entry of a plugin that was only followed is removed to make room.
        drop(idle);
        assert_eq!(recent.follow("another").map(drop), Ok(()));
        assert_eq!(recent.all().0.len(), MAX_PLUGINS);
    }

    #[test]
    fn those_who_no_longer_follow_a_silent_plugin_are_forgotten() {
        let recent = Recent::default();
        (0..10).for_each(|_| drop(recent.follow("silent")));
        let count = recent.all().0["silent"].followers.len();
        assert_eq!(count, 1);
    }
}
