//! The values of the parsed flags, by type.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use flyball_controllers::flag;
use flyball_types::duration;

/// An invalid value of a flag.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}={value}: {reason}")]
pub(crate) struct ConfigError {
    pub(super) flag: &'static str,
    pub(super) value: String,
    pub(super) reason: String,
}

/// The parsed flags. The syntax of their values is already checked.
pub(super) struct Flags<'a>(pub(super) &'a ArgMatches);

impl Flags<'_> {
    pub(super) fn raw(&self, name: &str) -> Option<&str> {
        self.0.get_one::<String>(name).map(String::as_str)
    }

    pub(super) fn is_given(&self, name: &str) -> bool {
        self.0.value_source(name) == Some(ValueSource::CommandLine)
    }

    /// None if the value is empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.raw(name)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    pub(super) fn bool(&self, name: &str) -> bool {
        self.raw(name)
            .is_some_and(|text| flag::bool(text) == Ok(true))
    }

    pub(super) fn int(&self, name: &str) -> i64 {
        self.raw(name)
            .and_then(|text| flag::int(text, i64::MIN, i64::MAX).ok())
            .unwrap_or_default()
    }

    pub(super) fn float(&self, name: &str) -> f64 {
        self.raw(name)
            .and_then(|text| flag::float(text).ok())
            .unwrap_or_default()
    }

    /// Fails if the duration is negative.
    pub(super) fn duration(&self, name: &'static str) -> Result<Duration, ConfigError> {
        self.raw(name)
            .map_or(Ok(Duration::ZERO), duration::parse)
            .map_err(|error| self.error(name, error.to_string()))
    }

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let uses = self.0.get_many::<String>(name).into_iter().flatten();
        uses.flat_map(|text| flag::list(text).unwrap_or_default())
            .collect()
    }

    pub(super) fn at_least(&self, name: &'static str, min: u32) -> Result<u32, ConfigError> {
        let value = self.int(name);
        let number = u32::try_from(value).ok().filter(|number| *number >= min);
        number.ok_or_else(|| self.error(name, format!("it must be at least {min}")))
    }

    pub(super) fn error(&self, flag: &'static str, reason: impl Into<String>) -> ConfigError {
        ConfigError {
            flag,
            value: self.raw(flag).unwrap_or_default().to_owned(),
            reason: reason.into(),
        }
    }
}
