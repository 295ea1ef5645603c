//! The authorities that sign certificates: kube-controller-manager's flags for four signers, and Flyball's own flag for
//! others.

use super::flags::{ConfigError, Flags};
use crate::config::{Authorities, AuthorityFiles};

/// The flags for all signers of kube-controller-manager.
const CERTIFICATE: &str = "cluster-signing-cert-file";
const KEY: &str = "cluster-signing-key-file";
/// Its signers, with the flags for each.
const SIGNERS: [(&str, &str, &str); 4] = [
    (
        "kubernetes.io/kubelet-serving",
        "cluster-signing-kubelet-serving-cert-file",
        "cluster-signing-kubelet-serving-key-file",
    ),
    (
        "kubernetes.io/kube-apiserver-client-kubelet",
        "cluster-signing-kubelet-client-cert-file",
        "cluster-signing-kubelet-client-key-file",
    ),
    (
        "kubernetes.io/kube-apiserver-client",
        "cluster-signing-kube-apiserver-client-cert-file",
        "cluster-signing-kube-apiserver-client-key-file",
    ),
    (
        "kubernetes.io/legacy-unknown",
        "cluster-signing-legacy-unknown-cert-file",
        "cluster-signing-legacy-unknown-key-file",
    ),
];
/// The flag for other signers.
const OTHERS: &str = "certificate-authority";

impl Flags<'_> {
    /// The authorities of kube-controller-manager's signers. As there, one pair of files serves all signers, or each
    /// signer has its own pair. A signer without files has no authority. Half of the pair for all signers is ignored.
    ///
    /// # Errors
    /// Fails if one of a signer's two files is missing, or if both ways are mixed.
    pub(super) fn cluster_signing(&self) -> Result<Authorities, ConfigError> {
        let mut own = Authorities::new();
        for (signer, certificate, key) in SIGNERS {
            match (self.path(certificate), self.path(key)) {
                (None, None) => {}
                (Some(_), None) => {
                    return Err(self.error(certificate, format!("--{key} is missing")));
                }
                (None, Some(_)) => {
                    return Err(self.error(key, format!("--{certificate} is missing")));
                }
                (Some(_), Some(_)) => {
                    own.extend(self.pair(signer, certificate, key));
                }
            }
        }
        let is_given = |flag: &&str| self.path(flag).is_some();
        if let Some(flag) = [CERTIFICATE, KEY].into_iter().find(is_given)
            && !own.is_empty()
        {
            let reason = "it is for all signers, and can't be mixed with the flags of single ones";
            return Err(self.error(flag, reason));
        }
        if own.is_empty() {
            let signers = SIGNERS.iter();
            own.extend(signers.filter_map(|(signer, ..)| self.pair(signer, CERTIFICATE, KEY)));
        }
        Ok(own)
    }

    /// The authority of a signer, if both flags are given.
    fn pair(&self, signer: &str, certificate: &str, key: &str) -> Option<(String, AuthorityFiles)> {
        let files = AuthorityFiles {
            certificate: self.path(certificate)?,
            key: self.path(key)?,
            flags: format!("--{certificate} and --{key}"),
        };
        Some((signer.to_owned(), files))
    }

    /// The authorities of other signers.
    ///
    /// # Errors
    /// Fails if a value is malformed, or names a signer of kube-controller-manager.
    pub(super) fn other_authorities(&self) -> Result<Authorities, ConfigError> {
        let mut authorities = Authorities::new();
        for text in self.list(OTHERS) {
            let parts = text
                .split_once('=')
                .and_then(|(signer, files)| Some((signer, files.split_once(':')?)));
            let is_whole = |(signer, (certificate, key)): &(&str, (&str, &str))| {
                signer.contains('/') && !certificate.is_empty() && !key.is_empty()
            };
            let Some((signer, (certificate, key))) = parts.filter(is_whole) else {
                let reason = "it must be <signer>=<certificate file>:<key file>, with a signer such as example.com/name";
                return Err(self.error(OTHERS, reason));
            };
            if SIGNERS.iter().any(|(known, ..)| *known == signer) {
                let reason = format!("{signer} has the flags --cluster-signing-*");
                return Err(self.error(OTHERS, reason));
            }
            let files = AuthorityFiles {
                certificate: certificate.into(),
                key: key.into(),
                flags: format!("--{OTHERS}={text}"),
            };
            authorities.insert(signer.to_owned(), files);
        }
        Ok(authorities)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::RunConfig;
    use crate::flags::parse;

    fn read(args: &[&str]) -> Result<RunConfig, String> {
        let matches = parse(args).expect("they parse");
        RunConfig::read(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn one_pair_of_files_serves_all_signers() {
        assert!(read(&[]).unwrap().built_ins.cluster_signing.is_empty());
        let both = [
            "--cluster-signing-cert-file=a",
            "--cluster-signing-key-file=b",
        ];
        let all = read(&both).unwrap().built_ins.cluster_signing;
        assert_eq!(all.len(), 4);
        let mut files = all.values();
        assert!(files.all(|files| files.certificate == Path::new("a")));
        for one in both {
            assert!(read(&[one]).unwrap().built_ins.cluster_signing.is_empty());
        }
    }

    #[test]
    fn a_signer_has_files_of_its_own_and_the_others_none() {
        let only = read(&[
            "--cluster-signing-kubelet-client-cert-file=a",
            "--cluster-signing-kubelet-client-key-file=b",
        ]);
        let only = only.unwrap().built_ins.cluster_signing;
        assert_eq!(
            only.keys().collect::<Vec<_>>(),
            ["kubernetes.io/kube-apiserver-client-kubelet"]
        );
        let files = only.values().next().unwrap();
        assert_eq!(files.certificate, Path::new("a"));
        assert_eq!(files.key, Path::new("b"));
    }

    #[test]
    fn half_a_pair_and_both_ways_at_once_are_refused() {
        for (args, expected) in [
            (
                &["--cluster-signing-legacy-unknown-cert-file=a"][..],
                "--cluster-signing-legacy-unknown-key-file is missing",
            ),
            (
                &["--cluster-signing-kubelet-serving-key-file=a"],
                "--cluster-signing-kubelet-serving-cert-file is missing",
            ),
            (
                &[
                    "--cluster-signing-kubelet-serving-cert-file=a",
                    "--cluster-signing-kubelet-serving-key-file=b",
                    "--cluster-signing-key-file=c",
                ],
                "can't be mixed",
            ),
        ] {
            let error = read(args).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn other_signers_have_a_flag_of_flyball() {
        let config = read(&[
            "--certificate-authority=example.com/a=/etc/a.crt:/etc/a.key",
            "--certificate-authority=example.com/b=/etc/b.crt:/etc/b.key",
        ]);
        let authorities = config.unwrap().built_ins.authorities;
        assert_eq!(authorities.len(), 2);
        assert_eq!(authorities["example.com/b"].key, Path::new("/etc/b.key"));
        for (text, expected) in [
            ("example.com/a", "it must be <signer>="),
            ("a=b:c", "it must be <signer>="),
            ("example.com/a=b", "it must be <signer>="),
            ("kubernetes.io/legacy-unknown=a:b", "--cluster-signing-*"),
        ] {
            let error = read(&[&format!("--certificate-authority={text}")]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
