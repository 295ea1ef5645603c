//! The API server of a plan, on loopback. Only clients with its token are served: they read the cluster with the rights of
//! the kubeconfig.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;
use flyball_testserver::api::request::{self, Call, not_found};
use flyball_testserver::api::{Body, accept, status, writes as answers};
use flyball_types::ApiError;
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::spawn_local;

use crate::base::Base;
use crate::kinds::Kinds;
use crate::outcome::Outcome;
use crate::overlay::{Id, Overlay};
use crate::writes::Origin;

/// The most distinct notes that are kept.
const MAX_NOTES: usize = 1000;

/// Options of a plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// The only namespace that is read and written; all if there is none. Cluster-scoped objects are always served.
    pub namespace: Option<String>,
    /// The most writes. Later ones are refused.
    pub max_writes: usize,
    pub pods: Pods,
}

/// What becomes of the pods that a plan creates or deletes: no kubelet sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// Created ones run and are ready at once, those of Jobs succeed, and deleted ones end.
    Run,
    /// They stay as the controllers leave them: created ones are pending, and deleted ones on a node are terminating.
    Stay,
}

/// How far a plan has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The latest resource version. It stays the same as long as nothing is written.
    pub version: u64,
    /// The writes that were admitted.
    pub writes: usize,
    /// The requests that are being served, without watches.
    pub requests: usize,
    /// Whether a write was refused because the plan had reached its limit of writes.
    pub is_full: bool,
    /// Whether a list was refused: a controller that needs it never begins.
    pub has_refused_lists: bool,
}

/// The API server. It ends with its [`tokio::task::LocalSet`].
pub struct Server {
    address: SocketAddr,
    shared: Rc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) base: Base,
    pub(crate) options: Options,
    pub(crate) token: String,
    pub(crate) state: RefCell<State>,
    /// Writes take turns, so that a plan does not depend on the order in which dry runs are answered.
    pub(crate) writing: Mutex<()>,
    requests: Cell<usize>,
}

/// What requests change. Never borrowed while one waits.
pub(crate) struct State {
    pub(crate) kinds: Kinds,
    pub(crate) overlay: Overlay,
    /// The version of the first list of each kind that the base returned.
    pub(crate) listed: BTreeMap<String, u64>,
    /// The custom kinds whose definitions were looked for.
    pub(crate) defined: BTreeSet<String>,
    /// The verbs and kinds of which the server refuses dry runs.
    pub(crate) unchecked: BTreeSet<String>,
    pub(crate) writes: usize,
    pub(crate) is_full: bool,
    pub(crate) has_refused_lists: bool,
    /// The events that controllers record, each with the number of times.
    pub(crate) events: BTreeMap<String, usize>,
    /// What the reader of the plan should know, each with the number of times.
    pub(crate) notes: BTreeMap<String, usize>,
}

impl State {
    /// Keeps a note for the reader. Of very many, only the first ones are kept.
    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES || self.notes.contains_key(&note) {
            *self.notes.entry(note).or_default() += 1;
        }
    }
}

/// The response to a request.
pub(crate) enum Reply {
    Json(u16, Value),
    /// JSON, with the status 200.
    Raw(Bytes),
    /// A line of JSON for each event.
    Events(UnboundedReceiver<Bytes>),
}

impl Server {
    /// Starts a server over a base, on a free port. Call it within a [`tokio::task::LocalSet`].
    ///
    /// # Errors
    /// The base can't be asked for its kinds, or no port can be opened.
    pub async fn start(base: Base, options: Options) -> Result<Self, ApiError> {
        let kinds = base.kinds().await?;
        let cant_open = |error: io::Error| {
            let message = format!("can't open a port on this machine: {error}");
            ApiError::of_server(500, "InternalError", message)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(cant_open)?;
        let address = listener.local_addr().map_err(cant_open)?;
        let shared = Rc::new(Shared::new(base, kinds, options));
        spawn_local(accept(listener, Rc::clone(&shared), respond));
        Ok(Self { address, shared })
    }

    /// The URL for a kubeconfig.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The bearer token for a kubeconfig.
    pub fn token(&self) -> &str {
        &self.shared.token
    }

    /// Applies an object as `kubectl apply` would. It becomes a part of the plan's given change.
    ///
    /// # Errors
    /// The object has no name or no served kind, or the server refuses it.
    pub async fn apply(&self, object: &Value) -> Result<(), ApiError> {
        self.shared.apply(object).await
    }

    /// Deletes the object of this kind, namespace and name as a part of the plan's given change.
    ///
    /// # Errors
    /// There is no such object, or its kind is not served.
    pub async fn delete(&self, object: &Value) -> Result<(), ApiError> {
        self.shared.delete(object).await
    }

    /// Takes an object for granted: it exists from the beginning, and is no part of the outcome. One that the base has
    /// stays as it is.
    ///
    /// # Errors
    /// The object has no name or no served kind, or the base can't be asked for it.
    pub async fn assume(&self, object: Value) -> Result<(), ApiError> {
        let target = self.shared.target_of(&object)?;
        let id = Id::new(&target.kind, &target.namespace, &target.name);
        self.shared.load(&id).await?;
        let state = &mut *self.shared.state.borrow_mut();
        if state.overlay.current(&id).is_none() {
            let put = state.overlay.cluster.try_put(object);
            put.map_err(|mistake| ApiError::of_server(422, "Invalid", mistake))?;
            let current = state.overlay.current(&id);
            if let Some(taken) = state.overlay.taken_mut(&id) {
                taken.before = current;
            }
        }
        Ok(())
    }

    pub fn progress(&self) -> Progress {
        let state = self.shared.state.borrow();
        Progress {
            version: state.overlay.watches.version(),
            writes: state.writes,
            requests: self.shared.requests.get(),
            is_full: state.is_full,
            has_refused_lists: state.has_refused_lists,
        }
    }

    /// What the plan has found so far.
    pub fn outcome(&self) -> Outcome {
        let state = self.shared.state.borrow();
        Outcome::of(&state)
    }
}

impl Shared {
    pub(crate) fn new(base: Base, kinds: Kinds, options: Options) -> Self {
        Self {
            base,
            options,
            token: format!("{:032x}", rand::random::<u128>()),
            state: RefCell::new(State {
                kinds,
                overlay: Overlay::new(),
                listed: BTreeMap::new(),
                defined: BTreeSet::new(),
                unchecked: BTreeSet::new(),
                writes: 0,
                is_full: false,
                has_refused_lists: false,
                events: BTreeMap::new(),
                notes: BTreeMap::new(),
            }),
            writing: Mutex::new(()),
            requests: Cell::new(0),
        }
    }

    /// Answers a request.
    pub(crate) async fn reply(&self, call: &Call<'_>) -> Result<Reply, ApiError> {
        match call.path {
            "/api" => return Ok(Reply::Json(200, self.state.borrow().kinds.core.clone())),
            "/apis" => return Ok(Reply::Json(200, self.state.borrow().kinds.groups.clone())),
            _ => {}
        }
        // Whether a plugin may do what it does is not what a plan is asked.
        if let Some(answer) = answers::answer(call, &self.token)? {
            return Ok(Reply::Json(201, answer));
        }
        let target = request::target(call.path, self.state.borrow().kinds.served());
        match (target, call.method) {
            (Some(target), &Method::GET) => self.read(call, &target).await,
            (Some(target), _) => {
                let origin = Origin::controller(call.agent);
                self.write(call, target, &origin).await
            }
            (None, &Method::GET) => self.raw(call).await,
            (None, _) => Err(not_found(call.path)),
        }
    }
}

/// Counts a request until it is dropped.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn respond(
    shared: Rc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let _counted = Counted::new(&shared.requests);
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let call = Call {
        method: &head.method,
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        agent: text(&head.headers, header::USER_AGENT),
        accept: text(&head.headers, header::ACCEPT),
        content_type: text(&head.headers, header::CONTENT_TYPE),
        body: &body,
    };
    let reply = match is_authorized(&head.headers, &shared.token) {
        true => shared.reply(&call).await,
        false => Err(ApiError::of_server(401, "Unauthorized", "Unauthorized")),
    };
    let reply = reply.unwrap_or_else(|error| Reply::Json(error.status, status(&error)));
    let (status, body) = match reply {
        Reply::Json(status, value) => (status, Either::Left(Full::from(value.to_string()))),
        Reply::Raw(body) => (200, Either::Left(Full::new(body))),
        Reply::Events(events) => {
            let frames = events.map(|line| Ok(Frame::data(line))).boxed();
            (200, Either::Right(StreamBody::new(frames)))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status.try_into().unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

fn is_authorized(headers: &HeaderMap, token: &str) -> bool {
    let sent = text(headers, header::AUTHORIZATION);
    sent.strip_prefix("Bearer ") == Some(token)
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

#[cfg(test)]
mod tests;
