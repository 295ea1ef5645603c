//! The flags of the metrics.

use std::collections::{BTreeMap, BTreeSet};

use flyball_controllers::flag;
use flyball_serving::metrics::Restrictions;

use super::flags::{ConfigError, Flags};

/// The minor version before the current one.
const PREVIOUS: &str = "1.35";

impl Flags<'_> {
    /// Reads the flags with kube-controller-manager's checks, and with its words for errors.
    pub(super) fn metrics(&self) -> Result<Restrictions, ConfigError> {
        let version = self.raw("show-hidden-metrics-for-version");
        let version = version.filter(|version| !version.is_empty() && *version != PREVIOUS);
        if version.is_some() {
            let reason = format!(
                "must be omitted or have the value '{PREVIOUS}'; only the previous minor version is allowed"
            );
            return Err(self.error("show-hidden-metrics-for-version", reason));
        }
        let disabled = self.list("disabled-metrics");
        if let Some(name) = disabled.iter().find(|name| !is_metric(name)) {
            let reason = format!(
                "must be fully qualified metric names matching \"^[a-zA-Z_:][a-zA-Z0-9_:]*$\", got {name:?}"
            );
            return Err(self.error("disabled-metrics", reason));
        }
        let uses = self.0.get_many::<String>("allow-metric-labels");
        let given: BTreeMap<String, String> = uses
            .into_iter()
            .flatten()
            .flat_map(|text| flag::map(text).unwrap_or_default())
            .collect();
        let (name, mapping) = match self.path("allow-metric-labels-manifest") {
            Some(_) if !given.is_empty() => {
                let reason = "cannot specify both allowListMapping and allowListMappingManifest";
                return Err(self.error("allow-metric-labels-manifest", reason));
            }
            Some(path) => {
                let name = "allow-metric-labels-manifest";
                let read = std::fs::read_to_string(path).map_err(|error| {
                    self.error(name, format!("failed to read allow list manifest: {error}"))
                })?;
                let mapping = serde_saphyr::from_str(&read).map_err(|error| {
                    self.error(
                        name,
                        format!("failed to parse allow list manifest: {error}"),
                    )
                })?;
                (name, mapping)
            }
            None => ("allow-metric-labels", given),
        };
        let allowed = allowed(&mapping).map_err(|reason| self.error(name, reason))?;
        Ok(Restrictions {
            disabled: disabled.into_iter().collect(),
            allowed,
        })
    }
}

type Allowed = BTreeMap<(String, String), BTreeSet<String>>;

/// Reads pairs of `metric,label` and `value,value`.
fn allowed(mapping: &BTreeMap<String, String>) -> Result<Allowed, String> {
    let pairs = mapping.iter().map(|(key, values)| -> Result<_, String> {
        let parts = key.split_once(',');
        let parts = parts.filter(|(metric, label)| {
            is_metric(metric) && is_metric(label) && !label.contains(':')
        });
        let (metric, label) = parts.ok_or_else(|| {
            String::from(
                "must have keys with format `metricName,labelName` where metricName matches \
             \"[a-zA-Z_:][a-zA-Z0-9_:]*\" and labelName matches \"[a-zA-Z_][a-zA-Z0-9_]*\"",
            )
        })?;
        let values = values.split(',').map(str::to_owned).collect();
        Ok(((metric.to_owned(), label.to_owned()), values))
    });
    pairs.collect()
}

fn is_metric(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.chars().all(is_allowed) && name.starts_with(|c: char| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use crate::config::RunConfig;
    use crate::flags::parse;

    fn read(args: &[&str]) -> Result<RunConfig, String> {
        RunConfig::read(&parse(args).expect("they parse")).map_err(|error| error.to_string())
    }

    #[test]
    fn metrics_are_restricted_by_flags_or_by_a_manifest() {
        let manifest = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(manifest.path(), "\"a_total,code\": \"200,404\"\n").unwrap();
        let from_manifest = format!(
            "--allow-metric-labels-manifest={}",
            manifest.path().display()
        );
        let by_flag = "--allow-metric-labels=a_total,code=200,404";
        for flag in [by_flag, &from_manifest] {
            let config = read(&[flag, "--disabled-metrics=b,c:d", "--disabled-metrics=e"]).unwrap();
            let metrics = config.metrics;
            let key = ("a_total".to_owned(), "code".to_owned());
            let values = ["200", "404"].map(str::to_owned).into();
            assert_eq!(metrics.allowed, [(key, values)].into());
            assert_eq!(
                metrics.disabled,
                ["b", "c:d", "e"].map(str::to_owned).into()
            );
        }
        let both = read(&[by_flag, &from_manifest]).map(drop).unwrap_err();
        assert!(both.contains("cannot specify both"), "{both}");
    }

    #[test]
    fn invalid_values_are_refused_in_the_words_of_kubernetes() {
        for (flag, expected) in [
            (
                "--show-hidden-metrics-for-version=1.34",
                "must be omitted or have the value '1.35'",
            ),
            (
                "--disabled-metrics=a-b",
                "must be fully qualified metric names matching",
            ),
            (
                "--allow-metric-labels=a=b",
                "must have keys with format `metricName,labelName`",
            ),
            (
                "--allow-metric-labels-manifest=/no/such",
                "failed to read allow list manifest",
            ),
        ] {
            let error = read(&[flag]).map(drop).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(read(&["--show-hidden-metrics-for-version=1.35"]).is_ok());
    }
}
