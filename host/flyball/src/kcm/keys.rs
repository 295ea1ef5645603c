//! What flags of kube-controller-manager name private keys for: the host loads them and signs for guests, which never see
//! them.

use anyhow::Context;
use flyball_manager::Signer;

use crate::config::RunConfig;

/// The key that signs tokens of service accounts.
const SERVICE_ACCOUNT: &str = "service-account";

/// The keys of the files that flags name.
///
/// # Errors
/// A file can't be read, or holds no key that can sign.
pub(crate) fn keys(config: &RunConfig) -> anyhow::Result<Signer> {
    let mut signer = Signer::default();
    if let Some(file) = &config.service_account_key_file {
        let flag = || format!("--service-account-private-key-file={}", file.display());
        let pem = std::fs::read(file)
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
    fn the_key_of_the_flag_signs_for_service_accounts() {
        assert_eq!(format!("{:?}", read(&[]).unwrap()), "{}");
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../manager/testdata/keys/p256.pem"
        );
        let signer = read(&[&format!("--service-account-private-key-file={file}")]).unwrap();
        assert_eq!(format!("{signer:?}"), r#"{"service-account"}"#);
    }

    #[test]
    fn a_file_that_is_of_no_use_is_named_with_the_reason() {
        let said = |file: &str| {
            let error = read(&[&format!("--service-account-private-key-file={file}")]).unwrap_err();
            format!("{error:#}")
        };
        assert!(said("/nowhere").starts_with(
            "--service-account-private-key-file=/nowhere: can't read it: No such file"
        ));
        let public = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../manager/testdata/keys/rsa-public.pem"
        );
        assert!(said(public).ends_with("rsa-public.pem: it holds no RSA or EC private key"));
    }
}
