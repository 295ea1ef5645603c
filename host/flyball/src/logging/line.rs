//! The lines of the log. Messages and values may come from plugins and from the API server, so each is quoted
//! ([`quoted`]): a parser reads exactly what was logged, and no value looks like a line, a field or a message of its
//! own.
//!
//! As text, a line is the time, the level, the module, the message and the fields, as klog writes them:
//! `2026-01-01T00:00:00.000000Z  INFO flyball_writer: "created" controller="a" attempt=3`. As JSON, it is an object
//! with the keys of Kubernetes' components: `ts` in milliseconds since 1970, `caller`, `msg`, `v`, the fields, and
//! additionally `level` and `target`. Like in these components, an error has no `v`. Both forms quote as JSON does.

use std::borrow::Cow;
use std::fmt::{self, Debug, Write};
use std::time::Instant;

use flyball_types::{error_chain, quoted};
use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::repeats::Repeats;

/// Bytes of a message, and of each value, that a line shows.
const MAX_TEXT: usize = 16 * 1024;

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Json,
}

/// Writes the fields of a span as ` name=value` each.
pub(super) struct SpanFields;

/// The message and the fields of an event.
#[derive(Clone, Default)]
pub(super) struct Values {
    message: String,
    /// The values as they are written: quoted, a number or a boolean.
    fields: Vec<(&'static str, String)>,
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
    fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        Self {
            level: *metadata.level(),
            target: metadata.target(),
            caller: metadata.file().zip(metadata.line()),
            values: Values::of(event),
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
    pub(super) fn fields(&self) -> &[(&'static str, String)] {
        &self.values.fields
    }

    /// Adds a field.
    pub(super) fn push(&mut self, name: &'static str, text: &str) {
        self.values.fields.push((name, quoted(text)));
    }
}

/// Writes the lines of the log, and counts those that are repeated.
pub(super) struct Formatter {
    format: Format,
    repeats: Repeats,
}

impl Formatter {
    pub(super) fn new(format: Format) -> Self {
        let repeats = Repeats::default();
        Self { format, repeats }
    }
}

impl Values {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut values = Self::default();
        event.record(&mut values);
        values
    }

    /// Leaves out these fields.
    pub(super) fn remove(&mut self, names: &[&str]) {
        self.fields.retain(|(name, _)| !names.contains(name));
    }

    fn push(&mut self, field: &Field, value: String) {
        // Fields that are named by a keyword of Rust begin with `r#`.
        let name = field.name().trim_start_matches("r#");
        self.fields.push((name, value));
    }
}

/// The message and the fields, as in a line of text.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.message))?;
        write_fields(f, &self.fields)
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

fn write_fields(to: &mut impl Write, fields: &[(&str, String)]) -> fmt::Result {
    fields
        .iter()
        .try_for_each(|(name, value)| write!(to, " {name}={value}"))
}

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let value = &*clipped(value);
        match field.name() {
            "message" => self.message = value.to_owned(),
            _ => self.push(field, quoted(value)),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_str(field, &error_chain(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no other numbers.
        match value.is_finite() {
            true => self.push(field, value.to_string()),
            false => self.push(field, quoted(&value.to_string())),
        }
    }
}

impl<'w> FormatFields<'w> for SpanFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut values = Values::default();
        fields.record(&mut values);
        write_fields(&mut writer, &values.fields)
    }
}

impl<S, N> FormatEvent<S, N> for Formatter
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (now, mut line) = (Timestamp::now(), Line::of(event));
        let spans = spans(context);
        if !spans.is_empty() {
            line.push("spans", &spans);
        }
        // Debugging needs each line.
        let lines = match LevelFilter::current() >= LevelFilter::DEBUG {
            true => vec![line],
            false => self.repeats.note(line, Instant::now()),
        };
        lines.iter().try_for_each(|line| match self.format {
            Format::Text => write_text(&mut writer, now, line),
            Format::Json => write_json(&mut writer, now, line),
        })
    }
}

/// The spans around an event with their fields, the outermost first.
fn spans<S, N>(context: &FmtContext<'_, S, N>) -> String
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    let mut spans = Vec::new();
    for span in context.event_scope().into_iter().flatten() {
        let extensions = span.extensions();
        let fields = extensions.get::<FormattedFields<N>>();
        let fields = fields.map_or("", |fields| fields.fields.as_str());
        spans.push(format!("{}{fields}", span.name()));
    }
    spans.reverse();
    spans.join(" > ")
}

fn write_text(writer: &mut Writer<'_>, now: Timestamp, line: &Line) -> fmt::Result {
    let Line {
        level,
        target,
        values,
        ..
    } = line;
    let (color, reset) = match writer.has_ansi_escapes() {
        true => (color(level), "\x1b[0m"),
        false => ("", ""),
    };
    writeln!(
        writer,
        "{now:.6} {color}{level:>5}{reset} {target}: {values}"
    )
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

fn write_json(writer: &mut Writer<'_>, now: Timestamp, line: &Line) -> fmt::Result {
    let Line {
        level,
        target,
        caller,
        values,
    } = line;
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
    use std::io;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use proptest::prelude::*;
    use serde_json::{Deserializer, Map, Value, json};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::logging::layer;

    /// Texts that imitate lines and fields, end quotes, control terminals, or are invisible.
    const NASTY: &[&str] = &[
        "x\" controller=\"y",
        "a key=value",
        " level=",
        "\\\"",
        "\\",
        "\n2026-01-01T00:00:00.000000Z ERROR flyball: \"forged\"",
        "\r\n{\"level\":\"ERROR\"}",
        "\",\"controller\":\"y",
        "\u{1b}[2J\u{1b}]0;title\u{7}",
        "\u{9b}31m",
        "\u{202e}\u{2066}\u{200b}\u{feff}",
        "\u{2028}\u{85}\u{0}",
        "é 🦀",
    ];

    #[test]
    fn the_beginning_of_a_long_text_is_shown() {
        let text = "é".repeat(MAX_TEXT);
        let shown = clipped(&text);
        assert!(shown.len() < MAX_TEXT + 100, "{}", shown.len());
        assert!(shown.ends_with(&format!("… ({MAX_TEXT} more bytes)")));
        assert_eq!(clipped("short"), "short");
    }

    /// Texts of nasty pieces and of any characters.
    fn texts() -> impl Strategy<Value = String> {
        let nasty = prop::sample::select(NASTY).prop_map(str::to_owned);
        let any = prop::collection::vec(any::<char>(), 0..20).prop_map(String::from_iter);
        prop::collection::vec(prop_oneof![nasty, any], 0..5).prop_map(|texts| texts.concat())
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Written {
        fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.bytes().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns what is logged meanwhile.
    fn logged(format: Format, log: impl FnOnce()) -> String {
        let written = Written::default();
        let writer = written.clone();
        let layer = layer(format, false, move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(written.bytes().clone()).expect("UTF-8")
    }

    /// Reads a JSON value at the start of a text, and returns the rest of the text too.
    fn value(text: &str) -> (Value, &str) {
        let mut values = Deserializer::from_str(text).into_iter();
        let value = values.next().expect("a value").expect("JSON");
        (value, &text[values.byte_offset()..])
    }

    /// Reads a line of text without its time: the level, the module, the message, and the fields.
    fn parse(line: &str) -> (&str, &str, Value, Map<String, Value>) {
        let (_, line) = line.split_once(' ').expect("a time");
        let (level, line) = line.trim_start().split_once(' ').expect("a level");
        let (target, line) = line.split_once(": ").expect("a module");
        let (message, mut line) = value(line);
        let mut fields = Map::new();
        while let Some(rest) = line.strip_prefix(' ') {
            let (name, rest) = rest.split_once('=').expect("a name");
            let (value, rest) = value(rest);
            fields.insert(name.to_owned(), value);
            line = rest;
        }
        assert_eq!(line, "");
        (level, target, message, fields)
    }

    fn log(message: &str, shown: &str, text: &str, debugged: &str, count: i64) {
        let span = tracing::info_span!("call", key = text);
        let _entered = span.enter();
        let error = std::io::Error::other(shown.to_owned());
        tracing::warn!(controller = text, error = %shown, cause = &error as &dyn std::error::Error,
            tried = ?debugged, count, is_last = true, share = f64::NAN, "{message}");
    }

    fn expected(message: &str, shown: &str, text: &str, debugged: &str, count: i64) -> Value {
        let spans = format!("call key={}", quoted(text));
        json!({"message": message, "controller": text, "error": shown, "tried": format!("{debugged:?}"),
            "cause": error_chain(&std::io::Error::other(shown.to_owned())), "count": count,
            "is_last": true, "share": "NaN", "spans": spans})
    }

    proptest! {
        #[test]
        fn a_parser_of_the_text_reads_exactly_what_was_logged(
            (message, shown, text, debugged) in (texts(), texts(), texts(), texts()), count: i64
        ) {
            let written = logged(Format::Text, || log(&message, &shown, &text, &debugged, count));
            let line = written.strip_suffix('\n').expect("a line");
            prop_assert_eq!(flyball_types::printable(line), line);
            let (level, target, read, mut fields) = parse(line);
            prop_assert_eq!((level, target), ("WARN", module_path!()));
            fields.insert("message".to_owned(), read);
            prop_assert_eq!(Value::Object(fields), expected(&message, &shown, &text, &debugged, count));
        }

        #[test]
        fn a_parser_of_the_json_reads_exactly_what_was_logged(
            (message, shown, text, debugged) in (texts(), texts(), texts(), texts()), count: i64
        ) {
            let written = logged(Format::Json, || log(&message, &shown, &text, &debugged, count));
            let line = written.strip_suffix('\n').expect("a line");
            prop_assert_eq!(flyball_types::printable(line), line);
            let mut read: Map<String, Value> = serde_json::from_str(line).expect("an object");
            let milliseconds = read.remove("ts").and_then(|ts| ts.as_f64());
            prop_assert!(milliseconds.is_some_and(|ts| ts > 1e12));
            let caller = read.remove("caller").unwrap_or_default();
            let caller = caller.as_str().unwrap_or_default();
            prop_assert!(caller.starts_with("logging/line.rs:"), "{}", caller);
            prop_assert_eq!(read.remove("v"), Some(json!(0)));
            prop_assert_eq!(read.remove("level"), Some(json!("WARN")));
            let said = read.remove("msg").expect("a message");
            read.insert("message".to_owned(), said);
            prop_assert_eq!(read.remove("target"), Some(json!(module_path!())));
            prop_assert_eq!(Value::Object(read), expected(&message, &shown, &text, &debugged, count));
        }
    }

    #[test]
    fn an_error_has_no_verbosity_in_json_and_others_have_that_which_shows_them() {
        let written = logged(Format::Json, || {
            tracing::error!("a");
            tracing::debug!("b");
        });
        let lines: Vec<Value> = written
            .lines()
            .map(|line| serde_json::from_str(line).expect("an object"))
            .collect();
        assert_eq!(
            (&lines[0]["msg"], &lines[0]["v"]),
            (&json!("a"), &Value::Null)
        );
        assert_eq!((&lines[1]["msg"], &lines[1]["v"]), (&json!("b"), &json!(4)));
    }

    #[test]
    fn a_line_of_text_is_as_klog_writes_it() {
        let written = logged(Format::Text, || {
            tracing::info!(target: "flyball::guest", controller = "hello", r#type = "a", attempt = 3, "said x=\"y\"");
        });
        let (_, line) = written.split_once(' ').expect("a time");
        assert_eq!(
            line,
            " INFO flyball::guest: \"said x=\\\"y\\\"\" controller=\"hello\" type=\"a\" attempt=3\n"
        );
    }
}
