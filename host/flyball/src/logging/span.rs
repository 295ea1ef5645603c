//! The fields of spans. A line shows the fields of the project's spans around it as if they were its own, such as the
//! plugin, the queue, the key and the attempt of a reconcile. Spans of dependencies are named in the field `spans`.
//!
//! For a span that no filter enables, nothing here runs. The values of a span are quoted only when a line shows them.

use tracing::span::{Attributes, Record};
use tracing::{Event, Id, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::values::{Value, Values};

/// The layer that keeps the fields of each span.
pub(super) struct SpanLayer;

/// Writes nothing for a span, because [`SpanLayer`] keeps its fields.
pub(super) struct NoSpanFields;

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut values = Values::default();
            attributes.record(&mut values);
            span.extensions_mut().insert(values);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(values) = span.extensions_mut().get_mut::<Values>()
        {
            record.record(values);
        }
    }
}

impl<'w> FormatFields<'w> for NoSpanFields {
    fn format_fields<R: RecordFields>(&self, _: Writer<'w>, _: R) -> std::fmt::Result {
        Ok(())
    }
}

/// Returns the message and the fields of an event, and the fields of the spans around it.
pub(super) fn values<S>(event: &Event<'_>, around: Option<Scope<'_, S>>) -> Values
where
    S: for<'a> LookupSpan<'a>,
{
    let mut values = Values::default();
    event.record(&mut values);
    add_fields(&mut values, around);
    values
}

/// Adds the fields of the spans around a line to the line's own. Of fields with the same name, the innermost one stays.
fn add_fields<'a, S>(values: &mut Values, around: Option<Scope<'a, S>>)
where
    S: for<'s> LookupSpan<'s>,
{
    let (mut fields, mut others) = (Vec::new(), Vec::new());
    for span in around.into_iter().flatten() {
        let extensions = span.extensions();
        let Some(own) = extensions.get::<Values>() else {
            continue;
        };
        if !is_of_project(span.metadata().target()) {
            others.push(format!("{}{}", span.name(), own.fields_text()));
            continue;
        }
        let mut at = 0;
        for (name, value) in &own.fields {
            let is_known = |known: &[(&str, Value)]| known.iter().any(|(known, _)| known == name);
            if !is_known(&values.fields) && !is_known(&fields) {
                // The outermost span comes first.
                fields.insert(at, (*name, value.clone()));
                at += 1;
            }
        }
    }
    values.prepend(fields);
    if !others.is_empty() {
        others.reverse();
        values.push("spans", Value::text(&others.join(" > ")));
    }
}

/// Whether one of the project's spans around a line has a field of this name.
pub(super) fn has_field<S>(around: Option<Scope<'_, S>>, name: &str) -> bool
where
    S: for<'s> LookupSpan<'s>,
{
    let mut metadata = around.into_iter().flatten().map(|span| span.metadata());
    metadata.any(|span| is_of_project(span.target()) && span.fields().field(name).is_some())
}

/// Whether a target belongs to one of the project's crates.
fn is_of_project(target: &str) -> bool {
    target.starts_with("flyball")
}

#[cfg(test)]
mod tests {
    use flyball_runtime::telemetry::{call_span, reconcile_span};
    use serde_json::Value;
    use tracing::level_filters::LevelFilter;

    use crate::logging::formatter::Format;
    use crate::logging::formatter::tests::logged_at;

    /// Returns the lines of a reconcile, each as text without its time, level and module, and as JSON.
    fn lines(log: impl Fn()) -> Vec<(String, Value)> {
        let in_reconcile = || reconcile_span("web", "pods", "demo/\"web\"", 3).in_scope(&log);
        let text = logged_at(LevelFilter::INFO, Format::Text, in_reconcile);
        let json = logged_at(LevelFilter::INFO, Format::Json, in_reconcile);
        let text = text.lines().map(|line| {
            let (_, line) = line.split_once(": ").expect("a module");
            line.to_owned()
        });
        let json = json
            .lines()
            .map(|line| serde_json::from_str(line).expect("an object"));
        text.zip(json).collect()
    }

    #[test]
    fn a_line_of_a_reconcile_has_the_plugin_the_queue_the_key_and_the_attempt_once() {
        let lines = lines(|| {
            tracing::info!(target: "flyball::guest", "said");
            tracing::warn!(plugin = "other", count = 1, "has a field of its own");
        });
        let of_span = r#"queue="pods" key="demo/\"web\"" attempt=3"#;
        let (text, json) = &lines[0];
        assert_eq!(text, &format!(r#""said" plugin="web" {of_span}"#));
        let fields =
            |json: &Value| ["plugin", "queue", "key", "attempt"].map(|name| json[name].to_string());
        let rest = [r#""pods""#, r#""demo/\"web\"""#, "3"];
        assert_eq!(fields(json)[0], r#""web""#);
        assert_eq!(fields(json)[1..], rest);
        let (text, json) = &lines[1];
        let own = r#""has a field of its own""#;
        assert_eq!(text, &format!(r#"{own} {of_span} plugin="other" count=1"#));
        assert_eq!(fields(json)[0], r#""other""#);
        assert_eq!(fields(json)[1..], rest);
    }

    #[test]
    fn spans_of_dependencies_are_named_with_their_fields() {
        let lines = lines(|| {
            let connection = tracing::info_span!(target: "h2::client", "connection", peer = "a");
            let _connection = connection.enter();
            let stream = tracing::info_span!(target: "h2::proto", "stream", id = 1);
            stream.in_scope(|| tracing::info!("sent"));
        });
        let (text, json) = &lines[0];
        let spans = r#"connection peer="a" > stream id=1"#;
        assert_eq!(json["spans"], spans);
        assert!(text.starts_with(r#""sent" plugin="web""#), "{text}");
    }

    #[test]
    fn a_field_that_is_recorded_later_is_shown() {
        let lines = lines(|| {
            let span = tracing::info_span!("write", status = tracing::field::Empty);
            span.in_scope(|| {
                span.record("status", 409);
                tracing::warn!("refused");
            });
        });
        assert_eq!(lines[0].1["status"], 409);
    }

    #[test]
    fn a_span_that_no_line_can_be_in_is_disabled() {
        logged_at(LevelFilter::OFF, Format::Text, || {
            assert!(reconcile_span("web", "pods", "demo/web", 0).is_disabled());
            assert!(call_span("web", "route").is_disabled());
        });
        for level in [LevelFilter::ERROR, LevelFilter::WARN, LevelFilter::TRACE] {
            logged_at(level, Format::Text, || {
                assert!(!reconcile_span("web", "pods", "demo/web", 0).is_disabled());
            });
        }
    }
}
