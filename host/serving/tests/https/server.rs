//! A server over HTTPS in this process, with a fake API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use flyball_dashboard::{Dashboard, Followed, Problem, Query, SignIn, Source};
use flyball_serving::review::{Access, AccessReviewer, ReviewError, TokenReviewer, TrustLookup};
use flyball_serving::{
    Algorithms, Authentication, AuthenticationOptions, Authorization, AuthorizationOptions,
    Certificate, DebugPages, Endpoints, HealthChecks, Metrics, ServingOptions, TlsOptions, User,
    ZPages, bind,
};
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName,
};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

/// An API server. The name of a user is its token, and the token `stolen` is not valid. The user `scraper` and the
/// group `monitoring` may get metrics, the user `onlooker` the dashboard. It trusts one authority for clients and one for proxies. A review of the user
/// `slow` takes a second.
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
            if user.name == "slow" {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            if user.name == "onlooker" {
                return Ok(Access {
                    allowed: verb == "get" && path.starts_with("/dashboard/"),
                    reason: "says the fake".to_owned(),
                });
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

/// What the dashboard shows: one plugin.
struct Shown;

impl Source for Shown {
    fn document<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Value, Problem>> {
        let document = match query {
            Query::Plugins => json!([{"name": "greeter", "origin": "greeter.wasm"}]),
            _ => json!({}),
        };
        Box::pin(async move { Ok(document) })
    }

    fn follow<'a>(&'a self, plugin: &'a str) -> BoxFuture<'a, Result<Followed, Problem>> {
        Box::pin(async move { Err(Problem::Refused(format!("there is no log of {plugin}"))) })
    }
}

pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A client's certificate and its key.
pub(crate) type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            pem,
            issuer: Issuer::new(params, key),
        })
    }

    pub(crate) fn client(&self, name: &str, group: &str) -> anyhow::Result<Pair> {
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

/// A running server, and the data that its clients need.
pub(crate) struct Server {
    pub(crate) address: std::net::SocketAddr,
    roots: RootCertStore,
    pub(crate) health: HealthChecks,
    pub(crate) debug: DebugPages,
    pub(crate) metrics: Metrics,
    pub(crate) clients: Authority,
    pub(crate) proxies: Authority,
    shutdown: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    _files: tempfile::TempDir,
}

impl Server {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::start_with(|_| ()).await
    }

    /// Starts a server with other TLS settings.
    pub(crate) async fn start_with(change: impl FnOnce(&mut TlsOptions)) -> anyhow::Result<Self> {
        Self::start_reviewed(change, true, true).await
    }

    /// Starts a server that may have no API server to review tokens or access.
    pub(crate) async fn start_reviewed(
        change: impl FnOnce(&mut TlsOptions),
        reviews_tokens: bool,
        reviews_access: bool,
    ) -> anyhow::Result<Self> {
        let files = tempfile::tempdir()?;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let (certificate, key) = (files.path().join("tls.crt"), files.path().join("tls.key"));
        std::fs::write(&certificate, made.cert.pem())?;
        std::fs::write(&key, made.signing_key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone())?;

        let mut tls = TlsOptions {
            certificate: Certificate::Files { certificate, key },
            named: Vec::new(),
            algorithms: Algorithms::default(),
            tls13_only: false,
            http2: true,
        };
        change(&mut tls);
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
        let (debug, metrics) = (DebugPages::default(), Metrics::new());
        let endpoints = Endpoints {
            health: health.clone(),
            metrics: metrics.clone(),
            debug: debug.clone(),
            zpages: Arc::new(ZPages {
                component: "kube-controller-manager".to_owned(),
                flags: Some([("v".to_owned(), "2".to_owned())].into()),
                speaks_cbor: false,
                versions: None,
                paths: Vec::new(),
            }),
            configz: "{\"kubecontrollermanager.config.k8s.io\":{}}".into(),
            profiling: Some(Arc::new(|_| {})),
            dashboard: Some(Arc::new(Dashboard::new(Arc::new(Shown), SignIn::Token))),
            authentication: Arc::new(Authentication::new(
                authentication,
                reviews_tokens.then(|| fake.clone() as Arc<dyn TokenReviewer>),
                Some(fake.clone()),
            )),
            authorization: Arc::new(Authorization::new(
                AuthorizationOptions::default(),
                reviews_access.then_some(fake as Arc<dyn AccessReviewer>),
            )),
        };
        let serving = tokio::spawn(bound.serve(endpoints, shutdown.clone()));
        Ok(Self {
            address,
            roots,
            health,
            debug,
            metrics,
            clients,
            proxies,
            shutdown,
            serving,
            _files: files,
        })
    }

    /// Sends requests for a path at once over one connection, and returns the statuses.
    pub(crate) async fn get_at_once(
        &self,
        requests: &[(&str, HeaderMap)],
    ) -> anyhow::Result<Vec<StatusCode>> {
        let stream = TcpStream::connect(self.address).await?;
        let stream = self.handshake(stream, b"h2", None).await?;
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await?;
        let connection = tokio::spawn(connection);
        let sent = requests.iter().map(|(path, headers)| {
            let mut sender = sender.clone();
            async move {
                let mut request = Request::get(format!("https://localhost{path}"))
                    .body(Full::<Bytes>::default())?;
                *request.headers_mut() = headers.clone();
                anyhow::Ok(sender.send_request(request).await?.status())
            }
        });
        let statuses = futures::future::join_all(sent).await;
        connection.abort();
        statuses.into_iter().collect()
    }

    /// Sends a request over its own connection.
    pub(crate) async fn get(
        &self,
        path: &str,
        headers: HeaderMap,
        pair: Option<Pair>,
    ) -> anyhow::Result<(StatusCode, String)> {
        let request = Request::get(format!("https://localhost{path}"));
        let mut request = request.body(Full::default())?;
        *request.headers_mut() = headers;
        let response = self.send(request, pair).await?;
        Ok((response.status(), response.into_body()))
    }

    /// Sends a request of an administrator over its own connection.
    pub(crate) async fn as_admin(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: &'static str,
    ) -> anyhow::Result<Response<String>> {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"));
        let mut request = request.body(Full::from(body))?;
        *request.headers_mut() = headers;
        let admin = self.clients.client("admin", "system:masters")?;
        self.send(request, Some(admin)).await
    }

    /// Sends a request over its own connection, and returns the head of the response and the first part of its body.
    pub(crate) async fn first_part(
        &self,
        request: Request<Full<Bytes>>,
        pair: Option<Pair>,
    ) -> anyhow::Result<Response<String>> {
        let (connection, response) = self.begin(request, pair).await?;
        let (head, mut body) = response.into_parts();
        let part = body.frame().await.transpose()?;
        let part = part.and_then(|frame| frame.into_data().ok());
        connection.abort();
        let part = String::from_utf8_lossy(&part.unwrap_or_default()).into_owned();
        Ok(Response::from_parts(head, part))
    }

    /// Sends a request over its own connection, and returns the response when it begins.
    pub(crate) async fn begin(
        &self,
        request: Request<Full<Bytes>>,
        pair: Option<Pair>,
    ) -> anyhow::Result<(AbortHandle, Response<Incoming>)> {
        let stream = TcpStream::connect(self.address).await?;
        let stream = self.handshake(stream, b"h2", pair).await?;
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await?;
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        Ok((connection.abort_handle(), response))
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
        pair: Option<Pair>,
    ) -> anyhow::Result<Response<String>> {
        let (connection, response) = self.begin(request, pair).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        connection.abort();
        // A profile is not text.
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Response::from_parts(head, body))
    }

    /// Performs the TLS handshake with this application protocol.
    pub(crate) async fn handshake(
        &self,
        stream: TcpStream,
        protocol: &[u8],
        pair: Option<Pair>,
    ) -> anyhow::Result<TlsStream<TcpStream>> {
        let config = ClientConfig::builder_with_provider(Arc::new(
            tokio_rustls::rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(self.roots.clone());
        let mut config = match pair {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key)?,
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost")?;
        let connector = TlsConnector::from(Arc::new(config));
        Ok(connector.connect(name, stream).await?)
    }

    /// Sends a request with a token.
    pub(crate) async fn get_with_token(
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

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        self.serving.await.context("serving ends well")
    }
}

pub(crate) fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
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
