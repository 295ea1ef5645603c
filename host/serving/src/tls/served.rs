//! A certificate with its key, self-signed or from files that may change.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rcgen::KeyPair;
use tokio::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

/// The interval at which the certificate's files are read again.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// The name of a certificate's files in a folder, without the extensions.
const PAIR: &str = "kube-controller-manager";

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
    /// Like `Files`, with `kube-controller-manager.crt` and `.key` of this folder. If there is neither, they are generated at
    /// start.
    Folder(PathBuf),
}

impl Certificate {
    /// The files of the certificate chain and of the private key; none if both are kept in memory.
    pub fn files(&self) -> Option<[PathBuf; 2]> {
        match self {
            Self::SelfSigned => None,
            Self::Files { certificate, key } => Some([certificate.clone(), key.clone()]),
            Self::Folder(folder) => Some(files_in(folder)),
        }
    }
}

/// The reason why no usable certificate exists.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("can't read {0}")]
    Read(PathBuf, #[source] io::Error),
    #[error("{0} does not contain a valid {1} in PEM")]
    Pem(PathBuf, &'static str),
    #[error("the key in {1} does not belong to the certificate in {0}: {2}")]
    Mismatch(PathBuf, PathBuf, String),
    #[error("can't generate a self-signed certificate: {0}")]
    SelfSigned(String),
    #[error(
        "can't use {0} without {1}: provide the missing file, or remove the other one to have both generated"
    )]
    Half(PathBuf, PathBuf),
    #[error("can't write the generated certificate to {0}")]
    Write(PathBuf, #[source] io::Error),
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
        let source = match source {
            Certificate::Folder(folder) => in_folder(&folder, address)?,
            other => other,
        };
        let key = match &source {
            Certificate::Files { certificate, key } => read(certificate, key)?,
            _ => self_signed(address)?,
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
    let generated = generate(address)?;
    let key = PrivateKeyDer::try_from(generated.signing_key.serialize_der())
        .map_err(|error| failed(&error))?;
    let chain = vec![generated.cert.der().clone()];
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| failed(&error))
}

/// Returns the files of a folder, which are generated if neither exists.
fn in_folder(folder: &Path, address: IpAddr) -> Result<Certificate, CertificateError> {
    let [certificate, key] = files_in(folder);
    match (certificate.exists(), key.exists()) {
        (true, true) => {}
        (true, false) => return Err(CertificateError::Half(certificate, key)),
        (false, true) => return Err(CertificateError::Half(key, certificate)),
        (false, false) => {
            let generated = generate(address)?;
            fs::create_dir_all(folder)
                .map_err(|error| CertificateError::Write(folder.to_owned(), error))?;
            create(&key, 0o600, &generated.signing_key.serialize_pem())?;
            create(&certificate, 0o644, &generated.cert.pem())?;
            tracing::info!(certificate = %certificate.display(), "generated a self-signed certificate");
        }
    }
    Ok(Certificate::Files { certificate, key })
}

fn files_in(folder: &Path) -> [PathBuf; 2] {
    ["crt", "key"].map(|end| folder.join(format!("{PAIR}.{end}")))
}

/// Writes a file that doesn't exist yet.
fn create(path: &Path, mode: u32, text: &str) -> Result<(), CertificateError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| CertificateError::Write(path.to_owned(), error))
}

/// Generates a certificate for the names of a server at this address.
fn generate(address: IpAddr) -> Result<rcgen::CertifiedKey<KeyPair>, CertificateError> {
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    rcgen::generate_simple_self_signed(names)
        .map_err(|error| CertificateError::SelfSigned(error.to_string()))
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
    use std::os::unix::fs::PermissionsExt;

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
    fn a_folder_keeps_the_certificate_that_was_generated_in_it() -> anyhow::Result<()> {
        let parent = tempfile::tempdir()?;
        let folder = parent.path().join("pki");
        let served = || {
            let source = Certificate::Folder(folder.clone());
            ServedCertificate::new(source, [127, 0, 0, 1].into())
        };
        let first = served()?.current();
        let key = folder.join("kube-controller-manager.key");
        assert_eq!(fs::metadata(&key)?.permissions().mode() & 0o777, 0o600);
        assert_eq!(first.cert, served()?.current().cert);

        fs::remove_file(&key)?;
        let error = served().expect_err("the key is missing").to_string();
        assert!(
            error.contains("kube-controller-manager.crt without"),
            "{error}"
        );
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
