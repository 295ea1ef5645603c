//! The log on standard error, as text or JSON. The last lines about each plugin are kept in memory for `flyball logs`.
//! `logging/line.rs` has the lines of both and `logging/values.rs` their fields, `logging/span.rs` adds the fields of the
//! spans around them, `logging/filter.rs` selects them, `logging/repeats.rs` counts repeated ones, and `logging/formatter.rs` writes the
//! log.

mod filter;
mod formatter;
mod line;
mod recent;
mod repeats;
mod span;
mod values;

use std::io::IsTerminal;
use std::sync::Arc;

use flyball_serving::SetVerbosity;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

use self::filter::Filter;
pub(crate) use self::filter::{Module, modules};
use self::formatter::{Format, layer};
pub(crate) use self::recent::Recent;
use self::span::SpanLayer;

/// Format and verbosity of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogOptions {
    /// Whether lines are JSON instead of text.
    pub(crate) json: bool,
    /// klog's verbosity: 0 for operators, 4 for debugging, 6 for tracing.
    pub(crate) verbosity: i64,
    /// Files with a verbosity of their own.
    pub(crate) modules: Vec<Module>,
}

/// Starts the log. Returns its last lines, and a function that changes the verbosity. `RUST_LOG` takes precedence over
/// the verbosity until that is changed.
pub(crate) fn start(options: &LogOptions) -> (Recent, SetVerbosity) {
    let verbosity = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(directives(options.verbosity)));
    let (filter, handle) = reload::Layer::new(Filter {
        verbosity,
        modules: options.modules.clone(),
    });
    let set = move |verbosity: i32| {
        let changed =
            handle.modify(|filter| filter.verbosity = EnvFilter::new(directives(verbosity.into())));
        if let Err(error) = changed {
            tracing::warn!(%error, "can't change the verbosity of the log");
        }
    };
    let recent = Recent::default();
    let format = match options.json {
        true => Format::Json,
        false => Format::Text,
    };
    let is_colored = !options.json && std::io::stderr().is_terminal();
    // This fails only if a subscriber is already set, as in tests.
    let _ = tracing_subscriber::registry()
        .with(filter)
        .with(SpanLayer)
        .with(recent.layer())
        .with(layer(format, is_colored, std::io::stderr))
        .try_init();
    (recent, Arc::new(set))
}

/// The directive for the verifier of servers' certificates in kube's client.
const QUIET: &str = ",kube_client::client::tls::rustls_tls=error";

/// Returns the filter for one of klog's verbosities: lines that operators need at 0, more from Flyball at 4 and 6, and
/// more from its dependencies at 8.
fn directives(verbosity: i64) -> String {
    let (all, ours) = match verbosity {
        ..=3 => ("warn", "info"),
        4..=5 => ("info", "debug"),
        6..=7 => ("info", "trace"),
        8..=9 => ("debug", "trace"),
        10.. => ("trace", "trace"),
    };
    // The verifier warns of each connection whose server is not verified; `startup.rs` warns once.
    let quiet = if verbosity < 8 { QUIET } else { "" };
    // The last directive is for the targets that begin with it: all crates of the project.
    format!("{all}{quiet},flyball={ours}")
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[test]
    fn every_verbosity_is_a_valid_filter() {
        for verbosity in -1..12 {
            assert!(EnvFilter::try_new(directives(verbosity)).is_ok());
        }
        assert!(directives(4).contains("flyball=debug"));
    }

    /// Logs three lines, with these patterns of files. Returns the lines that were written.
    fn logged(patterns: &str) -> String {
        let lines = Lines::default();
        let filter = Filter {
            verbosity: EnvFilter::new(directives(4)),
            modules: modules(patterns).expect("valid patterns"),
        };
        let subscriber = tracing_subscriber::registry().with(filter).with(layer(
            Format::Text,
            false,
            lines.clone(),
        ));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "kube_client::client::tls::rustls_tls", "Server cert bypassed");
            tracing::warn!(target: "kube_client::client", "another");
            tracing::trace!(target: "flyball_cache", "traced");
        });
        String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("text")
    }

    #[test]
    fn the_warning_of_each_unverified_connection_is_not_logged() {
        let log = logged("");
        assert!(log.contains("another"), "{log}");
        assert!(
            !log.contains("bypassed") && !log.contains("traced"),
            "{log}"
        );
    }

    #[test]
    fn a_file_may_have_a_verbosity_of_its_own() {
        assert!(logged("logging=6").contains("traced"));
        assert!(!logged("another=6").contains("traced"));
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Lines {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }
}
