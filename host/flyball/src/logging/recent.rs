//! The last lines of the log about each plugin.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The fields by which a line says which plugin it is about.
const NAMES: [&str; 2] = ["controller", "plugin"];
/// How many lines are remembered of each plugin, and of how many plugins.
const LINES: usize = 256;
const PLUGINS: usize = 4096;
/// Bytes of a line.
const LINE: usize = 4096;
/// Lines that a reader may lag behind before it misses some.
const LAG: usize = 1024;

/// The last lines about each plugin. A clone knows the same.
#[derive(Clone, Default)]
pub(crate) struct Recent {
    plugins: Arc<Mutex<BTreeMap<String, Lines>>>,
}

#[derive(Default)]
struct Lines {
    last: VecDeque<String>,
    followers: Vec<mpsc::Sender<String>>,
}

/// What fills it.
pub(crate) struct RecentLayer(Recent);

/// A line as it is put together.
#[derive(Default)]
struct Line {
    plugin: String,
    message: String,
    fields: String,
}

impl Recent {
    /// What takes note of the log's lines.
    pub(crate) fn layer(&self) -> RecentLayer {
        RecentLayer(self.clone())
    }

    /// The last lines about a plugin, the oldest first.
    pub(crate) fn lines(&self, plugin: &str) -> Vec<String> {
        self.all()
            .get(plugin)
            .map(|lines| lines.last.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Each further line about a plugin.
    pub(crate) fn follow(&self, plugin: &str) -> mpsc::Receiver<String> {
        let (sender, lines) = mpsc::channel(LAG);
        self.all()
            .entry(plugin.to_owned())
            .or_default()
            .followers
            .push(sender);
        lines
    }

    fn add(&self, plugin: String, line: String) {
        let mut all = self.all();
        if all.len() >= PLUGINS && !all.contains_key(&plugin) {
            return;
        }
        let lines = all.entry(plugin).or_default();
        lines.followers.retain(|follower| !follower.is_closed());
        lines
            .followers
            .iter()
            .for_each(|follower| drop(follower.try_send(line.clone())));
        if lines.last.len() == LINES {
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
        if NAMES.iter().all(|name| fields.field(name).is_none()) {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let at = jiff::Timestamp::now();
        let mut text = format!(
            "{at:.3} {:>5} {}{}",
            event.metadata().level(),
            line.message,
            line.fields
        );
        if text.len() > LINE {
            let end = (0..=LINE)
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
            name if NAMES.contains(&name) => self.plugin = value.to_owned(),
            "message" => self.message = value.to_owned(),
            name => drop(write!(self.fields, " {name}={value:?}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            name if NAMES.contains(&name) => self.plugin = format!("{value:?}"),
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
    fn lines_are_found_by_the_plugin_that_they_are_about() {
        let recent = Recent::default();
        let mut followed = recent.follow("hello");
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(recent.layer()),
            || {
                tracing::info!(plugin = "hello", key = "demo/web", "greeted");
                tracing::info!(controller = %"other", "did not");
                tracing::info!("about nobody");
                tracing::warn!(controller = "hello", "{}", "é".repeat(LINE));
            },
        );
        let lines = recent.lines("hello");
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].ends_with(" INFO greeted key=\"demo/web\""),
            "{}",
            lines[0]
        );
        assert!(lines[1].len() <= LINE + 3 && lines[1].ends_with('…'));
        assert_eq!(recent.lines("other").len(), 1);
        assert_eq!(followed.try_recv().ok().as_ref(), lines.first());
    }

    #[test]
    fn the_oldest_lines_are_forgotten() {
        let recent = Recent::default();
        (0..LINES + 1).for_each(|number| recent.add("hello".into(), number.to_string()));
        assert_eq!(
            (
                recent.lines("hello").len(),
                recent.lines("hello")[0].as_str()
            ),
            (LINES, "1")
        );
    }
}
