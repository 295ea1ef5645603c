//! Serves the dashboard to the user who started it: over HTTP on a loopback port, which other users of the machine can
//! reach, too.

mod peer;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::pages::{Dashboard, PageBody, SignIn, refusal};
use crate::session::{LinkError, Links};
use crate::source::Source;
use crate::{ROOT, guard};

/// The most connections at once.
const MOST_CONNECTIONS: usize = 256;
/// The longest time that the headers of a request may take.
const HEADERS: Duration = Duration::from_secs(10);
/// The largest body of a request in bytes: a link's token.
const MOST_BODY: usize = 4096;
/// The pause after a failure to accept a connection. If file descriptors have run out, the next try would fail at once.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The port can't be served.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address}: choose another port with --port, or none for a free one")]
pub struct BindError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Serves one user on loopback.
pub struct LocalServer {
    listener: TcpListener,
    /// The address and port, which is the only name of this server.
    own: String,
    dashboard: Dashboard,
    links: Links,
    warn: Box<dyn Fn(Warning) + Send + Sync>,
}

/// What the user should know of: somebody else may be at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A link that was opened before was tried again.
    UsedAgain,
    /// A process of another user connected. It got no answer.
    OtherUser,
}

impl LocalServer {
    /// Listens on a port of 127.0.0.1; on a free one if `port` is 0. `warn` may be called as often as others connect.
    ///
    /// # Errors
    /// Another process uses the port.
    pub async fn bind(
        source: Arc<dyn Source>,
        port: u16,
        warn: impl Fn(Warning) + Send + Sync + 'static,
    ) -> Result<Self, BindError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let cant = |source| BindError { address, source };
        let listener = TcpListener::bind(address).await.map_err(cant)?;
        let own = listener.local_addr().map_err(cant)?.to_string();
        Ok(Self {
            listener,
            own,
            dashboard: Dashboard::new(source, SignIn::Link),
            links: Links::default(),
            warn: Box::new(warn),
        })
    }

    /// Returns a link that signs in whoever opens it first. Its token stands behind `#`, which browsers send to no server.
    pub fn link(&self) -> String {
        format!("http://{}{ROOT}/#token={}", self.own, self.links.add())
    }

    /// Serves until `stop`, then closes all connections.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) {
        let connections = TaskTracker::new();
        let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        while let Some(accepted) = stop.run_until_cancelled(self.listener.accept()).await {
            let Ok((stream, peer)) = accepted else {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let Ok(slot) = slots.clone().try_acquire_owned() else {
                continue;
            };
            if !self.is_own_user(&stream, peer) {
                (self.warn)(Warning::OtherUser);
                continue;
            }
            let (server, stop) = (self.clone(), stop.clone());
            connections.spawn(async move {
                let _slot = slot;
                stop.run_until_cancelled(server.serve_connection(stream))
                    .await;
            });
        }
        connections.close();
        connections.wait().await;
    }

    /// Whether the peer is a process of this user or of root, as far as the system says.
    fn is_own_user(&self, stream: &TcpStream, peer: SocketAddr) -> bool {
        let own = rustix::process::geteuid().as_raw();
        let local = stream.local_addr().ok();
        let user = local.and_then(|local| peer::user(peer, local));
        user.is_none_or(|user| user == own || user == 0)
    }

    async fn serve_connection(&self, stream: TcpStream) {
        let service =
            service_fn(|request| async { Ok::<_, Infallible>(self.handle(request).await) });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = served.await {
            tracing::debug!(%error, "a connection to the dashboard ended early");
        }
    }

    async fn handle(&self, request: Request<Incoming>) -> Response<PageBody> {
        let (head, body) = request.into_parts();
        let foreign = guard::check_host(&head.uri, &head.headers, &self.own);
        if let Err(foreign) = foreign {
            return refusal(StatusCode::MISDIRECTED_REQUEST, &foreign.to_string());
        }
        if let Some(page) = self.dashboard.page(&head.method, head.uri.path()) {
            return page;
        }
        if let Err(foreign) = guard::check_origin(&head.uri, &head.headers, "http") {
            return refusal(StatusCode::FORBIDDEN, &foreign.to_string());
        }
        if Dashboard::is_session(head.uri.path()) && head.method == Method::POST {
            return self.open(body).await;
        }
        match self.dashboard.sessions.find(&head.headers) {
            Some(_) => self
                .dashboard
                .respond(&head.method, &head.uri, &head.headers),
            None => refusal(
                StatusCode::UNAUTHORIZED,
                "this browser is not signed in: open the link that `flyball dashboard` prints",
            ),
        }
    }

    /// Exchanges the token of a link, as in `{"token": "…"}`, for a session.
    async fn open(&self, body: Incoming) -> Response<PageBody> {
        let body = Limited::new(body, MOST_BODY).collect().await;
        let body = body.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match self.links.open(body["token"].as_str().unwrap_or_default()) {
            Ok(()) => self.dashboard.begin(None),
            Err(error) => {
                if error == LinkError::Used {
                    (self.warn)(Warning::UsedAgain);
                }
                refusal(StatusCode::UNAUTHORIZED, &error.to_string())
            }
        }
    }
}
