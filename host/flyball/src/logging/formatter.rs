//! Writes the log: each event as a line of text or of JSON.

use std::fmt;
use std::time::Instant;

use jiff::Timestamp;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use super::line::Line;
use super::repeats::Repeats;
use super::span::NoSpanFields;

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Json,
}

/// Returns the layer that writes the log. The [`SpanLayer`](super::span::SpanLayer) before it keeps the fields of spans.
pub(super) fn layer<S, W>(format: Format, is_colored: bool, writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    tracing_subscriber::fmt::layer()
        .event_format(Formatter::new(format))
        .fmt_fields(NoSpanFields)
        .with_ansi(is_colored)
        .with_writer(writer)
}

/// Writes the lines of the log, and counts repeated ones.
struct Formatter {
    format: Format,
    repeats: Repeats,
}

impl Formatter {
    fn new(format: Format) -> Self {
        let repeats = Repeats::default();
        Self { format, repeats }
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
        let line = Line::of(event, context.event_scope());
        let now = Timestamp::now();
        // Debugging needs each line.
        let lines = match LevelFilter::current() >= LevelFilter::DEBUG {
            true => vec![line],
            false => self.repeats.note(line, Instant::now()),
        };
        lines.iter().try_for_each(|line| match self.format {
            Format::Text => line.write_text(&mut writer, now),
            Format::Json => line.write_json(&mut writer, now),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use flyball_types::{error_chain, quoted};
    use proptest::prelude::*;
    use serde_json::{Deserializer, Map, Value, json};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::logging::span::SpanLayer;

    /// Texts that imitate lines and fields, end quotes, control terminals, or are invisible.
    const NASTY: &[&str] = &[
        "x\" plugin=\"y",
        "a key=value",
        " level=",
        "\\\"",
        "\\",
        "\n2026-01-01T00:00:00.000000Z ERROR flyball: \"forged\"",
        "\r\n{\"level\":\"ERROR\"}",
        "\",\"plugin\":\"y",
        "\u{1b}[2J\u{1b}]0;title\u{7}",
        "\u{9b}31m",
        "\u{202e}\u{2066}\u{200b}\u{feff}",
        "\u{2028}\u{85}\u{0}",
        "é 🦀",
    ];

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

    /// Runs a function and returns its log.
    fn logged(format: Format, log: impl FnOnce()) -> String {
        logged_at(LevelFilter::TRACE, format, log)
    }

    /// Runs a function and returns its log of this level and above.
    pub(in crate::logging) fn logged_at(
        level: LevelFilter,
        format: Format,
        log: impl FnOnce(),
    ) -> String {
        let written = Written::default();
        let writer = written.clone();
        let layer = layer(format, false, move || writer.clone());
        let subscriber = tracing_subscriber::registry()
            .with(level)
            .with(SpanLayer)
            .with(layer);
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(written.bytes().clone()).expect("UTF-8")
    }

    /// Reads a JSON value at the start of a text. Returns it, and the rest of the text.
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
        let outer = tracing::info_span!("call", key = text, count = 0);
        let _outer = outer.enter();
        let inner = tracing::info_span!(target: "h2", "stream", name = text);
        let _inner = inner.enter();
        let error = std::io::Error::other(shown.to_owned());
        tracing::warn!(plugin = text, error = %shown, cause = &error as &dyn std::error::Error,
            tried = ?debugged, count, is_last = true, share = f64::NAN, "{message}");
    }

    fn expected(message: &str, shown: &str, text: &str, debugged: &str, count: i64) -> Value {
        let spans = format!("stream name={}", quoted(text));
        json!({"message": message, "plugin": text, "key": text, "error": shown, "tried": format!("{debugged:?}"),
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
            prop_assert!(caller.starts_with("logging/formatter.rs:"), "{}", caller);
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
            tracing::info!(target: "flyball::guest", plugin = "hello", r#type = "a", attempt = 3, "said x=\"y\"");
        });
        let (_, line) = written.split_once(' ').expect("a time");
        assert_eq!(
            line,
            " INFO flyball::guest: \"said x=\\\"y\\\"\" plugin=\"hello\" type=\"a\" attempt=3\n"
        );
    }
}
