//! Listens on the port, accepts connections and serves requests over them, within limits.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::Either;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Duration, timeout};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connections::{Connection, Connections};
use crate::handler::{Endpoints, too_many_reviews};
use crate::handshakes::Handshakes;
use crate::tls::{CertificateError, Certificates, TlsOptions, server_config};

/// The timeout of the TLS handshake, with the wait for it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of a request's headers, and of a connection without requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a request's headers, in bytes.
const MAX_HEADER_BYTES: u16 = 16 * 1024;
/// Maximum number of a request's headers.
const MAX_HEADERS: usize = 100;
/// The age at which a connection is closed after its requests, so that no client occupies one forever.
const MAX_AGE: Duration = Duration::from_secs(600);
/// Maximum number of concurrent requests of a connection that wait for a review by the API server. Clients without
/// credentials cause such reviews, too.
const MAX_REVIEWS: usize = 16;
/// The timeout of the requests of a connection that is closing.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingOptions {
    /// The address and port to listen on.
    pub address: SocketAddr,
    pub tls: TlsOptions,
    /// The maximum number of concurrent requests over one HTTP/2 connection.
    pub http2_max_streams: u32,
}

/// Why the server can't start. Each is a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "the port of {0} is in use by another process: stop that one, or choose another --secure-port"
    )]
    InUse(SocketAddr),
    /// The operating system does not allow it, or does not have the address.
    #[error("can't listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
    #[error("can't serve over HTTPS")]
    Certificate(#[from] CertificateError),
    /// The TLS settings contradict each other.
    #[error("can't serve over HTTPS")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

/// A bound port that is not served yet.
pub struct Bound {
    listener: TcpListener,
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
    http2_max_streams: u32,
}

/// Binds the port and reads the certificate, so that errors with either are known before anything else starts.
pub async fn bind(options: &ServingOptions) -> Result<Bound, BindError> {
    let certificates = Certificates::new(&options.tls, options.address.ip())?;
    let config = Arc::new(server_config(&options.tls, certificates.clone())?);
    let listener =
        TcpListener::bind(options.address)
            .await
            .map_err(|error| match error.kind() {
                ErrorKind::AddrInUse => BindError::InUse(options.address),
                _ => BindError::Listen(options.address, error),
            })?;
    Ok(Bound {
        listener,
        config,
        certificates,
        http2_max_streams: options.http2_max_streams,
    })
}

impl Bound {
    /// The bound address, with the chosen port if port 0 was requested.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown`, then waits for the running requests.
    pub async fn serve(self, endpoints: Endpoints, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        tasks.spawn(self.certificates.clone().keep_reloading(shutdown.clone()));
        let (authentication, dashboard) = (
            endpoints.authentication.clone(),
            endpoints.dashboard.clone(),
        );
        let stop = shutdown.clone();
        tasks.spawn(async move { authentication.run(stop).await });

        let connections = Arc::new(Connections::default());
        let handshakes = Arc::new(Handshakes::default());
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_TIMEOUT)
            .max_buf_size(MAX_HEADER_BYTES.into())
            .max_headers(MAX_HEADERS);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.http2_max_streams)
            .max_header_list_size(MAX_HEADER_BYTES.into())
            .keep_alive_interval(IDLE_TIMEOUT)
            .keep_alive_timeout(HANDSHAKE_TIMEOUT);
        while let Some(accepted) = shutdown.run_until_cancelled(self.listener.accept()).await {
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection");
                    // If file descriptors have run out, it would fail again immediately.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (config, certificates) = (self.config.clone(), self.certificates.clone());
            let (http, endpoints) = (http.clone(), endpoints.clone());
            let handshakes = handshakes.clone();
            let shutdown = shutdown.clone();
            let connection = connections.open(peer.ip());
            tasks.spawn(async move {
                let handshake = async {
                    // A client that sends nothing costs no handshake.
                    stream.peek(&mut [0]).await?;
                    handshakes.wait(peer.ip()).await;
                    accept(stream, &config, &certificates).await
                };
                let ended = tokio::select! {
                    ended = serve(handshake, &connection, http, endpoints, shutdown) => ended,
                    () = connection.evicted() => Err("it waited longest when there were too many".into()),
                };
                if let Err(error) = ended {
                    tracing::debug!(error, %peer, "a connection ended early");
                }
            });
        }
        if let Some(dashboard) = dashboard {
            dashboard.close();
        }
        tasks.close();
        tasks.wait().await;
    }
}

/// Performs the TLS handshake. The certificate depends on the name that the client asks for, or else on the address
/// that it connects to.
async fn accept(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
    certificates: &Certificates,
) -> std::io::Result<TlsStream<TcpStream>> {
    let address = stream.local_addr().ok().map(|address| address.ip());
    let begun = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let config = match begun.client_hello().server_name() {
        Some(_) => config.clone(),
        None => certificates.for_address(config, address),
    };
    begun.into_stream(config).await
}

async fn serve(
    handshake: impl Future<Output = std::io::Result<TlsStream<TcpStream>>>,
    connection: &Connection,
    http: auto::Builder<TokioExecutor>,
    endpoints: Endpoints,
    shutdown: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let handshake = timeout(HANDSHAKE_TIMEOUT, handshake);
    let Some(stream) = shutdown.run_until_cancelled(handshake).await else {
        return Ok(());
    };
    let stream = stream??;
    let certificates: Arc<[_]> = stream
        .get_ref()
        .1
        .peer_certificates()
        .unwrap_or_default()
        .iter()
        .map(|one| one.clone().into_owned())
        .collect();
    let reviews = Arc::new(Semaphore::new(MAX_REVIEWS));
    let service = service_fn(|request| {
        let (endpoints, certificates) = (endpoints.clone(), certificates.clone());
        let in_progress = connection.request();
        let is_reviewed = endpoints.is_reviewed(&request);
        let review = is_reviewed.then(|| reviews.clone().try_acquire_owned());
        async move {
            let mut response = match review.transpose() {
                Ok(_review) => endpoints.handle(&certificates, request).await?,
                Err(_) => too_many_reviews(),
            };
            // A request for events is in progress until they end.
            if let Either::Right(events) = response.body_mut() {
                events.hold(in_progress);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let serving = http.serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        served = serving.as_mut() => return served,
        () = shutdown.cancelled() => {}
        () = connection.idle(IDLE_TIMEOUT) => {}
        () = tokio::time::sleep(MAX_AGE) => {}
    }
    serving.as_mut().graceful_shutdown();
    timeout(DRAIN_TIMEOUT, serving).await?
}
