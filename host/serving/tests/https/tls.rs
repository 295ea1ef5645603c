//! TLS handshakes with servers that have certificates for names, and a choice of algorithms.

use std::sync::Arc;

use flyball_serving::{Certificate, NamedCertificate};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{CipherSuite, ClientConfig, NamedGroup, RootCertStore, version};

use crate::server::Server;

/// A certificate with a name of its own, for these patterns.
fn named(
    folder: &std::path::Path,
    name: &str,
    patterns: &[&str],
) -> anyhow::Result<(NamedCertificate, CertificateDer<'static>)> {
    let generated = rcgen::generate_simple_self_signed([name.to_owned()])?;
    let (certificate, key) = (
        folder.join(format!("{name}.crt")),
        folder.join(format!("{name}.key")),
    );
    std::fs::write(&certificate, generated.cert.pem())?;
    std::fs::write(&key, generated.signing_key.serialize_pem())?;
    let named = NamedCertificate {
        certificate: Certificate::Files { certificate, key },
        names: patterns.iter().map(|name| (*name).to_owned()).collect(),
    };
    Ok((named, generated.cert.der().clone()))
}

/// Connects as a client that trusts only this certificate.
async fn connect(
    server: &Server,
    name: &'static str,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).map_err(std::io::Error::other)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name).map_err(std::io::Error::other)?;
    let stream = TcpStream::connect(server.address).await?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map(drop)
}

#[tokio::test]
async fn the_name_that_a_client_asks_for_chooses_the_certificate() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (first, of_first) = named(folder.path(), "a.example.com", &[])?;
    let (second, of_second) = named(folder.path(), "b.example.com", &["*.example.com"])?;
    // A client that connects to an address sends no name.
    let (third, of_third) = named(folder.path(), "127.0.0.1", &["127.0.0.1"])?;
    let server = Server::start_with(|tls| tls.named = vec![first, second, third]).await?;
    connect(&server, "a.example.com", &of_first).await?;
    connect(&server, "b.example.com", &of_second).await?;
    connect(&server, "127.0.0.1", &of_third).await?;
    assert!(connect(&server, "other.org", &of_first).await.is_err());
    server.stop().await
}

/// Connects with this provider over TLS 1.2 or 1.3, and returns whether the handshake succeeds up to the certificate.
async fn shakes_hands(server: &Server, provider: CryptoProvider) -> anyhow::Result<bool> {
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&version::TLS12])?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address).await?;
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost")?;
    match connector.connect(name, stream).await {
        Ok(_) => Ok(true),
        // The client trusts nobody, which it finds only once both have agreed on the algorithms.
        Err(error) => Ok(error.to_string().contains("invalid peer certificate")),
    }
}

#[tokio::test]
async fn only_the_chosen_algorithms_are_accepted() -> anyhow::Result<()> {
    let suites = ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".to_owned()];
    let server = Server::start_with(|tls| {
        tls.algorithms
            .choose_suites(&suites, true, false)
            .expect("known suites");
        tls.algorithms.choose_curves(&[24]).expect("known curves");
    })
    .await?;
    let with = |suite: CipherSuite, group: NamedGroup| {
        let mut provider = ring::default_provider();
        provider.cipher_suites.retain(|one| one.suite() == suite);
        provider.kx_groups.retain(|one| one.name() == group);
        provider
    };
    let chosen = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    let other = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
    assert!(shakes_hands(&server, with(chosen, NamedGroup::secp384r1)).await?);
    assert!(!shakes_hands(&server, with(other, NamedGroup::secp384r1)).await?);
    assert!(!shakes_hands(&server, with(chosen, NamedGroup::X25519)).await?);
    server.stop().await
}
