//! The log on standard error, as text or JSON. The last lines about each plugin are kept in memory for `flyball logs`.

mod recent;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) use self::recent::Recent;
use crate::config::LogOptions;

/// Starts the log and returns its last lines. `RUST_LOG` takes precedence over the verbosity.
pub(crate) fn start(options: &LogOptions) -> Recent {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(directives(options.verbosity)));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_timer(SystemTime);
    let recent = Recent::default();
    let all = tracing_subscriber::registry()
        .with(filter)
        .with(recent.layer());
    // This fails only if a subscriber is already set, as in tests.
    let _ = if options.json {
        all.with(log.json().flatten_event(true)).try_init()
    } else {
        all.with(log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())))
            .try_init()
    };
    recent
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
