//! The events of `tracing`, in the host's log.

use std::fmt::{self, Write};
use std::sync::Once;

use flyball_sdk::log::Level;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Metadata, Subscriber};

use crate::current;

/// Sends the events of `tracing` to the host, unless the plugin has a subscriber of its own.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(set_global_default(HostLog)));
}

/// Writes events. Spans are left out: the host names the key in each line.
struct HostLog;

impl Subscriber for HostLog {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The host's level can change.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = level(metadata.level());
        metadata.is_event()
            && current::try_with(|host, _| host.imports().log_enabled(level)).unwrap_or_default()
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = level(event.metadata().level());
        current::try_with(|host, _| {
            let imports = host.imports();
            imports.log_write(level, &line.message, &line.fields);
        });
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn level(level: &tracing::Level) -> Level {
    match *level {
        tracing::Level::TRACE => Level::Trace,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::INFO => Level::Info,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::ERROR => Level::Error,
    }
}

/// A line of the host's log.
#[derive(Default)]
struct Line {
    message: String,
    fields: Vec<(String, String)>,
}

impl Line {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if field.name() == "message" {
            // Writing to a text can't fail.
            let _ = self.message.write_fmt(value);
        } else {
            self.fields
                .push((field.name().to_owned(), value.to_string()));
        }
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, format_args!("{value}"));
    }
}
