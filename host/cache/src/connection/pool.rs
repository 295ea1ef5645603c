//! A pool of connections to one server. Over HTTP/2, up to [`STREAMS`] requests share a connection. A server that
//! speaks only HTTP/1.1 gets a connection for each concurrent request.
//!
//! hyper-util's pool opens at most one HTTP/2 connection to a server, and further requests wait for a free stream.
//! Watches occupy streams for minutes, so this pool opens another connection instead.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, poll_fn};
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tower::{BoxError, Service, ServiceExt as _};

use super::guard::{GuardedBody, guarded};

/// The maximum number of concurrent requests over an HTTP/2 connection: the default limit of API servers. A lower limit
/// of the server holds, too.
const STREAMS: usize = 100;
/// How much of a response the server sends before it is read, in bytes. With hyper's window of 5 MiB for a connection,
/// 20 unread responses hold up the others. Reflectors and clients read without waiting for anything else.
const UNREAD: u32 = 256 * 1024;
/// The size of the read buffer of an HTTP/1.1 connection, in bytes.
const BUFFER: usize = 64 * 1024;
/// How long an unused connection stays open, as in client-go.
const IDLE: Duration = Duration::from_secs(90);
/// The interval of pings while nothing is received, and the time to answer one, as in client-go.
const PING: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How often a request is sent if the server closes each connection before it has looked at the request.
const ATTEMPTS: usize = 5;

/// Connections to a server.
pub(super) struct Pool<C> {
    connector: C,
    server: Uri,
    /// The limit for a connection with its handshakes; none if there is none.
    connect_timeout: Option<Duration>,
    open: Arc<Mutex<Open>>,
    /// Held while connecting, so that concurrent requests share the new connection.
    connecting: tokio::sync::Mutex<()>,
    /// Whether the last connection speaks HTTP/2. Assumed before the first one.
    is_multiplexed: AtomicBool,
}

/// The open connections.
#[derive(Default)]
struct Open {
    connections: Vec<PooledConnection>,
    last_id: u64,
}

struct PooledConnection {
    id: u64,
    sender: Sender,
    /// The number of requests whose responses have not ended.
    requests: usize,
    idle_since: Instant,
}

enum Sender {
    Http1(http1::SendRequest<GuardedBody>),
    /// With the maximum number of concurrent requests.
    Http2(http2::SendRequest<GuardedBody>, Arc<AtomicUsize>),
}

/// A request's part of a connection. Dropping it makes room for another request.
struct Stream {
    open: Arc<Mutex<Open>>,
    connection: u64,
    is_answered: bool,
}

/// The body of a response. It occupies its part of the connection until it is dropped.
pub struct ResponseBody {
    body: Incoming,
    _stream: Option<Stream>,
}

type Sent = BoxFuture<'static, Result<Response<Incoming>, TrySendError<Request<GuardedBody>>>>;

impl<C> Pool<C>
where
    C: Service<Uri> + Clone,
    C::Response: Read + Write + Connection + Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    /// Sends nothing before the first request.
    pub(super) fn new(connector: C, server: Uri, connect_timeout: Option<Duration>) -> Self {
        Self {
            connector,
            server,
            connect_timeout,
            open: Arc::default(),
            connecting: tokio::sync::Mutex::default(),
            is_multiplexed: AtomicBool::new(true),
        }
    }

    /// Sends a request with an absolute URI, while its guard allows it.
    pub(super) async fn send(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let mut request = guarded(request);
        let mut attempt = 1;
        loop {
            let mut copy = try_clone(&request);
            let (mut stream, sent) = self.start(request).await?;
            match sent.await {
                Ok(response) => {
                    stream.is_answered = true;
                    return Ok(response.map(|body| ResponseBody {
                        body,
                        _stream: Some(stream),
                    }));
                }
                Err(mut error) => {
                    // The server has closed the connection. Nothing was sent, or what was sent was not looked at.
                    let unsent = error.take_message();
                    let ignored = || copy.take_if(|_| was_ignored(error.error()));
                    match unsent.or_else(ignored) {
                        Some(again) if attempt < ATTEMPTS => request = again,
                        _ => return Err(error.into_error().into()),
                    }
                }
            }
            attempt += 1;
        }
    }

    /// Starts a request on a connection that has room, or on a new one.
    async fn start(&self, request: Request<GuardedBody>) -> Result<(Stream, Sent), BoxError> {
        let mut request = Some(request);
        loop {
            if let Some(request) = &request {
                request.body().check()?;
            }
            if let Some(started) = start_on(&self.open, &mut request) {
                return Ok(started);
            }
            let connecting = match self.is_multiplexed.load(Relaxed) {
                true => Some(self.connecting.lock().await),
                false => None,
            };
            // Another request may have opened a connection in the meantime.
            if let Some(started) = start_on(&self.open, &mut request) {
                return Ok(started);
            }
            let connected = self.connect();
            let sender = match self.connect_timeout {
                Some(limit) => timeout(limit, connected)
                    .await
                    .map_err(|_| format!("no connection within {} s", limit.as_secs()))??,
                None => connected.await?,
            };
            self.is_multiplexed
                .store(matches!(sender, Sender::Http2(..)), Relaxed);
            self.open.lock().add(sender);
            drop(connecting);
        }
    }

    async fn connect(&self) -> Result<Sender, BoxError> {
        let connector = self.connector.clone();
        let io = connector.oneshot(self.server.clone()).await;
        let io = io.map_err(Into::<BoxError>::into)?;
        if !io.connected().is_negotiated_h2() {
            let mut http = http1::Builder::new();
            let (mut sender, connection) = http.max_buf_size(BUFFER).handshake(io).await?;
            tokio::spawn(connection);
            sender.ready().await?;
            return Ok(Sender::Http1(sender));
        }
        let (sender, mut connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_max_send_streams(STREAMS)
            .initial_stream_window_size(UNREAD)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(io)
            .await?;
        let limit = Arc::new(AtomicUsize::new(STREAMS));
        let server_limit = limit.clone();
        // Polled for each request, so the server's limit is known once it has answered one.
        tokio::spawn(poll_fn(move |context| {
            let ended = connection.poll_unpin(context);
            let streams = connection.current_max_send_streams();
            server_limit.store(streams.clamp(1, STREAMS), Relaxed);
            ended
        }));
        Ok(Sender::Http2(sender, limit))
    }
}

/// Takes a request and starts it on the first connection that has room, so that the others can become idle. Does nothing
/// if none has.
fn start_on(
    open: &Arc<Mutex<Open>>,
    request: &mut Option<Request<GuardedBody>>,
) -> Option<(Stream, Sent)> {
    let mut held = open.lock();
    let now = Instant::now();
    held.connections.retain(|connection| {
        let is_used = connection.requests > 0 || now < connection.idle_since + IDLE;
        is_used && !connection.sender.is_closed()
    });
    let mut with_room = held.connections.iter_mut();
    let connection = with_room.find(|connection| connection.has_room())?;
    let request = request.take()?;
    connection.requests += 1;
    let stream = Stream {
        open: open.clone(),
        connection: connection.id,
        is_answered: false,
    };
    Some((stream, connection.sender.send(request)))
}

impl Open {
    fn add(&mut self, sender: Sender) {
        self.last_id += 1;
        self.connections.push(PooledConnection {
            id: self.last_id,
            sender,
            requests: 0,
            idle_since: Instant::now(),
        });
    }
}

impl PooledConnection {
    fn has_room(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => self.requests == 0 && sender.is_ready(),
            Sender::Http2(_, limit) => self.requests < limit.load(Relaxed),
        }
    }
}

impl Sender {
    fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender, _) => sender.is_closed(),
        }
    }

    fn send(&mut self, mut request: Request<GuardedBody>) -> Sent {
        match self {
            Self::Http1(sender) => {
                to_origin_form(&mut request);
                sender.try_send_request(request).boxed()
            }
            Self::Http2(sender, _) => sender.try_send_request(request).boxed(),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        let connections = &mut open.connections;
        let Some(at) = connections
            .iter()
            .position(|connection| connection.id == self.connection)
        else {
            return;
        };
        if self.is_answered {
            connections[at].requests -= 1;
            connections[at].idle_since = Instant::now();
        } else {
            // The caller gave up, or the connection failed: it may be dead, and a ping tells only after a while. Its
            // other requests go on.
            connections.swap_remove(at);
        }
    }
}

impl From<Incoming> for ResponseBody {
    /// A body over a connection that is not pooled.
    fn from(body: Incoming) -> Self {
        Self {
            body,
            _stream: None,
        }
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the same request for another attempt; `None` if its body is a stream.
fn try_clone(request: &Request<GuardedBody>) -> Option<Request<GuardedBody>> {
    let body = request.body().try_clone()?;
    let mut copy = Request::new(body);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

/// Whether the server says that it has not processed the request: it was shutting down when the request arrived, or
/// refused its stream.
fn was_ignored(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error);
    source
        .and_then(|source| source.downcast_ref::<h2::Error>())
        .filter(|error| error.is_remote())
        .is_some_and(|error| match error.reason() {
            Some(h2::Reason::NO_ERROR) => error.is_go_away(),
            Some(h2::Reason::REFUSED_STREAM) => error.is_reset(),
            _ => false,
        })
}

/// Moves the server's address from the URI to the `Host` header, as HTTP/1.1 requires.
fn to_origin_form<B>(request: &mut Request<B>) {
    let uri = request.uri();
    let host = uri
        .authority()
        .and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    let path = uri.path_and_query().cloned();
    if let Some(host) = host {
        request.headers_mut().insert(HOST, host);
        *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    }
}

#[cfg(test)]
mod tests;
