//! The lines of the log. Messages and values may come from plugins and from the API server, so each is quoted
//! ([`quoted`]): a parser reads exactly what was logged, and no value looks like a line, a field or a message of its
//! own.
//!
//! As text, a line is the time, the level, the module, the message and the fields, as klog writes them:
//! `2026-01-01T00:00:00.000000Z  INFO flyball_writer: "created" plugin="a" attempt=3`. As JSON, it is an object
//! with the keys of Kubernetes' components: `ts` in milliseconds since 1970, `caller`, `msg`, `v`, the fields, and
//! additionally `level` and `target`. Like in these components, an error has no `v`. Both forms quote as JSON does.

use std::borrow::Cow;
use std::fmt::{self, Debug};

use flyball_types::{error_chain, quoted};
use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::span;

/// The field that names the plugin that a line is about.
pub(super) const PLUGIN: &str = "plugin";

/// Bytes of a message, and of each value, that a line shows.
const MAX_TEXT: usize = 16 * 1024;

/// The message and the fields of an event, or the fields of a span.
#[derive(Clone, Default)]
pub(super) struct Values {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Value {
    /// Is written in quotes.
    Text(String),
    /// A number or a boolean, as it is written.
    Plain(String),
}

/// A line, up to its time.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) level: Level,
    target: &'static str,
    /// The file and the line of the source.
    caller: Option<(&'static str, u32)>,
    values: Values,
}

impl Line {
    /// Returns the line of an event, with the fields of the spans around it.
    pub(super) fn of<S>(event: &Event<'_>, spans: Option<Scope<'_, S>>) -> Self
    where
        S: for<'a> LookupSpan<'a>,
    {
        let metadata = event.metadata();
        Self {
            level: *metadata.level(),
            target: metadata.target(),
            caller: metadata.file().zip(metadata.line()),
            values: Values::of(event, spans),
        }
    }

    #[cfg(test)]
    pub(super) fn new(level: Level, target: &'static str, message: &str) -> Self {
        let values = Values {
            message: message.to_owned(),
            ..Values::default()
        };
        Self {
            level,
            target,
            caller: None,
            values,
        }
    }

    /// The message and the fields.
    #[cfg(test)]
    pub(super) fn to_text(&self) -> String {
        self.values.to_string()
    }

    pub(super) fn target(&self) -> &'static str {
        self.target
    }

    pub(super) fn message(&self) -> &str {
        &self.values.message
    }

    /// The names and the values of the fields.
    pub(super) fn fields(&self) -> &[(&'static str, Value)] {
        &self.values.fields
    }

    /// Adds a field.
    pub(super) fn push(&mut self, name: &'static str, text: &str) {
        self.values.push(name, Value::text(text));
    }

    /// Writes the line as text.
    pub(super) fn write_text(&self, writer: &mut Writer<'_>, now: Timestamp) -> fmt::Result {
        let Line {
            level,
            target,
            values,
            ..
        } = self;
        let (color, reset) = match writer.has_ansi_escapes() {
            true => (color(level), "\x1b[0m"),
            false => ("", ""),
        };
        writeln!(
            writer,
            "{now:.6} {color}{level:>5}{reset} {target}: {values}"
        )
    }

    /// Writes the line as JSON.
    pub(super) fn write_json(&self, writer: &mut Writer<'_>, now: Timestamp) -> fmt::Result {
        let Line {
            level,
            target,
            caller,
            values,
        } = self;
        let micros = now.as_microsecond();
        write!(writer, r#"{{"ts":{}.{:03}"#, micros / 1000, micros % 1000)?;
        if let Some((file, number)) = caller {
            let caller = format!("{}:{number}", short(file));
            write!(writer, r#","caller":{}"#, quoted(&caller))?;
        }
        write!(writer, r#","msg":{}"#, quoted(&values.message))?;
        if let Some(verbosity) = verbosity(*level) {
            write!(writer, r#","v":{verbosity}"#)?;
        }
        write!(writer, r#","level":"{level}""#)?;
        for (name, value) in &values.fields {
            write!(writer, ",{}:{value}", quoted(name))?;
        }
        writeln!(writer, r#","target":{}}}"#, quoted(target))
    }
}

impl Value {
    /// A text, or the beginning of one that is too long.
    pub(super) fn text(text: &str) -> Self {
        Self::Text(clipped(text).into_owned())
    }

    /// The value as it was logged.
    pub(super) fn as_text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Plain(text) => text,
        }
    }
}

impl Values {
    /// Returns the message and the fields of an event, and the fields of the spans around it.
    pub(super) fn of<S>(event: &Event<'_>, spans: Option<Scope<'_, S>>) -> Self
    where
        S: for<'a> LookupSpan<'a>,
    {
        let mut values = Self::default();
        event.record(&mut values);
        span::add_fields(&mut values, spans);
        values
    }

    pub(super) fn fields(&self) -> &[(&'static str, Value)] {
        &self.fields
    }

    /// The fields as in a line of text, each after a space.
    pub(super) fn fields_text(&self) -> String {
        let fields = self.fields.iter();
        fields
            .map(|(name, value)| format!(" {name}={value}"))
            .collect()
    }

    /// Removes a field, and returns its value as it was logged.
    pub(super) fn remove(&mut self, name: &str) -> Option<String> {
        let at = self.fields.iter().position(|(own, _)| *own == name)?;
        let (_, value) = self.fields.remove(at);
        Some(value.as_text().to_owned())
    }

    pub(super) fn push(&mut self, name: &'static str, value: Value) {
        self.fields.push((name, value));
    }

    /// Adds fields before the others.
    pub(super) fn prepend(&mut self, fields: Vec<(&'static str, Value)>) {
        self.fields.splice(..0, fields);
    }

    fn record(&mut self, field: &Field, value: Value) {
        // Fields that are named by a keyword of Rust begin with `r#`.
        self.push(field.name().trim_start_matches("r#"), value);
    }
}

/// The value as it is written, in both formats.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Plain(text) => f.write_str(text),
        }
    }
}

/// The message and the fields, as in a line of text.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", quoted(&self.message), self.fields_text())
    }
}

/// The beginning of a text that is too long.
fn clipped(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_TEXT {
        return text.into();
    }
    let (shown, hidden) = text.split_at(text.floor_char_boundary(MAX_TEXT));
    format!("{shown}… ({} more bytes)", hidden.len()).into()
}

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = clipped(value).into_owned(),
            _ => self.record(field, Value::text(value)),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_str(field, &error_chain(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record(field, Value::Plain(value.to_string()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record(field, Value::Plain(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record(field, Value::Plain(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no other numbers.
        match value.is_finite() {
            true => self.record(field, Value::Plain(value.to_string())),
            false => self.record(field, Value::Text(value.to_string())),
        }
    }
}

fn color(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

/// A file's name with the name of its folder.
fn short(file: &str) -> &str {
    let mut slashes = file.rmatch_indices('/');
    slashes.nth(1).map_or(file, |(at, _)| &file[at + 1..])
}

/// The lowest `--v` that shows lines of this level; none for errors.
fn verbosity(level: Level) -> Option<u8> {
    match level {
        Level::ERROR => None,
        Level::WARN | Level::INFO => Some(0),
        Level::DEBUG => Some(4),
        Level::TRACE => Some(6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_long_text_is_shown() {
        let text = "é".repeat(MAX_TEXT);
        let shown = clipped(&text);
        assert!(shown.len() < MAX_TEXT + 100, "{}", shown.len());
        assert!(shown.ends_with(&format!("… ({MAX_TEXT} more bytes)")));
        assert_eq!(clipped("short"), "short");
    }
}
