//! Responds to the requests of the dashboard.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, HeaderValue, SET_COOKIE};
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use http_body_util::{Either, Full};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::feed::Feed;
use crate::session::Sessions;
use crate::source::Source;
use crate::stream::{Events, View};
use crate::{ROOT, assets, guard};

/// The most streams at once.
const MOST_STREAMS: usize = 64;

/// The path of the sessions.
const SESSION: &str = "api/session";
/// The path of the events.
const STREAM: &str = "api/stream";

/// The body of a response: whole, or events.
pub type PageBody = Either<Full<Bytes>, Events>;

/// How users sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// By a link that is valid once, over HTTP on loopback.
    Link,
    /// By a bearer token, over HTTPS.
    Token,
}

/// The dashboard of one host.
pub struct Dashboard {
    sign_in: SignIn,
    feed: Arc<Feed>,
    pub(crate) sessions: Sessions,
    streams: Arc<Semaphore>,
    /// Cancelled to end all streams.
    closing: CancellationToken,
}

impl Dashboard {
    pub fn new(source: Arc<dyn Source>, sign_in: SignIn) -> Self {
        Self {
            sign_in,
            feed: Arc::new(Feed::new(source)),
            sessions: Sessions::new(sign_in == SignIn::Token),
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            closing: CancellationToken::new(),
        }
    }

    /// Ends all streams, because the server ends.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Whether a path is the dashboard's.
    pub fn owns(path: &str) -> bool {
        path.strip_prefix(ROOT)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether a path is that of a file of the page, which is open to everyone.
    pub fn is_page(path: &str) -> bool {
        Self::owns(path) && below(path).is_none_or(|path| !path.starts_with("api/"))
    }

    /// Whether a path is that of sessions: a user who signs in or out changes nothing of the host, so they need no more
    /// than the right to read.
    pub fn is_session(path: &str) -> bool {
        below(path) == Some(SESSION)
    }

    /// Responds with a file of the page, which says nothing about the host and is open to everyone; none if the path is
    /// that of data, or not the dashboard's.
    pub fn page(&self, method: &Method, path: &str) -> Option<Response<PageBody>> {
        if path == ROOT {
            let mut response = empty(StatusCode::PERMANENT_REDIRECT);
            let to = HeaderValue::from_static("/dashboard/");
            response.headers_mut().insert(http::header::LOCATION, to);
            return Some(response);
        }
        let path = below(path).filter(|_| Self::is_page(path))?;
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Some(method_not_allowed("GET, HEAD"));
        }
        let Some(asset) = assets::find(path) else {
            return Some(refusal(StatusCode::NOT_FOUND, "there is no such page"));
        };
        let sign_in = match self.sign_in {
            SignIn::Link => "link",
            SignIn::Token => "token",
        };
        let body = asset.body.replace("{{sign-in}}", sign_in);
        Some(whole(StatusCode::OK, asset.content_type, body))
    }

    /// Prepares a request over HTTPS for authentication: the session's token becomes the request's, unless it has one.
    /// Returns the response to a request that a page of another origin caused; none if the request may go on.
    pub fn admit(&self, uri: &Uri, headers: &mut HeaderMap) -> Option<Response<PageBody>> {
        if let Err(foreign) = guard::check_origin(uri, headers, "https") {
            return Some(refusal(StatusCode::FORBIDDEN, &foreign.to_string()));
        }
        if !headers.contains_key(AUTHORIZATION)
            && let Some(Some(token)) = self.sessions.find(headers)
        {
            headers.insert(AUTHORIZATION, token);
        }
        None
    }

    /// Responds to a user who may read all that the dashboard shows.
    pub fn respond(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<PageBody> {
        match (below(uri.path()), method) {
            (Some(SESSION), &Method::POST) => self.begin(headers.get(AUTHORIZATION).cloned()),
            (Some(SESSION), &Method::DELETE) => self.end(headers),
            (Some(SESSION), _) => method_not_allowed("POST, DELETE"),
            (Some(STREAM), &Method::GET) => self.stream(uri.query().unwrap_or_default()),
            (Some(STREAM), _) => method_not_allowed("GET"),
            _ => refusal(StatusCode::NOT_FOUND, "there is no such page"),
        }
    }

    /// Begins a session of a user with this token.
    pub(crate) fn begin(&self, token: Option<HeaderValue>) -> Response<PageBody> {
        let opened = self.sessions.begin(token);
        let mut response = document(StatusCode::CREATED, &json!({"key": opened.key}));
        if let Ok(cookie) = HeaderValue::from_str(&opened.cookie) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    fn end(&self, headers: &HeaderMap) -> Response<PageBody> {
        self.sessions.end(headers);
        empty(StatusCode::NO_CONTENT)
    }

    fn stream(&self, query: &str) -> Response<PageBody> {
        let Some(view) = View::parse(query) else {
            let message = "the query names no view: view=plugins, plugin=NAME or object=NAME";
            return refusal(StatusCode::BAD_REQUEST, message);
        };
        let Ok(permit) = self.streams.clone().try_acquire_owned() else {
            let message = "too many pages are open at once: close some";
            return refusal(StatusCode::SERVICE_UNAVAILABLE, message);
        };
        let mut events = Events::new(view, self.feed.clone(), self.closing.clone());
        events.hold(permit);
        let mut response = Response::new(Either::Right(events));
        assets::protect(&mut response, "text/event-stream");
        response
    }
}

/// Returns the part of a path below the root.
fn below(path: &str) -> Option<&str> {
    path.strip_prefix(ROOT)?.strip_prefix('/')
}

/// A refusal as a document with a message for the user.
pub(crate) fn refusal(code: StatusCode, message: &str) -> Response<PageBody> {
    document(code, &json!({"message": message}))
}

fn method_not_allowed(allowed: &'static str) -> Response<PageBody> {
    let message = format!("only {allowed} are served here");
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, &message);
    let allowed = HeaderValue::from_static(allowed);
    response.headers_mut().insert(ALLOW, allowed);
    response
}

fn document(code: StatusCode, document: &Value) -> Response<PageBody> {
    whole(code, "application/json", document.to_string())
}

fn empty(code: StatusCode) -> Response<PageBody> {
    whole(code, "text/plain; charset=utf-8", String::new())
}

fn whole(code: StatusCode, content_type: &'static str, body: String) -> Response<PageBody> {
    let mut response = Response::new(Either::Left(Full::from(body)));
    *response.status_mut() = code;
    assets::protect(&mut response, content_type);
    response
}
