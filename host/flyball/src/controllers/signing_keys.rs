//! The private keys that flags name, and the authorities that sign certificates. The host loads them and signs for
//! guests; guests never see the keys.

use std::path::Path;

use anyhow::Context;
use flyball_controllers::Need;
use flyball_signer::Signer;

use super::needs::Needs;
use crate::config::{AuthorityFiles, RunConfig};

/// Name of the key that signs tokens of service accounts.
const SERVICE_ACCOUNT: &str = "service-account";

/// Maximum size of a key's file, in bytes.
const MAX_KEY: usize = 64 * 1024;

/// Loads the keys and the authorities from the files that flags name.
///
/// # Errors
/// Fails if a file that a controller needs, or one of `--certificate-authority`, can't be read or contains no key that can
/// sign, or if a certificate does not fit its key.
pub(super) fn load(config: &RunConfig, needs: &Needs) -> anyhow::Result<Signer> {
    let mut signer = Signer::default();
    let built_ins = &config.built_ins;
    if let Some(file) = &built_ins.service_account_key_file {
        needs.read(Need::ServiceAccountKey, || add_key(&mut signer, file))?;
    }
    for (name, files) in &built_ins.cluster_signing {
        needs.read(Need::ClusterSigning, || {
            add_authority(&mut signer, name, files)
        })?;
    }
    for (name, files) in &built_ins.authorities {
        add_authority(&mut signer, name, files)?;
    }
    Ok(signer)
}

fn add_key(signer: &mut Signer, file: &Path) -> anyhow::Result<()> {
    let flag = || format!("--service-account-private-key-file={}", file.display());
    let pem = flyball_files::read(file, MAX_KEY)
        .context("can't read it")
        .with_context(flag)?;
    signer.add(SERVICE_ACCOUNT, &pem).with_context(flag)
}

fn add_authority(signer: &mut Signer, name: &str, files: &AuthorityFiles) -> anyhow::Result<()> {
    signer
        .add_authority(name, &files.certificate, &files.key)
        .with_context(|| files.flags.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;

    const SIGNING: &str = "certificatesigningrequest-signing-controller";
    const TOKENS: &str = "serviceaccount-token-controller";

    fn read(args: &[&str]) -> anyhow::Result<Signer> {
        read_for([SIGNING, TOKENS], args)
    }

    /// The keys and authorities if these controllers run.
    fn read_for(
        chosen: impl IntoIterator<Item = &'static str>,
        args: &[&str],
    ) -> anyhow::Result<Signer> {
        let config = RunConfig::read(&parse(args).expect("it parses")).expect("it is accepted");
        load(&config, &Needs::new(chosen, false))
    }

    #[test]
    fn the_flag_adds_the_service_account_key() {
        assert_eq!(format!("{:?}", read(&[]).unwrap()), "{}");
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../signer/testdata/keys/p256.pem"
        );
        let signer = read(&[&format!("--service-account-private-key-file={file}")]).unwrap();
        assert_eq!(format!("{signer:?}"), r#"{"service-account"}"#);
    }

    #[test]
    fn flags_add_authorities_which_name_their_flags_if_they_are_unusable() {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../signer/testdata");
        let own = format!(
            "--certificate-authority=example.com/a={data}/authorities/rsa.crt:{data}/keys/rsa.pem"
        );
        assert_eq!(
            format!("{:?}", read(&[&own]).unwrap()),
            r#"{"example.com/a"}"#
        );
        let flags = |key: &str| {
            [
                format!("--cluster-signing-cert-file={data}/authorities/p256.crt"),
                format!("--cluster-signing-key-file={data}/keys/{key}"),
            ]
        };
        let [certificate, key] = flags("p256.pem");
        let signer = format!("{:?}", read(&[&certificate, &key]).unwrap());
        assert!(signer.contains("kubernetes.io/kubelet-serving"), "{signer}");
        let [certificate, key] = flags("rsa.pem");
        let error = format!("{:#}", read(&[&certificate, &key]).unwrap_err());
        let expected = format!(
            "{SIGNING} can't start: --cluster-signing-cert-file and --cluster-signing-key-file: the key in"
        );
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn an_unusable_file_is_named_with_the_reason() {
        let error = |file: &str| {
            let error = read(&[&format!("--service-account-private-key-file={file}")]).unwrap_err();
            format!("{error:#}")
        };
        let expected = format!(
            "{TOKENS} can't start: --service-account-private-key-file=/nowhere: can't read it: No such file"
        );
        assert!(error("/nowhere").starts_with(&expected));
        let public = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../signer/testdata/keys/rsa-public.pem"
        );
        assert!(error(public).ends_with("rsa-public.pem: it holds no RSA or EC private key"));
    }

    #[test]
    fn only_the_files_of_controllers_that_run_must_be_usable() {
        let args = [
            "--service-account-private-key-file=/nowhere",
            "--cluster-signing-cert-file=/nowhere",
            "--cluster-signing-key-file=/nowhere",
        ];
        let none = read_for(["ttl-controller"], &args).unwrap();
        assert_eq!(format!("{none:?}"), "{}");
        for chosen in [SIGNING, TOKENS] {
            let error = format!("{:#}", read_for([chosen], &args).unwrap_err());
            assert!(error.starts_with(chosen), "{error}");
        }
        assert!(
            read_for(
                [],
                &["--certificate-authority=example.com/a=/nowhere:/nowhere"]
            )
            .is_err()
        );
    }
}
