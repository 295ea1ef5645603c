//! Client certificates: verifies their authority, and reads the user from the subject.

use std::sync::Arc;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::User;

/// The trusted authorities of client certificates, from one bundle.
#[derive(Clone)]
pub(super) struct Authorities {
    /// The bundle, to detect a change.
    pem: String,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Why a bundle is not usable.
#[derive(Debug, thiserror::Error)]
pub(super) enum BundleError {
    #[error("the bundle contains an invalid certificate: {0}")]
    Pem(String),
    #[error("the bundle contains no usable authority: {0}")]
    Authorities(String),
}

impl Authorities {
    pub(super) fn new(pem: &str) -> Result<Self, BundleError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| BundleError::Pem(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| BundleError::Pem(error.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| BundleError::Authorities(error.to_string()))?;
        Ok(Self {
            pem: pem.to_owned(),
            verifier,
        })
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// Whether a chain leads to one of the authorities. Its first certificate must be valid at present and for clients.
    pub(super) fn verify(&self, chain: &[CertificateDer<'static>]) -> bool {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return false;
        };
        self.verifier
            .verify_client_cert(leaf, intermediates, UnixTime::now())
            .is_ok()
    }
}

/// The user in a certificate's subject: the common name is the name, and each organization is a group. `None` if there
/// is no common name.
pub(super) fn subject(certificate: &CertificateDer<'_>) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject
        .iter_organization()
        .filter_map(|group| Some(group.as_str().ok()?.to_owned()))
        .collect();
    (!name.is_empty()).then(|| User {
        name,
        groups,
        ..User::default()
    })
}
