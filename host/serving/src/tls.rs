//! The TLS settings of the server: its certificates, which are chosen by the names that clients ask for, and the
//! algorithms.

mod algorithms;
mod names;
mod served;

use std::net::IpAddr;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{
    self, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
};
use tokio_util::sync::CancellationToken;

pub use algorithms::{Algorithms, Unsupported};
use names::Named;
use served::ServedCertificate;
pub use served::{Certificate, CertificateError};

/// The TLS settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    pub certificate: Certificate,
    /// Further certificates for the names that clients ask for.
    pub named: Vec<NamedCertificate>,
    pub algorithms: Algorithms,
    /// Whether to refuse TLS 1.2.
    pub tls13_only: bool,
    /// Whether to offer HTTP/2.
    pub http2: bool,
}

/// A certificate for some names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCertificate {
    pub certificate: Certificate,
    /// Names, possibly with a `*` as their first label, and addresses; none for the names in the certificate.
    pub names: Vec<String>,
}

/// All certificates of the server.
#[derive(Debug)]
pub(crate) struct Certificates {
    default: Arc<ServedCertificate>,
    named: Vec<Named>,
}

impl Certificates {
    /// Generates or reads the certificates of a server at this address.
    pub(crate) fn new(
        options: &TlsOptions,
        address: IpAddr,
    ) -> Result<Arc<Self>, CertificateError> {
        let named = options.named.iter().map(|one| {
            Ok(Named {
                certificate: ServedCertificate::new(one.certificate.clone(), address)?,
                patterns: one.names.clone(),
            })
        });
        Ok(Arc::new(Self {
            default: ServedCertificate::new(options.certificate.clone(), address)?,
            named: named.collect::<Result<_, CertificateError>>()?,
        }))
    }

    /// Reads the files of all certificates again periodically until `shutdown`.
    pub(crate) async fn keep_reloading(self: Arc<Self>, shutdown: CancellationToken) {
        let named = self.named.iter().map(|one| &one.certificate);
        let all = named.chain([&self.default]);
        let all = all.map(|one| one.clone().keep_reloading(shutdown.clone()));
        futures::future::join_all(all).await;
    }

    /// Returns the settings for a client that names no server, and connects to this address: those with the certificate
    /// for the address, if there is one.
    pub(crate) fn for_address(
        &self,
        config: &Arc<ServerConfig>,
        address: Option<IpAddr>,
    ) -> Arc<ServerConfig> {
        let key = address.and_then(|address| names::find_address(&self.named, address));
        match key {
            Some(key) => {
                let mut config = ServerConfig::clone(config);
                config.cert_resolver = Arc::new(SingleCertAndKey::from(key));
                Arc::new(config)
            }
            None => config.clone(),
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        let named = name.and_then(|name| names::find(&self.named, name));
        Some(named.unwrap_or_else(|| self.default.current()))
    }
}

/// The TLS settings of a server with these certificates.
pub(crate) fn server_config(
    options: &TlsOptions,
    certificates: Arc<Certificates>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(options.algorithms.provider());
    let versions: &[&rustls::SupportedProtocolVersion] = if options.tls13_only {
        &[&rustls::version::TLS13]
    } else {
        rustls::DEFAULT_VERSIONS
    };
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(Arc::new(AcceptAnyCertificate { provider }))
        .with_cert_resolver(certificates);
    let protocols: &[&[u8]] = if options.http2 {
        &[b"h2", b"http/1.1"]
    } else {
        &[b"http/1.1"]
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// Accepts any client certificate whose key the client has, or none. Each request verifies the authority, because
/// authorities change and because the request may have other credentials.
#[derive(Debug)]
struct AcceptAnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AcceptAnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
