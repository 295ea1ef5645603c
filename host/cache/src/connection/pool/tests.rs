//! Tests of the pool against a server in memory that counts its connections.

use std::convert::Infallible;

use futures::future::join_all;
use futures::stream;
use http::Method;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::server::conn as server;
use hyper::service::service_fn as serve;
use hyper_util::client::legacy::connect::Connected;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tower::service_fn;

use super::*;
use crate::connection::guard::{NotAllowed, SendGuard};

/// The server's end of each connection that was opened.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Vec<JoinHandle<()>>>>);

/// The client's end of a connection.
struct Io {
    stream: TokioIo<DuplexStream>,
    is_http2: bool,
}

type Gets = Arc<dyn Fn(&'static str) -> BoxFuture<'static, Answer> + Send + Sync>;
type Sends = Arc<dyn Fn(Request<Body>) -> BoxFuture<'static, Answer> + Send + Sync>;
type Answer = Result<Response<ResponseBody>, BoxError>;

impl Server {
    /// A client that gets paths of this server. `streams` is the server's limit over HTTP/2; none if it speaks only
    /// HTTP/1.1.
    fn client(&self, streams: Option<u32>) -> Gets {
        let send = self.sender(streams);
        Arc::new(move |path| {
            let request = Request::get(format!("https://server:6443{path}")).body(Body::empty());
            let send = send.clone();
            async move { send(request?).await }.boxed()
        })
    }

    fn sender(&self, streams: Option<u32>) -> Sends {
        let this = self.clone();
        let connector = service_fn(move |_: Uri| {
            let (client, server) = tokio::io::duplex(64 * 1024);
            this.0.lock().push(tokio::spawn(run(server, streams)));
            let (stream, is_http2) = (TokioIo::new(client), streams.is_some());
            async move { Ok::<_, Infallible>(Io { stream, is_http2 }) }
        });
        let server = Uri::from_static("https://server:6443");
        let pool = Arc::new(Pool::new(connector, server, None));
        Arc::new(move |request| pool.clone().send(request).boxed())
    }

    /// The number of connections that were opened, without those that [`Server::close`] closed.
    fn opened(&self) -> usize {
        self.0.lock().len()
    }

    async fn close(&self, connection: usize) {
        let connection = self.0.lock().remove(connection);
        connection.abort();
        // An error means that it is aborted.
        let _ = connection.await;
    }
}

async fn run(stream: DuplexStream, streams: Option<u32>) {
    let (io, service) = (TokioIo::new(stream), serve(answer));
    // An error means that the client closed the connection.
    let _ = match streams {
        Some(streams) => {
            let mut http = server::http2::Builder::new(TokioExecutor::new());
            http.max_concurrent_streams(streams);
            http.serve_connection(io, service).await
        }
        None => {
            let http = server::http1::Builder::new();
            http.serve_connection(io, service).await
        }
    };
}

/// The response to a POST is its complete body. `/watch` is a response that never ends, and `/hang` has none.
async fn answer(
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let body = match request.uri().path() {
        "/watch" => BoxBody::new(StreamBody::new(stream::pending())),
        "/hang" => std::future::pending().await,
        _ if request.method() == Method::POST => match request.into_body().collect().await {
            Ok(body) => BoxBody::new(Full::from(body.to_bytes())),
            Err(_) => std::future::pending().await,
        },
        _ => BoxBody::new(Full::from("done")),
    };
    Ok(Response::new(body))
}

async fn text(answer: Answer) -> Result<Bytes, BoxError> {
    Ok(answer?.into_body().collect().await?.to_bytes())
}

#[tokio::test]
async fn watches_share_connections_up_to_the_limit_of_streams() -> Result<(), BoxError> {
    let server = Server::default();
    let get = server.client(Some(STREAMS as u32));
    let watches = join_all((0..250).map(|_| get("/watch"))).await;
    assert!(watches.iter().all(Result::is_ok));
    assert_eq!(server.opened(), 3);
    assert_eq!(text(get("/").await).await?, "done");
    drop(watches);
    let watches = join_all((0..100).map(|_| get("/watch"))).await;
    assert!(watches.iter().all(Result::is_ok));
    assert_eq!(server.opened(), 3);
    Ok(())
}

#[tokio::test]
async fn a_lower_limit_of_the_server_holds() -> Result<(), BoxError> {
    let server = Server::default();
    let get = server.client(Some(10));
    text(get("/").await).await?;
    let mut watches = Vec::new();
    for _ in 0..25 {
        watches.push(get("/watch").await?);
    }
    assert_eq!(server.opened(), 3);
    Ok(())
}

#[tokio::test]
async fn over_http1_a_connection_has_one_request_at_a_time() -> Result<(), BoxError> {
    let server = Server::default();
    let get = server.client(None);
    for _ in 0..3 {
        assert_eq!(text(get("/").await).await?, "done");
    }
    assert_eq!(server.opened(), 1);
    let watches = join_all((0..3).map(|_| get("/watch"))).await;
    assert!(watches.iter().all(Result::is_ok));
    assert_eq!(server.opened(), 3);
    Ok(())
}

#[tokio::test]
async fn a_closed_connection_is_replaced() -> Result<(), BoxError> {
    for streams in [Some(100), None] {
        let server = Server::default();
        let get = server.client(streams);
        text(get("/").await).await?;
        server.close(0).await;
        assert_eq!(text(get("/").await).await?, "done", "{streams:?}");
        assert_eq!(server.opened(), 1, "{streams:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_answer_gets_no_further_requests() -> Result<(), BoxError> {
    let server = Server::default();
    let get = server.client(Some(100));
    let mut watch = get("/watch").await?;
    let hanging = timeout(Duration::from_secs(1), get("/hang")).await;
    assert!(hanging.is_err());
    text(get("/").await).await?;
    assert_eq!(server.opened(), 2);
    // The watch goes on over the first one.
    assert!(watch.frame().now_or_never().is_none());
    server.close(0).await;
    assert!(watch.frame().await.is_some_and(|frame| frame.is_err()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn unused_connections_are_closed_after_a_while() -> Result<(), BoxError> {
    let server = Server::default();
    let get = server.client(Some(100));
    drop(join_all((0..150).map(|_| get("/watch"))).await);
    tokio::time::sleep(IDLE).await;
    text(get("/").await).await?;
    assert_eq!(server.opened(), 3);
    let closed: Vec<_> = server.0.lock().drain(..2).collect();
    join_all(closed).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_request_is_not_completed_once_its_guard_forbids_it() -> Result<(), BoxError> {
    for streams in [Some(100), None] {
        let server = Server::default();
        let send = server.sender(streams);
        let post = |checks: usize| {
            let left = AtomicUsize::new(checks);
            let guard = SendGuard::new(move || {
                let taken = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
                taken.is_ok()
            });
            let request = Request::post("https://server:6443/").extension(guard);
            let sent = request.body(Body::from(b"change".to_vec())).map(&*send);
            async move { timeout(Duration::from_secs(1), sent?).await? }
        };
        let refused = post(0).await.err().ok_or("a request was sent")?;
        assert!(refused.is::<NotAllowed>(), "{refused}");
        assert_eq!(server.opened(), 0, "{streams:?}");
        assert_eq!(text(post(usize::MAX).await).await?, "change", "{streams:?}");
        // The connection is open, so the guard is asked once more before the body.
        assert!(post(1).await.is_err(), "{streams:?}");
        assert_eq!(text(post(usize::MAX).await).await?, "change", "{streams:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_write_that_a_server_ignored_while_it_shut_down_is_sent_again() -> Result<(), BoxError> {
    let opened = Arc::new(AtomicUsize::new(0));
    let connections = opened.clone();
    let connector = service_fn(move |_: Uri| {
        let (client, server) = tokio::io::duplex(64 * 1024);
        match connections.fetch_add(1, Relaxed) {
            0 => drop(tokio::spawn(go_away(server))),
            _ => drop(tokio::spawn(run(server, Some(100)))),
        }
        let (stream, is_http2) = (TokioIo::new(client), true);
        async move { Ok::<_, Infallible>(Io { stream, is_http2 }) }
    });
    let server = Uri::from_static("https://server:6443");
    let pool = Arc::new(Pool::new(connector, server, None));
    let request = Request::post("https://server:6443/").body(Body::from(b"change".to_vec()))?;
    assert_eq!(text(pool.send(request).await).await?, "change");
    assert_eq!(opened.load(Relaxed), 2);
    Ok(())
}

/// Answers the first request over HTTP/2 by the notice that it, and each later one, is not processed.
async fn go_away(mut stream: DuplexStream) -> std::io::Result<()> {
    const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
    const HEADERS: u8 = 1;
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    // On the stream 0, with the last processed stream 0 and no error.
    const GO_AWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    stream.write_all(&SETTINGS).await?;
    stream.read_exact(&mut [0; PREFACE]).await?;
    let mut frame = [0; 9];
    while frame[3] != HEADERS {
        stream.read_exact(&mut frame).await?;
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await?;
    }
    stream.write_all(&GO_AWAY).await?;
    // The client closes the connection.
    stream.read_to_end(&mut Vec::new()).await.map(drop)
}

impl Connection for Io {
    fn connected(&self) -> Connected {
        match self.is_http2 {
            true => Connected::new().negotiated_h2(),
            false => Connected::new(),
        }
    }
}

impl Read for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
