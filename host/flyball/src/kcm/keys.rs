//! The private keys that kube-controller-manager's flags name. The host loads them and signs for guests; guests never
//! see the keys.

use anyhow::Context;
use flyball_manager::Signer;

use crate::config::RunConfig;

/// Name of the key that signs tokens of service accounts.
const SERVICE_ACCOUNT: &str = "service-account";

/// Maximum size of a key's file, in bytes.
const MAX_KEY: usize = 64 * 1024;

/// Loads the keys from the files that flags name.
///
/// # Errors
/// Fails if a file can't be read or contains no key that can sign.
pub(crate) fn keys(config: &RunConfig) -> anyhow::Result<Signer> {
    let mut signer = Signer::default();
    if let Some(file) = &config.service_account_key_file {
        let flag = || format!("--service-account-private-key-file={}", file.display());
        let pem = flyball_files::read(file, MAX_KEY)
            .context("can't read it")
            .with_context(flag)?;
        signer.add(SERVICE_ACCOUNT, &pem).with_context(flag)?;
    }
    Ok(signer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse_run;

    fn read(args: &[&str]) -> anyhow::Result<Signer> {
        keys(&RunConfig::read(&parse_run(args).expect("it parses")).expect("it is accepted"))
    }

    #[test]
    fn the_flag_adds_the_service_account_key() {
        assert_eq!(format!("{:?}", read(&[]).unwrap()), "{}");
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../manager/testdata/keys/p256.pem"
        );
        let signer = read(&[&format!("--service-account-private-key-file={file}")]).unwrap();
        assert_eq!(format!("{signer:?}"), r#"{"service-account"}"#);
    }

    #[test]
    fn an_unusable_file_is_named_with_the_reason() {
        let error = |file: &str| {
            let error = read(&[&format!("--service-account-private-key-file={file}")]).unwrap_err();
            format!("{error:#}")
        };
        assert!(error("/nowhere").starts_with(
            "--service-account-private-key-file=/nowhere: can't read it: No such file"
        ));
        let public = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../manager/testdata/keys/rsa-public.pem"
        );
        assert!(error(public).ends_with("rsa-public.pem: it holds no RSA or EC private key"));
    }
}
