//! A certificate authority: a certificate and its key in two files, which are read again when they have changed. Files
//! that do not fit each other, as in the middle of a rotation, are not used yet.

mod stamp;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use pkcs8::der::{self, Decode};
use ring::digest::{Context, Digest, SHA256};
use x509_cert::Certificate;
use x509_cert::ext::pkix::SubjectKeyIdentifier;
use x509_cert::name::Name;

use self::stamp::Stamp;
use super::key::{self, KeyError, PrivateKey};

/// Maximum size of each file, in bytes.
const MAX_FILE: usize = 64 << 10;

/// Why two files hold no authority. A retry helps only after they have changed.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("can't read {}", .path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is no PEM", .path.display())]
    Pem {
        path: PathBuf,
        source: pem::PemError,
    },
    /// The file must hold one certificate. Like kube-controller-manager, the host takes no chain.
    #[error("{} must hold one certificate, and holds {count}", .path.display())]
    Count { path: PathBuf, count: usize },
    #[error("the certificate in {} is not valid", .path.display())]
    Certificate { path: PathBuf, source: der::Error },
    #[error("the key in {} can't sign", .path.display())]
    Key { path: PathBuf, source: KeyError },
    #[error("the key in {} is not that of the certificate in {}", .key.display(), .certificate.display())]
    Mismatch { certificate: PathBuf, key: PathBuf },
}

/// The authority of a signer.
pub(super) struct Authority {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Current>,
}

struct Current {
    issuer: Arc<Issuer>,
    /// The state of the files from which `issuer` was read, if it shows each later change.
    stamps: Option<[Stamp; 2]>,
    /// The digest of the files that `issuer` was read from.
    read: Digest,
    /// Why later files can't be used, if that was logged.
    refused: Option<String>,
}

/// The certificate and the key that sign other certificates.
pub(super) struct Issuer {
    /// The certificate in DER.
    pub(super) certificate: Vec<u8>,
    pub(super) name: Name,
    /// The identifier of its key, if the certificate has one.
    pub(super) key_id: Option<Vec<u8>>,
    pub(super) not_after: SystemTime,
    pub(super) key: PrivateKey,
}

/// The contents of both files.
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Authority {
    /// Reads both files. Blocks.
    ///
    /// # Errors
    /// They hold no authority.
    pub(super) fn open(certificate: &Path, key: &Path) -> Result<Self, AuthorityError> {
        let files = Files::read(certificate, key)?;
        let current = Current {
            issuer: Arc::new(files.issuer(certificate, key)?),
            stamps: None,
            read: files.digest(),
            refused: None,
        };
        Ok(Self {
            certificate: certificate.into(),
            key: key.into(),
            current: Mutex::new(current),
        })
    }

    /// Returns the authority that the files hold now; if they hold none, the last one. Blocks.
    pub(super) fn issuer(&self) -> Arc<Issuer> {
        let mut current = self.current.lock();
        // The stamps are taken before the files are read, so that later writes make them outdated.
        let stamps = Stamp::of_all([&self.certificate, &self.key]);
        if stamps.is_some() && stamps == current.stamps {
            return current.issuer.clone();
        }
        let files = Files::read(&self.certificate, &self.key);
        let is_same = |files: &Files| files.digest().as_ref() == current.read.as_ref();
        if files.as_ref().is_ok_and(is_same) {
            current.stamps = stamps;
            current.refused = None;
            return current.issuer.clone();
        }
        let read = files.and_then(|files| {
            let issuer = files.issuer(&self.certificate, &self.key)?;
            Ok((issuer, files.digest()))
        });
        match read {
            Ok((issuer, read)) => {
                *current = Current {
                    issuer: Arc::new(issuer),
                    stamps,
                    read,
                    refused: None,
                };
                let certificate = self.certificate.display();
                tracing::info!(%certificate, "the certificate authority was read again");
            }
            Err(error) => {
                let error = with_source(&error);
                if current.refused.as_ref() != Some(&error) {
                    tracing::warn!(
                        error,
                        "the files of a certificate authority changed and can't be used: the earlier ones still sign"
                    );
                    current.refused = Some(error);
                }
            }
        }
        current.issuer.clone()
    }
}

fn with_source(error: &AuthorityError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl Files {
    fn read(certificate: &Path, key: &Path) -> Result<Self, AuthorityError> {
        let read = |path: &Path| {
            flyball_files::read(path, MAX_FILE).map_err(|source| AuthorityError::Read {
                path: path.into(),
                source,
            })
        };
        Ok(Self {
            certificate: read(certificate)?,
            key: read(key)?,
        })
    }

    fn digest(&self) -> Digest {
        let mut context = Context::new(&SHA256);
        context.update(&(self.certificate.len() as u64).to_le_bytes());
        context.update(&self.certificate);
        context.update(&self.key);
        context.finish()
    }

    /// The authority in the files; the paths are for errors.
    fn issuer(&self, certificate: &Path, key: &Path) -> Result<Issuer, AuthorityError> {
        let blocks = pem::parse_many(&self.certificate).map_err(|source| AuthorityError::Pem {
            path: certificate.into(),
            source,
        })?;
        let is_certificate = |block: &&pem::Pem| {
            block.tag() == "CERTIFICATE" && block.headers().iter().next().is_none()
        };
        let certificates: Vec<&pem::Pem> = blocks.iter().filter(is_certificate).collect();
        let [der] = certificates[..] else {
            return Err(AuthorityError::Count {
                path: certificate.into(),
                count: certificates.len(),
            });
        };
        let (private, _) = key::read(&self.key).map_err(|source| AuthorityError::Key {
            path: key.into(),
            source,
        })?;
        let malformed = |source| AuthorityError::Certificate {
            path: certificate.into(),
            source,
        };
        let parsed = Certificate::from_der(der.contents()).map_err(malformed)?;
        let tbs = parsed.tbs_certificate();
        let public = &tbs.subject_public_key_info().subject_public_key;
        if public.as_bytes() != Some(private.public().bytes()) {
            return Err(AuthorityError::Mismatch {
                certificate: certificate.into(),
                key: key.into(),
            });
        }
        let key_id = tbs
            .get_extension::<SubjectKeyIdentifier>()
            .map_err(malformed)?;
        Ok(Issuer {
            certificate: der.contents().to_vec(),
            name: tbs.subject().clone(),
            key_id: key_id.map(|(_, id)| id.0.as_bytes().to_vec()),
            not_after: UNIX_EPOCH + tbs.validity().not_after.to_unix_duration(),
            key: private,
        })
    }
}

#[cfg(test)]
mod tests;
