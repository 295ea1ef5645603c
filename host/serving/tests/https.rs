//! The server over HTTPS in this process, with a fake API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use flyball_serving::debug::Page;
use flyball_serving::review::{Access, AccessReviewer, ReviewError, TokenReviewer, TrustLookup};
use flyball_serving::{
    Authentication, AuthenticationOptions, Authorization, AuthorizationOptions, BindError,
    Certificate, DebugPages, Endpoints, HealthChecks, Metrics, ServingOptions, TlsOptions, User,
    bind,
};
use futures::future::BoxFuture;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName,
};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

/// An API server. The name of a user is its token, and the token `stolen` is not valid. The user
/// `scraper` and the group `monitoring` may get metrics. It trusts one authority for clients and
/// one for proxies.
struct Fake {
    client_ca: String,
    proxy_ca: String,
}

impl TokenReviewer for Fake {
    fn token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
        let user = User {
            name: token.to_owned(),
            ..User::default()
        };
        Box::pin(async move { Ok(Some(user).filter(|user| user.name != "stolen")) })
    }
}

impl AccessReviewer for Fake {
    fn access<'a>(
        &'a self,
        user: &'a User,
        verb: &'a str,
        path: &'a str,
    ) -> BoxFuture<'a, Result<Access, ReviewError>> {
        Box::pin(async move {
            if user.name == "unlucky" {
                return Err(ReviewError::Timeout);
            }
            let known =
                user.name == "scraper" || user.groups.iter().any(|group| group == "monitoring");
            Ok(Access {
                allowed: known
                    && verb == "get"
                    && (path == "/metrics" || path.starts_with("/debug/")),
                reason: "says the fake".to_owned(),
            })
        })
    }
}

impl TrustLookup for Fake {
    fn trust(&self) -> BoxFuture<'_, Result<BTreeMap<String, String>, ReviewError>> {
        let data = [
            ("client-ca-file", self.client_ca.as_str()),
            ("requestheader-client-ca-file", self.proxy_ca.as_str()),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            (
                "requestheader-extra-headers-prefix",
                r#"["X-Remote-Extra-"]"#,
            ),
        ];
        let data = data
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        Box::pin(async move { Ok(data) })
    }
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A client's certificate and its key.
type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            pem,
            issuer: Issuer::new(params, key),
        })
    }

    fn client(&self, name: &str, group: &str) -> anyhow::Result<Pair> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((
            certificate.der().clone(),
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        ))
    }
}

/// A running server, and what a client of it needs.
struct Server {
    address: std::net::SocketAddr,
    roots: RootCertStore,
    health: HealthChecks,
    debug: DebugPages,
    clients: Authority,
    proxies: Authority,
    shutdown: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    _files: tempfile::TempDir,
}

impl Server {
    async fn start() -> anyhow::Result<Self> {
        let files = tempfile::tempdir()?;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let (certificate, key) = (files.path().join("tls.crt"), files.path().join("tls.key"));
        std::fs::write(&certificate, made.cert.pem())?;
        std::fs::write(&key, made.signing_key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone())?;

        let tls = TlsOptions {
            certificate: Certificate::Files { certificate, key },
            tls13_only: false,
            http2: true,
        };
        let options = ServingOptions {
            address: ([127, 0, 0, 1], 0).into(),
            tls,
            http2_max_streams: 100,
        };
        let bound = bind(&options).await?;
        let (address, health, shutdown) = (
            bound.address()?,
            HealthChecks::default(),
            CancellationToken::new(),
        );
        let (clients, proxies) = (Authority::new()?, Authority::new()?);
        let fake = Arc::new(Fake {
            client_ca: clients.pem.clone(),
            proxy_ca: proxies.pem.clone(),
        });
        let authentication = AuthenticationOptions {
            token_ttl: Duration::from_secs(10),
            ..Default::default()
        };
        let debug = DebugPages::default();
        let endpoints = Endpoints {
            health: health.clone(),
            metrics: Metrics::new(),
            debug: debug.clone(),
            authentication: Arc::new(Authentication::new(
                authentication,
                Some(fake.clone()),
                Some(fake.clone()),
            )),
            authorization: Arc::new(Authorization::new(
                AuthorizationOptions::default(),
                Some(fake),
            )),
        };
        let serving = tokio::spawn(bound.serve(endpoints, shutdown.clone()));
        Ok(Self {
            address,
            roots,
            health,
            debug,
            clients,
            proxies,
            shutdown,
            serving,
            _files: files,
        })
    }

    /// Sends a request over its own connection.
    async fn get(
        &self,
        path: &str,
        headers: HeaderMap,
        pair: Option<Pair>,
    ) -> anyhow::Result<(StatusCode, String)> {
        let config = ClientConfig::builder_with_provider(Arc::new(
            tokio_rustls::rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(self.roots.clone());
        let mut config = match pair {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key)?,
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?;
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await?;
        let connection = tokio::spawn(connection);
        let mut request =
            Request::get(format!("https://localhost{path}")).body(Empty::<Bytes>::new())?;
        *request.headers_mut() = headers;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        drop(sender);
        connection.abort();
        Ok((status, String::from_utf8(body.to_vec())?))
    }

    /// Sends a request with a token.
    async fn get_with_token(
        &self,
        path: &str,
        token: &str,
    ) -> anyhow::Result<(StatusCode, String)> {
        self.get(
            path,
            headers(&[("authorization", &format!("Bearer {token}"))]),
            None,
        )
        .await
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        self.serving.await.context("serving ends well")
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            (
                http::HeaderName::from_static(name),
                value.parse().expect("a value"),
            )
        })
        .collect()
}

#[tokio::test]
async fn probes_need_no_credentials_and_metrics_do() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let _check = server.health.add("replicaset-controller", || Ok(()));
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(
            server.get(path, HeaderMap::new(), None).await?,
            (StatusCode::OK, "ok".to_owned())
        );
    }
    let (_, verbose) = server
        .get("/healthz?verbose", HeaderMap::new(), None)
        .await?;
    assert_eq!(
        verbose,
        "[+]ping ok\n[+]replicaset-controller ok\nhealthz check passed\n"
    );

    let (status, body) = server.get("/metrics", HeaderMap::new(), None).await?;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(
        body.contains(
            r#"forbidden: User \"system:anonymous\" cannot get path \"/metrics\": says the fake"#
        ),
        "{body}"
    );

    let (status, body) = server.get_with_token("/metrics", "scraper").await?;
    assert_eq!(status, StatusCode::OK);
    assert!(body.contains("kubernetes_build_info{"), "{body}");
    server.stop().await
}

#[tokio::test]
async fn a_failed_check_fails_the_probe() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let _check = server.health.add("job-controller", || {
        Err("its guest is quarantined".to_owned())
    });
    let (status, body) = server.get("/healthz", HeaderMap::new(), None).await?;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        body,
        "[+]ping ok\n[-]job-controller failed: reason withheld\nhealthz check failed\n"
    );
    // A single check shows its reason, and is not open to everyone.
    let one = "/healthz/job-controller";
    assert_eq!(
        server.get(one, HeaderMap::new(), None).await?.0,
        StatusCode::FORBIDDEN
    );
    let admin = server.clients.client("admin", "system:masters")?;
    let (status, body) = server.get(one, HeaderMap::new(), Some(admin)).await?;
    assert_eq!(
        (status, body.as_str()),
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal server error: its guest is quarantined\n"
        )
    );
    server.stop().await
}

#[tokio::test]
async fn invalid_credentials_are_refused_everywhere() -> anyhow::Result<()> {
    let server = Server::start().await?;
    assert_eq!(
        server.get_with_token("/healthz", "stolen").await?.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        server.get_with_token("/metrics", "someone").await?.0,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        server.get_with_token("/metrics", "unlucky").await?.0,
        StatusCode::INTERNAL_SERVER_ERROR
    );
    let forged = Authority::new()?.client("admin", "system:masters")?;
    assert_eq!(
        server
            .get("/metrics", HeaderMap::new(), Some(forged))
            .await?
            .0,
        StatusCode::UNAUTHORIZED
    );
    server.stop().await
}

#[tokio::test]
async fn a_client_certificate_names_its_user_and_groups() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let monitor = server.clients.client("prometheus", "monitoring")?;
    assert_eq!(
        server
            .get("/metrics", HeaderMap::new(), Some(monitor))
            .await?
            .0,
        StatusCode::OK
    );
    let other = server.clients.client("prometheus", "others")?;
    let (status, body) = server
        .get("/metrics", HeaderMap::new(), Some(other))
        .await?;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(body.contains("prometheus"), "{body}");
    server.stop().await
}

#[tokio::test]
async fn only_a_trusted_proxy_may_set_a_user() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let named = || {
        headers(&[
            ("x-remote-user", "someone"),
            ("x-remote-group", "monitoring"),
        ])
    };
    let proxy = server.proxies.client("front-proxy-client", "")?;
    assert_eq!(
        server.get("/metrics", named(), Some(proxy)).await?.0,
        StatusCode::OK
    );
    let misnamed = server.proxies.client("another", "")?;
    assert_eq!(
        server.get("/metrics", named(), Some(misnamed)).await?.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        server.get("/metrics", named(), None).await?.0,
        StatusCode::FORBIDDEN
    );
    // A client certificate counts, whatever the headers say.
    let other = server.clients.client("prometheus", "others")?;
    assert_eq!(
        server.get("/metrics", named(), Some(other)).await?.0,
        StatusCode::FORBIDDEN
    );
    server.stop().await
}

#[tokio::test]
async fn a_debug_page_is_shown_to_those_who_may_see_it() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let page = |query: &[(String, String)]| Page {
        content_type: "text/vnd.graphviz",
        body: format!("{query:?}"),
    };
    let _page = server.debug.add("some-controller", "graph", page);
    let path = "/debug/controllers/some-controller/graph?uid=a";
    assert_eq!(
        server.get(path, HeaderMap::new(), None).await?.0,
        StatusCode::FORBIDDEN
    );
    let (status, body) = server.get_with_token(path, "scraper").await?;
    assert_eq!(
        (status, body.as_str()),
        (StatusCode::OK, r#"[("uid", "a")]"#)
    );
    for path in [
        "/debug/controllers/some-controller/other",
        "/debug/controllers/other/graph",
        "/debug/pprof",
    ] {
        assert_eq!(
            server.get_with_token(path, "scraper").await?.0,
            StatusCode::NOT_FOUND
        );
    }
    server.stop().await
}

#[tokio::test]
async fn a_port_in_use_and_a_missing_certificate_are_errors() -> anyhow::Result<()> {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let tls = TlsOptions {
        certificate: Certificate::SelfSigned,
        tls13_only: true,
        http2: false,
    };
    let mut options = ServingOptions {
        address: taken.local_addr()?,
        tls,
        http2_max_streams: 100,
    };
    let error = bind(&options)
        .await
        .map(drop)
        .expect_err("the port is taken");
    assert!(
        matches!(error, BindError::InUse(address) if address == options.address),
        "{error}"
    );

    options.address.set_port(0);
    options.tls.certificate = Certificate::Files {
        certificate: "/no/such".into(),
        key: "/no/such".into(),
    };
    let error = bind(&options)
        .await
        .map(drop)
        .expect_err("there is no certificate");
    assert!(matches!(error, BindError::Certificate(_)), "{error}");
    Ok(())
}
