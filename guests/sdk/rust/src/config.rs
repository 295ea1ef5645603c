//! Typed values of the operator's configuration.

use std::ops::RangeBounds;
use std::str::FromStr;
use std::time::Duration;

use crate::error::Error;
use crate::host::Host;

impl Host<'_> {
    /// The duration in a configuration key, such as `1m30s`; `default` if the key has no value.
    ///
    /// # Errors
    /// The value is not a duration. The error is terminal.
    pub fn config_duration(&self, key: &str, default: Duration) -> Result<Duration, Error> {
        let Some(text) = self.config(key) else {
            return Ok(default);
        };
        flyball_types::duration::parse(&text).map_err(|_| Error::invalid_config(key, &text))
    }

    /// The number in a configuration key; `default` if the key has no value.
    ///
    /// # Errors
    /// The value is not a number, or is outside the range. The error is terminal.
    pub fn config_number<T: FromStr + PartialOrd>(
        &self,
        key: &str,
        default: T,
        range: impl RangeBounds<T>,
    ) -> Result<T, Error> {
        let Some(text) = self.config(key) else {
            return Ok(default);
        };
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| Error::invalid_config(key, &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cluster;

    #[test]
    fn a_value_is_parsed_and_a_missing_one_is_the_default() {
        let cluster = Cluster::new();
        let host = cluster.host();
        let minute = Duration::from_secs(60);
        assert_eq!(host.config_duration("period", minute).unwrap(), minute);
        assert_eq!(host.config_number("most", 7, 1..).unwrap(), 7);
        cluster.set_config("period", "1m30s");
        cluster.set_config("most", "1");
        assert_eq!(
            host.config_duration("period", minute).unwrap(),
            Duration::from_secs(90)
        );
        assert_eq!(host.config_number("most", 7, 1..).unwrap(), 1);
    }

    #[test]
    fn an_invalid_value_is_a_terminal_error_that_names_the_key_and_the_value() {
        let cluster = Cluster::new();
        for text in ["0", "-1", "1001", "many", ""] {
            cluster.set_config("most", text);
            let error = cluster.host().config_number("most", 7, 1..=1000);
            let error = error.unwrap_err();
            assert!(error.is_terminal(), "{text}");
            let expected = format!("invalid value of setting most: `{text}`");
            assert_eq!(error.to_string(), expected);
        }
        cluster.set_config("period", "soon");
        let error = cluster.host().config_duration("period", Duration::ZERO);
        assert!(error.unwrap_err().is_terminal());
    }
}
