//! The settings of traces: a TracingConfiguration, as the components of Kubernetes read it from the file that
//! `--tracing-config-file` names.
//!
//! Upstream: staging/src/k8s.io/component-base/tracing/api/v1: TracingConfiguration, ValidateTracingConfiguration.

use serde::Deserialize;

const GROUP: &str = "apiserver.config.k8s.io";
const KIND: &str = "TracingConfiguration";
/// OTLP's own default.
const ENDPOINT: &str = "localhost:4317";
const MILLION: u32 = 1_000_000;

/// Where traces go, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingOptions {
    /// The host and port of the collector, which takes OTLP over gRPC without TLS.
    pub endpoint: String,
    /// How many of a million traces are recorded; 0 for none.
    pub sampling_rate_per_million: u32,
}

/// The text isn't a configuration that the host can use.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    #[error("it is not valid YAML of a {KIND}: {0}")]
    Syntax(String),
    #[error("it is {0}, {1}, and not {GROUP}/v1, {KIND}")]
    Kind(String, String),
    #[error(
        "samplingRatePerMillion is missing, so that no trace would begin: set it to a number from 0 to {MILLION}, which records all"
    )]
    NoRate,
    #[error("samplingRatePerMillion is {0}: it must be from 0 to {MILLION}")]
    Rate(i64),
    #[error("the endpoint {0:?} is not the host and port of a collector, such as {ENDPOINT}")]
    Endpoint(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
    api_version: String,
    kind: String,
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i64>,
}

impl TracingOptions {
    /// Reads a TracingConfiguration in YAML or JSON.
    ///
    /// # Errors
    /// It isn't one, or has no sampling rate. Kubernetes permits that where a trace begins with a client; the host's
    /// begin in the host.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        let read: Configuration = serde_saphyr::from_str(text)
            .map_err(|error| OptionsError::Syntax(error.to_string()))?;
        let version = read.api_version.strip_prefix(GROUP);
        let is_known = matches!(version, Some("/v1" | "/v1beta1" | "/v1alpha1"));
        if !is_known || read.kind != KIND {
            return Err(OptionsError::Kind(read.api_version, read.kind));
        }
        let rate = read.sampling_rate_per_million.ok_or(OptionsError::NoRate)?;
        let sampling_rate_per_million = u32::try_from(rate).ok().filter(|rate| *rate <= MILLION);
        Ok(Self {
            endpoint: endpoint(read.endpoint.as_deref().unwrap_or(ENDPOINT))?,
            sampling_rate_per_million: sampling_rate_per_million.ok_or(OptionsError::Rate(rate))?,
        })
    }

    /// The share of traces that are recorded.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.sampling_rate_per_million) / f64::from(MILLION)
    }
}

/// The host and port in an endpoint, which may be written as a name of gRPC's resolver, such as `dns:///collector:4317`.
fn endpoint(text: &str) -> Result<String, OptionsError> {
    let invalid = || OptionsError::Endpoint(text.to_owned());
    let address = match text.strip_prefix("dns://") {
        Some(name) => name.strip_prefix('/').unwrap_or(name),
        None => text,
    };
    let parsed: http::uri::Authority = address.parse().map_err(|_| invalid())?;
    let is_address = parsed.port_u16().is_some() && !address.contains('@');
    is_address.then(|| address.to_owned()).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &str) -> Result<TracingOptions, OptionsError> {
        TracingOptions::parse(&format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n{fields}"
        ))
    }

    #[test]
    fn the_configuration_of_a_kubernetes_component_is_read() {
        let expected = |endpoint: &str, sampling_rate_per_million| TracingOptions {
            endpoint: endpoint.to_owned(),
            sampling_rate_per_million,
        };
        for (fields, options) in [
            ("samplingRatePerMillion: 100", expected(ENDPOINT, 100)),
            (
                "endpoint: otel.monitoring:4317\nsamplingRatePerMillion: 1000000",
                expected("otel.monitoring:4317", MILLION),
            ),
            (
                "endpoint: dns:///otel:1\nsamplingRatePerMillion: 0",
                expected("otel:1", 0),
            ),
            (
                "endpoint: '[::1]:4317'\nsamplingRatePerMillion: 1",
                expected("[::1]:4317", 1),
            ),
        ] {
            assert_eq!(parse(fields), Ok(options), "{fields}");
        }
    }

    #[test]
    fn an_error_says_what_to_change() {
        for (fields, sentence) in [
            ("endpoint: a:1", "set it to a number from 0 to 1000000"),
            ("samplingRatePerMillion: -1", "it must be from 0 to 1000000"),
            (
                "samplingRatePerMillion: 1000001",
                "it must be from 0 to 1000000",
            ),
            (
                "samplingRatePerMillion: 1\nendpoint: https://otel:4317",
                "such as localhost:4317",
            ),
            (
                "samplingRatePerMillion: 1\nendpoint: unix:///run/otel.sock",
                "such as localhost:4317",
            ),
            (
                "samplingRatePerMillion: 1\nendpoint: otel",
                "such as localhost:4317",
            ),
            ("samplingRate: 1", "samplingRate"),
        ] {
            let error = parse(fields).expect_err(fields).to_string();
            assert!(error.contains(sentence), "{fields}: {error}");
        }
        let other = TracingOptions::parse("apiVersion: v1\nkind: ConfigMap");
        let error = other.expect_err("it is another kind").to_string();
        assert!(error.contains("v1, ConfigMap"), "{error}");
    }
}
