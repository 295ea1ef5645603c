//! The log on standard error, as text or JSON. The last lines about each plugin are kept in memory for `flyball logs`.
//! `logging/line.rs` writes the lines of both.

mod line;
mod recent;

use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use self::line::{Format, SpanFields};
pub(crate) use self::recent::Recent;
use crate::config::LogOptions;

/// Starts the log and returns its last lines. `RUST_LOG` takes precedence over the verbosity.
pub(crate) fn start(options: &LogOptions) -> Recent {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(directives(options.verbosity)));
    let recent = Recent::default();
    let format = match options.json {
        true => Format::Json,
        false => Format::Text,
    };
    let is_colored = !options.json && std::io::stderr().is_terminal();
    // This fails only if a subscriber is already set, as in tests.
    let _ = tracing_subscriber::registry()
        .with(filter)
        .with(recent.layer())
        .with(layer(format, is_colored, std::io::stderr))
        .try_init();
    recent
}

fn layer<S, W>(format: Format, is_colored: bool, writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    tracing_subscriber::fmt::layer()
        .event_format(format)
        .fmt_fields(SpanFields)
        .with_ansi(is_colored)
        .with_writer(writer)
}

/// Returns the filter for one of klog's verbosities: what operators need at 0, more from Flyball at 4 and 6, and more
/// from its dependencies at 8.
fn directives(verbosity: i64) -> String {
    let (all, ours) = match verbosity {
        ..=3 => ("warn", "info"),
        4..=5 => ("info", "debug"),
        6..=7 => ("info", "trace"),
        8..=9 => ("debug", "trace"),
        10.. => ("trace", "trace"),
    };
    let crates = [
        "flyball",
        "flyball_cache",
        "flyball_manager",
        "flyball_plugin",
        "flyball_serving",
        "flyball_workqueue",
    ];
    crates.iter().fold(all.to_owned(), |directives, name| {
        format!("{directives},{name}={ours}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verbosity_is_a_valid_filter() {
        for verbosity in -1..12 {
            assert!(EnvFilter::try_new(directives(verbosity)).is_ok());
        }
        assert!(directives(4).contains("flyball_cache=debug"));
    }
}
