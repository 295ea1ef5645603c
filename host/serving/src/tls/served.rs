//! A certificate with its key, self-signed or from files that may change.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

/// The interval at which the certificate's files are read again.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// The source of the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Generated at start and kept in memory.
    SelfSigned,
    /// Read from PEM files, and again when they change.
    Files {
        /// The file of the certificate chain, starting with the server's own.
        certificate: PathBuf,
        /// The file of the private key.
        key: PathBuf,
    },
}

/// The reason why no usable certificate exists.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("can't read {0}")]
    Read(PathBuf, #[source] std::io::Error),
    #[error("{0} does not contain a valid {1} in PEM")]
    Pem(PathBuf, &'static str),
    #[error("the key in {1} does not belong to the certificate in {0}: {2}")]
    Mismatch(PathBuf, PathBuf, String),
    #[error("can't generate a self-signed certificate: {0}")]
    SelfSigned(String),
}

/// The certificate that is served at present.
#[derive(Debug)]
pub(crate) struct ServedCertificate {
    source: Certificate,
    key: RwLock<Arc<CertifiedKey>>,
}

impl ServedCertificate {
    /// Generates or reads the certificate of a server at this address.
    pub(crate) fn new(source: Certificate, address: IpAddr) -> Result<Arc<Self>, CertificateError> {
        let key = match &source {
            Certificate::SelfSigned => self_signed(address)?,
            Certificate::Files { certificate, key } => read(certificate, key)?,
        };
        Ok(Arc::new(Self {
            source,
            key: RwLock::new(Arc::new(key)),
        }))
    }

    /// Reads the files again periodically until `shutdown`. The old certificate stays while the files are not valid, as
    /// between the writes of the certificate and of its key.
    pub(crate) async fn keep_reloading(self: Arc<Self>, shutdown: CancellationToken) {
        let mut is_failing = false;
        while shutdown
            .run_until_cancelled(tokio::time::sleep(RELOAD_INTERVAL))
            .await
            .is_some()
        {
            let this = self.clone();
            // A panic in the reload must not end the loop.
            let Ok(reloaded) = tokio::task::spawn_blocking(move || this.reload()).await else {
                continue;
            };
            match reloaded {
                Ok(changed) => {
                    is_failing = false;
                    if changed {
                        tracing::info!("the serving certificate changed");
                    }
                }
                Err(error) if is_failing => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "can't reload the serving certificate; the old one stays"
                    )
                }
                Err(error) => {
                    is_failing = true;
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "can't reload the serving certificate; the old one stays"
                    );
                }
            }
        }
    }

    /// Reads the files again and returns whether the certificate changed.
    fn reload(&self) -> Result<bool, CertificateError> {
        let Certificate::Files { certificate, key } = &self.source else {
            return Ok(false);
        };
        let new = read(certificate, key)?;
        if new.cert == self.current().cert {
            return Ok(false);
        }
        *self.key.write() = Arc::new(new);
        Ok(true)
    }

    pub(super) fn current(&self) -> Arc<CertifiedKey> {
        self.key.read().clone()
    }
}

fn self_signed(address: IpAddr) -> Result<CertifiedKey, CertificateError> {
    let failed = |error: &dyn std::fmt::Display| CertificateError::SelfSigned(error.to_string());
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    let generated = rcgen::generate_simple_self_signed(names).map_err(|error| failed(&error))?;
    let key = PrivateKeyDer::try_from(generated.signing_key.serialize_der())
        .map_err(|error| failed(&error))?;
    let chain = vec![generated.cert.der().clone()];
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| failed(&error))
}

fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey, CertificateError> {
    let file = |path: &Path| {
        std::fs::read(path).map_err(|error| CertificateError::Read(path.to_owned(), error))
    };
    let (chain_pem, key_pem) = (file(certificate)?, file(key)?);
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(&chain_pem).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain =
        chain.ok_or_else(|| CertificateError::Pem(certificate.to_owned(), "certificate"))?;
    let private = PrivateKeyDer::from_pem_slice(&key_pem)
        .map_err(|_| CertificateError::Pem(key.to_owned(), "private key"))?;
    CertifiedKey::from_der(chain, private, &ring::default_provider()).map_err(|error| {
        CertificateError::Mismatch(certificate.to_owned(), key.to_owned(), error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_pair(folder: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
        let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        std::fs::write(&certificate, generated.cert.pem())?;
        std::fs::write(&key, generated.signing_key.serialize_pem())?;
        Ok((certificate, key))
    }

    #[test]
    fn a_changed_certificate_is_served_once_its_key_exists() -> anyhow::Result<()> {
        let (old, new) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let (certificate, key) = write_pair(old.path())?;
        let (new_certificate, new_key) = write_pair(new.path())?;
        let source = Certificate::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let served = ServedCertificate::new(source, [127, 0, 0, 1].into())?;
        let first = served.current();
        assert!(!served.reload()?);

        std::fs::copy(new_certificate, &certificate)?;
        assert!(matches!(
            served.reload(),
            Err(CertificateError::Mismatch(..))
        ));
        assert!(Arc::ptr_eq(&first, &served.current()));

        std::fs::copy(new_key, &key)?;
        assert!(served.reload()?);
        assert_ne!(first.cert, served.current().cert);
        Ok(())
    }

    #[test]
    fn an_error_names_the_file() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let (certificate, key) = write_pair(folder.path())?;
        let error = read(&key, &certificate).expect_err("they are swapped");
        assert_eq!(
            error.to_string(),
            format!(
                "{} does not contain a valid certificate in PEM",
                key.display()
            )
        );
        std::fs::remove_file(&certificate)?;
        let error = read(&certificate, &key).expect_err("the file is missing");
        assert!(
            error
                .to_string()
                .starts_with(&format!("can't read {}", certificate.display())),
            "{error}"
        );
        Ok(())
    }
}
