//! The cluster in memory as an API server over HTTP.
//!
//! A request goes through `request` (the path and the query), then to `discovery`, `objects` (reads and writes) or
//! `watches`. Every write is a write to the [`Cluster`], which decides on versions, finalizers, patches and ownership.
//! `watches` turns the changes of its objects into events. `flyball plan` has a server of its own, over a real cluster,
//! which reads requests in the same way (`request`, `writes`).
//!
//! Everybody may do everything: there is no authentication, access reviews are always positive, and there are no
//! admission and no conversions between versions. Objects are checked by CustomResourceDefinitions alone, as in the
//! cluster; a write that has unknown fields is answered with the server's warnings.

pub mod discovery;
mod objects;
pub mod request;
mod watches;
pub mod writes;

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;
use flyball_sdk::testing::{Cluster, Written};
use flyball_types::ApiError;
use flyball_types::description::Description;
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::spawn_local;

pub use self::discovery::Served;
use self::request::Call;
use self::watches::Watches;

/// An API server on loopback. It ends with its [`tokio::task::LocalSet`].
pub struct ApiServer {
    address: SocketAddr,
    state: Rc<RefCell<State>>,
}

/// The objects, their kinds, and the clients that watch them.
struct State {
    cluster: Cluster,
    kinds: Vec<Served>,
    watches: Watches,
    /// The warnings of the current answer.
    warnings: Vec<String>,
}

/// The response to a call.
enum Reply {
    Json(u16, Value),
    /// A line of JSON for each event.
    Events(UnboundedReceiver<Bytes>),
}

impl ApiServer {
    /// Starts a server of these kinds on a free port. Call it within a [`tokio::task::LocalSet`].
    ///
    /// # Errors
    /// No port can be opened.
    pub async fn start(kinds: Vec<Served>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let cluster = Cluster::new();
        cluster.set_now(request::now());
        // The host logs them.
        cluster.hide_warnings();
        let state = Rc::new(RefCell::new(State {
            watches: Watches::new(cluster.next_version()),
            cluster,
            kinds,
            warnings: Vec::new(),
        }));
        spawn_local(accept(listener, Rc::clone(&state), respond));
        Ok(Self { address, state })
    }

    /// The URL for a kubeconfig.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stores an object as it stands, with its status. Its resource version is a new one.
    ///
    /// # Errors
    /// The object has no name, the server does not serve its kind, or it does not fit its CustomResourceDefinition.
    pub fn put(&self, object: Value) -> Result<(), String> {
        self.state.borrow_mut().put(object)
    }

    /// Checks that the fields which a description declares are in the CustomResourceDefinitions.
    ///
    /// # Errors
    /// A field that the definition of its kind lacks.
    pub fn check_fields(&self, description: &Description) -> Result<(), String> {
        let description = description.clone().into();
        self.state.borrow().cluster.check_fields(&description)
    }

    /// The objects of a kind, ordered by namespace and name.
    pub fn objects(&self, kind: &str) -> Vec<Value> {
        self.state.borrow().cluster.objects(kind)
    }

    /// The kinds that are served.
    pub fn kinds(&self) -> Vec<Served> {
        self.state.borrow().kinds.clone()
    }

    /// The writes since the last call, including failed ones.
    pub fn writes(&self) -> Vec<Written> {
        self.state.borrow().cluster.writes()
    }

    /// The latest resource version. It stays the same as long as nothing changes.
    pub fn version(&self) -> u64 {
        self.state.borrow().watches.version()
    }
}

/// Serves connections, each in a task of this thread, until it is dropped.
pub async fn accept<S: 'static, F>(
    listener: TcpListener,
    state: Rc<S>,
    respond: fn(Rc<S>, Request<Incoming>) -> F,
) where
    F: Future<Output = Result<Response<Body>, hyper::Error>> + 'static,
{
    // The listener fails only if the process has no file descriptors left. The client then waits for its time-out.
    while let Ok((stream, _)) = listener.accept().await {
        let state = Rc::clone(&state);
        let service = service_fn(move |request| respond(Rc::clone(&state), request));
        let connection = hyper::server::conn::http1::Builder::new();
        // A client that goes away ends its connection alone.
        spawn_local(connection.serve_connection(TokioIo::new(stream), service));
    }
}

/// The body of a response: a whole document, or the events of a watch.
pub type Body = Either<
    Full<Bytes>,
    StreamBody<futures::stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>,
>;

async fn respond(
    state: Rc<RefCell<State>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let agent = text(&head.headers, header::USER_AGENT);
    let call = Call {
        method: &head.method,
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        // As on the server, the user agent's product is the field manager of a write without one.
        agent: agent.split('/').next().unwrap_or_default(),
        accept: text(&head.headers, header::ACCEPT),
        content_type: text(&head.headers, header::CONTENT_TYPE),
        body: &body,
    };
    let (reply, warnings) = {
        let mut state = state.borrow_mut();
        let reply = state.reply(&call);
        (reply, std::mem::take(&mut state.warnings))
    };
    let reply = reply.unwrap_or_else(|error| Reply::Json(error.status, status(&error)));
    let (status, body) = match reply {
        Reply::Json(status, value) => (status, Either::Left(Full::from(value.to_string()))),
        Reply::Events(events) => {
            let frames = events.map(|line| Ok(Frame::data(line))).boxed();
            (200, Either::Right(StreamBody::new(frames)))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status.try_into().unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    for warning in warnings {
        let quoted = warning.replace('\\', r"\\").replace('"', "\\\"");
        // A header can't hold the rest of what a field's name can.
        if let Ok(value) = HeaderValue::try_from(format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    Ok(response)
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// An error as the API's `Status`.
pub fn status(error: &ApiError) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "code": error.status,
        "reason": error.reason,
        "message": error.message,
    })
}

#[cfg(test)]
mod tests;
