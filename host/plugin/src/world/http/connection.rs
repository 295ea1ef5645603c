//! The connection of one request: the server's name is resolved once, the addresses are checked, and the connection is
//! made to a checked address. Redirects are not followed: `wasi:http` passes them to the guest.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use http::{Request, Response, Uri};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::Server;
use crate::imports::CheckAddresses;

/// Time to look up a name and to connect, if the guest sets none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that are read ahead of the guest, and the maximum size of a response's headers.
const READ_AHEAD: usize = 64 * 1024;

/// Returns the addresses of a host and port. May block.
type Resolve = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Makes connections.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) resolve: Arc<Resolve>,
    pub(super) tls: Arc<ClientConfig>,
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Default for Dialer {
    /// Uses the system's resolver and trusts the public authorities.
    fn default() -> Self {
        static PUBLIC: LazyLock<Arc<ClientConfig>> =
            LazyLock::new(|| tls_config(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()));
        Self {
            resolve: Arc::new(|host, port| Ok((host, port).to_socket_addrs()?.collect())),
            tls: PUBLIC.clone(),
        }
    }
}

pub(super) fn tls_config(roots: RootCertStore) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .expect("the provider supports the versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// Sends a request over a new connection. Returns the response, and the future that drives the connection while the
/// body of the response is read.
pub(super) async fn send(
    dialer: Dialer,
    server: &Server,
    check: Box<CheckAddresses>,
    permit: Arc<OwnedSemaphorePermit>,
    request: Request<WasiBody>,
    options: RequestOptions,
) -> Result<(Response<WasiBody>, impl Future<Output = ()> + use<>), Error> {
    let limit = options.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    let stream = timeout(limit, dialer.connect(server, check, permit)).await;
    let stream = stream.map_err(|_| Error::ConnectionTimeout)??;
    exchange(stream, request, options).await
}

impl Dialer {
    async fn connect(
        &self,
        server: &Server,
        check: Box<CheckAddresses>,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> Result<Box<dyn Stream>, Error> {
        let addresses = match server.address() {
            Some(address) => vec![SocketAddr::new(address, server.port)],
            None => self.lookup(server, permit).await?,
        };
        let checked = check(addresses).map_err(|denied| {
            tracing::debug!(%denied, "a request of a guest was denied");
            Error::DestinationIpProhibited
        })?;
        let stream = TcpStream::connect(&*checked).await;
        let stream = stream.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
            io::ErrorKind::TimedOut => Error::ConnectionTimeout,
            _ => Error::DestinationUnavailable,
        })?;
        if !server.is_tls {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(server.host.trim_matches(['[', ']']).to_owned())
            .map_err(|_| Error::HttpRequestUriInvalid)?;
        let tls = TlsConnector::from(self.tls.clone());
        let stream = tls.connect(name, stream).await.map_err(|error| {
            let cause = error
                .get_ref()
                .and_then(|cause| cause.downcast_ref::<rustls::Error>());
            match cause {
                Some(rustls::Error::InvalidCertificate(_)) => Error::TlsCertificateError,
                _ => Error::TlsProtocolError,
            }
        })?;
        Ok(Box::new(stream))
    }

    /// Resolves the server's name. The system's resolver can't be stopped, so the permit is held until it has ended.
    async fn lookup(
        &self,
        server: &Server,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> Result<Vec<SocketAddr>, Error> {
        let (resolve, host, port) = (self.resolve.clone(), server.host.clone(), server.port);
        let lookup = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            resolve(&host, port)
        });
        match lookup.await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(_)) | Err(_) => Err(Error::DnsError {
                rcode: None,
                info_code: None,
            }),
        }
    }
}

/// Sends a request over a stream, with the limits on its response.
async fn exchange(
    stream: impl Stream + 'static,
    mut request: Request<WasiBody>,
    options: RequestOptions,
) -> Result<(Response<WasiBody>, impl Future<Output = ()>), Error> {
    // The server is named by the header `host`; only a proxy is sent a whole URI.
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(READ_AHEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failure)?;
    let exchanged = async {
        let send = pin!(sender.send_request(request));
        match select(send, connection).await {
            Either::Left((response, connection)) => Ok((response?, Some(connection))),
            // The server has closed it, maybe after its response.
            Either::Right((Ok(()), response)) => Ok((response.await?, None)),
            Either::Right((Err(error), _)) => Err(error),
        }
    };
    let (response, connection) = match options.first_byte_timeout {
        Some(limit) => timeout(limit, exchanged)
            .await
            .map_err(|_| Error::ConnectionReadTimeout)?,
        None => exchanged.await,
    }
    .map_err(failure)?;
    let response = response.map(|incoming| {
        ResponseBody {
            incoming,
            limit: options.between_bytes_timeout,
            timer: None,
        }
        .boxed_unsync()
    });
    let drive = async move {
        if let Some(connection) = connection {
            // The body of the response reports errors.
            let _ = connection.await;
        }
    };
    Ok((response, drive))
}

/// The body of a response. It is read from the connection as the guest reads it.
struct ResponseBody {
    incoming: Incoming,
    /// Maximum time between two frames; none if only the call's limit applies.
    limit: Option<Duration>,
    /// Runs while the guest waits for a frame.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) {
            self.timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(failure)));
        }
        let Some(limit) = self.limit else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        timer
            .as_mut()
            .poll(context)
            .map(|()| Some(Err(Error::ConnectionReadTimeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.incoming.size_hint()
    }
}

fn failure(error: hyper::Error) -> Error {
    if error.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(None)
    } else if error.is_incomplete_message() {
        Error::HttpResponseIncomplete
    } else if error.is_closed() || error.is_canceled() {
        Error::ConnectionTerminated
    } else {
        Error::HttpProtocolError
    }
}

impl Server {
    /// The address, if the server is not named.
    fn address(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// The capacity of the connection in each direction, in bytes.
    const CAPACITY: usize = 1024;
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";

    type Sent = tokio::task::JoinHandle<Result<Response<WasiBody>, Error>>;

    fn get(uri: &str) -> Request<WasiBody> {
        let body = Empty::new().map_err(|never| match never {});
        Request::get(uri).body(body.boxed_unsync()).unwrap()
    }

    /// Sends a request. Returns the server's end of the connection after it has read the request.
    async fn start(options: RequestOptions) -> (DuplexStream, Sent) {
        let (client, mut server) = duplex(CAPACITY);
        let sent = tokio::spawn(async move {
            let (response, drive) =
                exchange(client, get("http://example.com/a?b"), options).await?;
            tokio::spawn(drive);
            Ok(response)
        });
        let mut head = vec![0; CAPACITY];
        let read = server.read(&mut head).await.unwrap();
        assert!(head[..read].starts_with(b"GET /a?b HTTP/1.1\r\n"));
        (server, sent)
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_is_read_no_further_ahead_than_the_limit() {
        let (mut server, sent) = start(RequestOptions::default()).await;
        server.write_all(HEAD).await.unwrap();
        let response = sent.await.unwrap().unwrap();
        let ahead = vec![0; 2 * READ_AHEAD + CAPACITY];
        let written = timeout(Duration::from_secs(3600), server.write_all(&ahead)).await;
        assert!(written.is_err(), "all of the body was read");
        let mut body = response.into_body();
        assert!(body.frame().await.unwrap().unwrap().is_data());
        server.write_all(b"more").await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_without_end_is_refused() {
        let (mut server, sent) = start(RequestOptions::default()).await;
        server.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        while server.write_all(b"name: value\r\n").await.is_ok() {}
        let error = sent.await.unwrap().unwrap_err();
        assert!(
            matches!(error, Error::HttpResponseHeaderSectionSize(_)),
            "{error:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_redirect_is_passed_to_the_guest() {
        let (mut server, sent) = start(RequestOptions::default()).await;
        let redirect =
            b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n";
        server.write_all(redirect).await.unwrap();
        let response = sent.await.unwrap().unwrap();
        assert_eq!(response.status(), 302);
        assert_eq!(response.headers()["location"], "http://169.254.169.254/");
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_takes_longer_than_the_guest_allows_is_given_up() {
        let options = RequestOptions {
            first_byte_timeout: Some(Duration::from_secs(5)),
            between_bytes_timeout: Some(Duration::from_secs(7)),
            ..RequestOptions::default()
        };
        let (_server, sent) = start(options).await;
        let error = sent.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::ConnectionReadTimeout), "{error:?}");
        let (mut server, sent) = start(options).await;
        server.write_all(HEAD).await.unwrap();
        let response = sent.await.unwrap().unwrap();
        let error = response.into_body().collect().await.unwrap_err();
        assert!(matches!(error, Error::ConnectionReadTimeout), "{error:?}");
    }

    #[tokio::test]
    async fn the_certificate_is_checked_against_the_name() {
        let made = rcgen::generate_simple_self_signed(["example.test".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = made.signing_key.serialize_der().try_into().unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let _serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let _ = acceptor.accept(stream).await;
            }
        });
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let dialer = Dialer {
            resolve: Arc::new(move |_, _| Ok(vec![address])),
            tls: tls_config(roots),
        };
        for (uri, is_valid) in [
            ("https://example.test", true),
            ("https://other.test", false),
        ] {
            let server = Server::of(&uri.parse().unwrap()).unwrap();
            let semaphore = Arc::new(tokio::sync::Semaphore::new(1));
            let permit = Arc::new(semaphore.try_acquire_owned().unwrap());
            let connected = dialer.connect(&server, Box::new(Ok), permit).await;
            match connected {
                Ok(_) => assert!(is_valid, "{uri}"),
                Err(error) => assert!(
                    !is_valid && matches!(error, Error::TlsCertificateError),
                    "{uri}: {error:?}"
                ),
            }
        }
    }
}
