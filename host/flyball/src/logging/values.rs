//! The messages and fields of lines of the log, as they were logged.

use std::borrow::Cow;
use std::fmt::{self, Debug};

use flyball_types::{error_chain, quoted};
use tracing::field::{Field, Visit};

/// Bytes of a message, and of each value, that a line shows.
const MAX_TEXT: usize = 16 * 1024;

/// The message and the fields of an event, or the fields of a span.
#[derive(Clone, Default)]
pub(super) struct Values {
    pub(super) message: String,
    pub(super) fields: Vec<(&'static str, Value)>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Value {
    /// Is written in quotes.
    Text(String),
    /// A number or a boolean, as it is written.
    Plain(String),
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
