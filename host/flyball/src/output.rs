//! The output formats of the commands.

use clap::ValueEnum;

/// Output format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    #[default]
    Text,
    /// JSON, for scripts
    Json,
}
