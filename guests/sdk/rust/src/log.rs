//! The host's log: `info!(host, "created {count} pods")`. The host adds the plugin's name and the
//! key.

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Trace,
    /// Details for debugging.
    Debug,
    /// Normal operations.
    Info,
    /// Problems that the controller handles.
    Warn,
    /// Failures.
    Error,
}

/// Logs a message of this level: `log!(host, Level::Info, "…", …)`. The text is only formatted if
/// the level is enabled.
#[macro_export]
macro_rules! log {
    ($host:expr, $level:expr, $($text:tt)+) => {
        if $host.imports().log_enabled($level) {
            $host.imports().log_write($level, &format!($($text)+), &[]);
        }
    };
}

/// Logs details for debugging.
#[macro_export]
macro_rules! debug { ($host:expr, $($text:tt)+) => { $crate::log!($host, $crate::log::Level::Debug, $($text)+) }; }

/// Logs a normal operation.
#[macro_export]
macro_rules! info { ($host:expr, $($text:tt)+) => { $crate::log!($host, $crate::log::Level::Info, $($text)+) }; }

/// Logs a problem that the controller handles.
#[macro_export]
macro_rules! warning { ($host:expr, $($text:tt)+) => { $crate::log!($host, $crate::log::Level::Warn, $($text)+) }; }

/// Logs a failure.
#[macro_export]
macro_rules! error { ($host:expr, $($text:tt)+) => { $crate::log!($host, $crate::log::Level::Error, $($text)+) }; }
