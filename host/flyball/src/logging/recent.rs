//! The last lines of the log about each plugin.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The fields that name the plugin that a line is about.
const PLUGIN_FIELDS: [&str; 2] = ["controller", "plugin"];
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
    plugins: Arc<Mutex<BTreeMap<String, Lines>>>,
}

#[derive(Default)]
struct Lines {
    last: VecDeque<String>,
    followers: Vec<mpsc::Sender<String>>,
}

/// The layer that adds the log's lines to [`Recent`].
pub(crate) struct RecentLayer(Recent);

/// The parts of a line, collected from the fields of an event.
#[derive(Default)]
struct Line {
    plugin: String,
    message: String,
    fields: String,
}

impl Recent {
    /// Returns the layer that adds the log's lines.
    pub(crate) fn layer(&self) -> RecentLayer {
        RecentLayer(self.clone())
    }

    /// Returns the last lines about a plugin, the oldest first.
    pub(crate) fn lines(&self, plugin: &str) -> Vec<String> {
        self.all()
            .get(plugin)
            .map(|lines| lines.last.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Returns a channel that receives each further line about a plugin.
    pub(crate) fn follow(&self, plugin: &str) -> mpsc::Receiver<String> {
        let (sender, lines) = mpsc::channel(MAX_LAG);
        self.all()
            .entry(plugin.to_owned())
            .or_default()
            .followers
            .push(sender);
        lines
    }

    fn add(&self, plugin: String, line: String) {
        let mut all = self.all();
        if all.len() >= MAX_PLUGINS && !all.contains_key(&plugin) {
            return;
        }
        let lines = all.entry(plugin).or_default();
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

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Lines>> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Subscriber> Layer<S> for RecentLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let fields = event.metadata().fields();
        if PLUGIN_FIELDS
            .iter()
            .all(|name| fields.field(name).is_none())
        {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let time = jiff::Timestamp::now();
        let mut text = format!(
            "{time:.3} {:>5} {}{}",
            event.metadata().level(),
            line.message,
            line.fields
        );
        if text.len() > MAX_LINE_BYTES {
            let end = (0..=MAX_LINE_BYTES)
                .rev()
                .find(|end| text.is_char_boundary(*end))
                .unwrap_or_default();
            text.truncate(end);
            text.push('…');
        }
        self.0.add(line.plugin, text);
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            name if PLUGIN_FIELDS.contains(&name) => self.plugin = value.to_owned(),
            "message" => self.message = value.to_owned(),
            name => drop(write!(self.fields, " {name}={value:?}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            name if PLUGIN_FIELDS.contains(&name) => self.plugin = format!("{value:?}"),
            "message" => self.message = format!("{value:?}"),
            name => drop(write!(self.fields, " {name}={value:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn lines_are_kept_by_plugin() {
        let recent = Recent::default();
        let mut followed = recent.follow("hello");
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(recent.layer()),
            || {
                tracing::info!(plugin = "hello", key = "demo/web", "greeted");
                tracing::info!(controller = %"other", "did not");
                tracing::info!("about no plugin");
                tracing::warn!(controller = "hello", "{}", "é".repeat(MAX_LINE_BYTES));
            },
        );
        let lines = recent.lines("hello");
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].ends_with(" INFO greeted key=\"demo/web\""),
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
        (0..MAX_LINES + 1).for_each(|number| recent.add("hello".into(), number.to_string()));
        assert_eq!(
            (
                recent.lines("hello").len(),
                recent.lines("hello")[0].as_str()
            ),
            (MAX_LINES, "1")
        );
    }
}
