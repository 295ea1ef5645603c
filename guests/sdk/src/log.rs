//! The host's log: `info!(host, "created {count} pods")`. The host adds the plugin's name and the
//! key.

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Trace,
    /// For whoever looks for a fault.
    Debug,
    /// What was done.
    Info,
    /// What should not be, but is coped with.
    Warn,
    /// What failed.
    Error,
}

/// Writes a line of this level: `log!(host, Level::Info, "…", …)`. The text is only made if the
/// host keeps it.
#[macro_export]
macro_rules! log {
    ($host:expr, $level:expr, $($text:tt)+) => {
        if $host.imports().log_enabled($level) {
            $host.imports().log_write($level, &format!($($text)+), &[]);
        }
    };
}

/// Writes a line for whoever looks for a fault.
#[macro_export]
macro_rules! debug { ($host:expr, $($text:tt)+) => { $crate::log!($host, $crate::log::Level::Debug, $($text)+) }; }

/// Writes a line about what was done.
#[macro_export]
macro_rules! info { ($host:expr, $($text:tt)+) => { $crate::log!($host, $crate::log::Level::Info, $($text)+) }; }

/// Writes a line about what should not be.
#[macro_export]
macro_rules! warning { ($host:expr, $($text:tt)+) => { $crate::log!($host, $crate::log::Level::Warn, $($text)+) }; }

/// Writes a line about what failed.
#[macro_export]
macro_rules! error { ($host:expr, $($text:tt)+) => { $crate::log!($host, $crate::log::Level::Error, $($text)+) }; }
