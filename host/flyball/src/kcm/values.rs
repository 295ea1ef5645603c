//! What flags of kube-controller-manager tell single controllers, as values of their configuration. `--plugin-config` wins
//! over them.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};

use crate::builtins::TOKENS;
use crate::config::RunConfig;

const ROOT_CA_PUBLISHER: &str = "root-ca-certificate-publisher-controller";
const TOKEN_CLEANER: &str = "legacy-serviceaccount-token-cleaner-controller";

/// The operator's values, and those that follow from flags and from the cluster's connection.
///
/// # Errors
/// A file that a flag names can't be read, or holds no certificate.
pub(crate) fn values(
    config: &RunConfig,
    cluster: &kube::Config,
) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
    let clean_up = config.token_clean_up_period.as_millis();
    let root_ca = root_ca(config, cluster)?;
    let from_flags = [
        (ROOT_CA_PUBLISHER, "root-ca", root_ca.clone()),
        (TOKENS, "root-ca", root_ca),
        (TOKEN_CLEANER, "clean-up-period", format!("{clean_up}ms")),
    ];
    let mut values = config.plugin_config.clone();
    for (controller, key, value) in from_flags {
        values
            .entry(controller.to_owned())
            .or_default()
            .entry(key.to_owned())
            .or_insert(value);
    }
    Ok(values)
}

/// The bundle by which pods trust the API server: `--root-ca-file`, else what this process trusts it by. Empty if it trusts
/// whatever answers.
fn root_ca(config: &RunConfig, cluster: &kube::Config) -> anyhow::Result<String> {
    let Some(file) = &config.root_ca_file else {
        let certificates = cluster
            .root_cert
            .iter()
            .flatten()
            .map(|der| pem::Pem::new("CERTIFICATE", der.as_slice()));
        let as_files_are = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        return Ok(pem::encode_many_config(
            &certificates.collect::<Vec<_>>(),
            as_files_are,
        ));
    };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("--root-ca-file={}: can't read it", file.display()))?;
    let parsed = pem::parse_many(&text)
        .with_context(|| format!("--root-ca-file={} is no PEM", file.display()))?;
    let holds_one = parsed.iter().any(|part| part.tag() == "CERTIFICATE");
    ensure!(
        holds_one,
        "--root-ca-file={} holds no certificate",
        file.display()
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse_run;

    /// Some bytes stand for a certificate: nothing here looks into it.
    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";

    fn read(args: &[&str]) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
        let config = RunConfig::read(&parse_run(args).expect("it parses")).expect("it is accepted");
        let mut cluster = kube::Config::new("https://127.0.0.1".parse().expect("it is an URL"));
        cluster.root_cert = Some(vec![vec![1, 2, 3]]);
        values(&config, &cluster)
    }

    #[test]
    fn pods_get_the_bundle_that_is_given_else_that_of_the_connection() {
        let of_connection = read(&[]).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("of the file\n{PEM}")).unwrap();
        let given = read(&[&format!("--root-ca-file={}", file.path().display())]).unwrap();
        for controller in [ROOT_CA_PUBLISHER, TOKENS] {
            assert_eq!(of_connection[controller]["root-ca"], PEM);
            assert_eq!(given[controller]["root-ca"], format!("of the file\n{PEM}"));
        }
    }

    #[test]
    fn a_bundle_without_a_certificate_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let flag = format!("--root-ca-file={}", file.path().display());
        assert!(
            read(&[&flag])
                .unwrap_err()
                .to_string()
                .ends_with("holds no certificate")
        );
        assert!(
            read(&["--root-ca-file=/nowhere"])
                .unwrap_err()
                .to_string()
                .contains("can't read")
        );
    }

    #[test]
    fn a_value_that_is_given_wins_over_a_flags() {
        let flag = "--legacy-service-account-token-clean-up-period=1h30m";
        assert_eq!(
            read(&[flag]).unwrap()[TOKEN_CLEANER]["clean-up-period"],
            "5400000ms"
        );
        let value = format!("--plugin-config={TOKEN_CLEANER}.clean-up-period=1s");
        assert_eq!(
            read(&[flag, &value]).unwrap()[TOKEN_CLEANER]["clean-up-period"],
            "1s"
        );
    }
}
