//! The lines of the log. Messages and values may come from plugins and from the API server, so each is quoted
//! ([`quoted`]): a parser reads exactly what was logged, and no value looks like a line, a field or a message of its
//! own.
//!
//! As text, a line is the time, the level, the module, the message and the fields, as klog writes them:
//! `2026-01-01T00:00:00.000000Z  INFO flyball_writer: "created" plugin="a" attempt=3`. As JSON, it is an object
//! with the keys of Kubernetes' components: `ts` in milliseconds since 1970, `caller`, `msg`, `v`, the fields, and
//! additionally `level` and `target`. Like in these components, an error has no `v`. Both forms quote as JSON does.

use std::fmt;

use flyball_types::quoted;
use jiff::Timestamp;
use tracing::{Event, Level};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::span;
use super::values::{Value, Values};

/// The field that names the plugin that a line is about.
pub(super) const PLUGIN: &str = "plugin";

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
            values: span::values(event, spans),
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
