//! The operator's settings.

use std::time::Duration;

use flyball_sdk::prelude::*;

/// The delay of the reconciles that changes cause.
pub const BATCH_PERIOD: &str = "updates-batch-period";

/// Reads the batch period. An invalid value counts as zero in the description; [`check`] reports it.
pub fn batch_period(host: &Host) -> Duration {
    parse(host).unwrap_or_default()
}

/// Checks the batch period.
///
/// # Errors
/// The value is not a duration. The error is terminal.
pub fn check(host: &Host) -> Result<(), Error> {
    parse(host).map(drop)
}

fn parse(host: &Host) -> Result<Duration, Error> {
    host.config_duration(BATCH_PERIOD, Duration::ZERO)
}

/// Reads a maximum number of endpoints.
///
/// # Errors
/// The value is not a number from 1 to 1000. The error is terminal.
pub fn maximum(host: &Host, key: &str) -> Result<usize, Error> {
    let text = host.config(key).unwrap_or_default();
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=1000).contains(number));
    number.ok_or_else(|| Error::invalid_config(key, &text))
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::Cluster;

    use super::*;

    #[test]
    fn a_maximum_is_a_number_from_1_to_1000() {
        let cluster = Cluster::new();
        let with = |text: &str| {
            cluster.set_config("maximum", text);
            maximum(&cluster.host(), "maximum").ok()
        };
        assert_eq!(
            ["1", "1000", "0", "1001", "-1", "ten"].map(with),
            [Some(1), Some(1000), None, None, None, None]
        );
    }

    #[test]
    fn the_batch_period_is_a_duration_and_zero_by_default() {
        let cluster = Cluster::new();
        assert_eq!(batch_period(&cluster.host()), Duration::ZERO);
        cluster.set_config(BATCH_PERIOD, "1500ms");
        assert_eq!(batch_period(&cluster.host()), Duration::from_millis(1500));
        cluster.set_config(BATCH_PERIOD, "soon");
        assert_eq!(batch_period(&cluster.host()), Duration::ZERO);
        assert!(check(&cluster.host()).unwrap_err().is_terminal());
    }
}
