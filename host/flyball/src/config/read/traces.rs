//! The flag of traces.

use flyball_traces::TracingOptions;

use super::flags::{ConfigError, Flags};

impl Flags<'_> {
    /// The export of traces; none without the flag, or if no trace is recorded.
    pub(super) fn tracing(&self) -> Result<Option<TracingOptions>, ConfigError> {
        let flag = "tracing-config-file";
        let Some(path) = self.path(flag) else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(&path)
            .map_err(|error| self.error(flag, format!("can't read it: {error}")))?;
        let options =
            TracingOptions::parse(&text).map_err(|error| self.error(flag, error.to_string()))?;
        Ok(Some(options).filter(|options| options.sampling_rate_per_million > 0))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::RunConfig;
    use crate::flags::parse;

    /// The endpoint of a configuration with this rate; none if there are no traces.
    fn endpoint(rate: &str) -> Result<Option<String>, String> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: otel:4317\n{rate}"
        );
        std::fs::write(file.path(), text).expect("the file is written");
        let flag = format!("--tracing-config-file={}", file.path().display());
        let config = RunConfig::read(&parse(&[&flag]).expect("it parses"));
        let config = config.map_err(|error| error.to_string())?;
        Ok(config.tracing.map(|tracing| tracing.endpoint))
    }

    #[test]
    fn there_are_traces_only_if_a_configuration_asks_for_them() {
        let none = RunConfig::read(&parse(&[]).expect("it parses")).expect("valid flags");
        assert_eq!(none.tracing, None);
        assert_eq!(endpoint("samplingRatePerMillion: 0"), Ok(None));
        let some = endpoint("samplingRatePerMillion: 1");
        assert_eq!(some, Ok(Some("otel:4317".to_owned())));
    }

    #[test]
    fn an_error_names_the_flag_and_what_to_change() {
        let error = endpoint("").expect_err("there is no rate");
        assert!(
            error.contains("--tracing-config-file") && error.contains("samplingRatePerMillion"),
            "{error}"
        );
    }
}
