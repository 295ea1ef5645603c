//! Takes the port, accepts connections and serves requests over them, within bounds.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Duration, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::handler::Endpoints;
use crate::tls::{CertificateError, ServedCertificate, TlsOptions, server_config};

/// Connections at a time; more wait.
const MAX_CONNECTIONS: usize = 256;
/// Within which a connection must be secured.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Within which the head of a request must have come, and how long a connection may be idle between two.
const HEAD: Duration = Duration::from_secs(30);
/// After which a connection is closed between two requests, so that nobody holds a place for ever.
const LIFETIME: Duration = Duration::from_secs(600);
/// For how long a connection may finish what it does when it is to be closed.
const DRAIN: Duration = Duration::from_secs(5);

/// Where and how to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingOptions {
    /// The address and port to listen on.
    pub address: SocketAddr,
    /// How connections are secured.
    pub tls: TlsOptions,
    /// Requests at a time over one HTTP/2 connection.
    pub http2_max_streams: u32,
}

/// Why it can't be served. Each is a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process has the port.
    #[error(
        "the port of {0} is in use by another process: stop that one, or serve on another --secure-port"
    )]
    InUse(SocketAddr),
    /// The operating system does not allow it, or has no such address.
    #[error("can't listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// There is no certificate to serve with.
    #[error("can't serve over HTTPS")]
    Certificate(#[from] CertificateError),
    /// The settings don't fit together.
    #[error("can't serve over HTTPS")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

/// A port that is taken, and not served yet.
pub struct Bound {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    certificate: Arc<ServedCertificate>,
    http2_max_streams: u32,
}

/// Takes the port and reads the certificate, so that what is wrong with them is known before anything else starts.
pub async fn bind(options: &ServingOptions) -> Result<Bound, BindError> {
    let certificate =
        ServedCertificate::new(options.tls.certificate.clone(), options.address.ip())?;
    let config = server_config(&options.tls, certificate.clone())?;
    let listener =
        TcpListener::bind(options.address)
            .await
            .map_err(|error| match error.kind() {
                ErrorKind::AddrInUse => BindError::InUse(options.address),
                _ => BindError::Listen(options.address, error),
            })?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Ok(Bound {
        listener,
        acceptor,
        certificate,
        http2_max_streams: options.http2_max_streams,
    })
}

impl Bound {
    /// The address that is listened on, with the port that was chosen if 0 was asked for.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown`, then lets running requests end. Returns when everything has.
    pub async fn serve(self, endpoints: Endpoints, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        tasks.spawn(self.certificate.clone().keep_reloading(shutdown.clone()));
        let authentication = endpoints.authentication.clone();
        let stop = shutdown.clone();
        tasks.spawn(async move { authentication.run(stop).await });

        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.http2_max_streams)
            .keep_alive_interval(HEAD)
            .keep_alive_timeout(HANDSHAKE);
        while let Some(Ok(place)) = shutdown
            .run_until_cancelled(places.clone().acquire_owned())
            .await
        {
            let Some(accepted) = shutdown.run_until_cancelled(self.listener.accept()).await else {
                break;
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection can't be accepted");
                    // Where file descriptors have run out, it would fail again at once.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (acceptor, http, endpoints) =
                (self.acceptor.clone(), http.clone(), endpoints.clone());
            let shutdown = shutdown.clone();
            tasks.spawn(async move {
                connection(stream, acceptor, http, endpoints, shutdown)
                    .await
                    .unwrap_or_else(|error| {
                        tracing::debug!(error, %peer, "a connection ended early");
                    });
                drop(place);
            });
        }
        tasks.close();
        tasks.wait().await;
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    http: auto::Builder<TokioExecutor>,
    endpoints: Endpoints,
    shutdown: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = timeout(HANDSHAKE, acceptor.accept(stream)).await??;
    let certificates: Arc<[_]> = stream
        .get_ref()
        .1
        .peer_certificates()
        .unwrap_or_default()
        .iter()
        .map(|one| one.clone().into_owned())
        .collect();
    let service = service_fn(|request| {
        let (endpoints, certificates) = (endpoints.clone(), certificates.clone());
        async move { endpoints.handle(&certificates, request).await }
    });
    let serving = http.serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let end = async {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(LIFETIME) => {}
        }
    };
    tokio::select! {
        served = serving.as_mut() => return served,
        () = end => serving.as_mut().graceful_shutdown(),
    }
    timeout(DRAIN, serving).await?
}
