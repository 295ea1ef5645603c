//! An API server with a few objects. It knows no grants: it returns whole objects, even if the request asks for less,
//! and answers each write with the object as it is.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use flyball_cache::Connection;
use flyball_cache::connection::ResponseBody;
use flyball_types::{FieldPath, FieldSelector, LabelSelector};
use http::{Method, Request, Response};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;
use tower::util::BoxCloneSyncService;

/// The kinds that are served: group, version, kind, plural, and whether they are namespaced.
const KINDS: [(&str, &str, &str, &str, bool); 5] = [
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Node", "nodes", false),
    ("", "v1", "Namespace", "namespaces", false),
    ("apps", "v1", "Deployment", "deployments", true),
];

/// An object, in one or two versions.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// For example `apps/v1/Deployment`.
    pub(super) kind: String,
    pub(super) version: Value,
    /// The version that replaces it after the guest's calls.
    pub(super) later: Option<Value>,
}

impl Object {
    fn identity(&self, field: &str) -> &str {
        self.version["metadata"][field].as_str().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.identity("namespace")
    }

    pub(super) fn name(&self) -> &str {
        self.identity("name")
    }

    pub(super) fn uid(&self) -> &str {
        self.identity("uid")
    }

    /// The JSON of a version, which names its kind.
    pub(super) fn json(&self, version: &Value) -> Value {
        let (api_version, kind) = self.kind.rsplit_once('/').unwrap_or(("", &self.kind));
        let mut json = version.clone();
        json["apiVersion"] = api_version.into();
        json["kind"] = kind.into();
        json
    }
}

/// Whether objects of a kind are namespaced. True for kinds that are not served.
pub(super) fn is_namespaced(kind: &str) -> bool {
    let of = |known: &&(&str, &str, &str, &str, bool)| name_of(known.0, known.1, known.2) == kind;
    KINDS.iter().find(of).is_none_or(|known| known.4)
}

fn name_of(group: &str, version: &str, kind: &str) -> String {
    let separator = if group.is_empty() { "" } else { "/" };
    format!("{group}{separator}{version}/{kind}")
}

/// The objects that a path of the API stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) kind: String,
    pub(super) namespace: String,
    /// Empty for a list.
    pub(super) name: String,
    pub(super) subresource: String,
}

/// Reads a path generously: with escapes, empty segments, `.` and `..`, and with the old prefix of
/// watches. `None` if it stands for no objects.
pub(super) fn place(path: &str) -> Option<Place> {
    let path = path.split('?').next()?;
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let rest = rest.strip_prefix(&["watch"]).unwrap_or(rest);
    let (namespace, rest) = match rest {
        ["namespaces", namespace, inner @ ..]
            if !matches!(inner, [] | ["status" | "finalize", ..]) =>
        {
            (*namespace, inner)
        }
        rest => ("", rest),
    };
    let (plural, rest) = rest.split_first()?;
    let known = KINDS
        .iter()
        .find(|known| (known.0, known.1, known.3) == (group, version, *plural))?;
    Some(Place {
        kind: name_of(known.0, known.1, known.2),
        namespace: namespace.into(),
        name: rest.first().copied().unwrap_or_default().into(),
        subresource: rest.get(1..).unwrap_or_default().join("/"),
    })
}

/// A response: the status, the body, and whether the connection stays open after it, like the connection of a watch.
struct Answer(u16, Vec<u8>, bool);

fn json_answer(status: u16, body: &Value) -> Answer {
    Answer(status, body.to_string().into_bytes(), false)
}

fn refusal(status: u16, reason: &str) -> Answer {
    let body = json!({"apiVersion": "v1", "kind": "Status", "code": status, "reason": reason, "message": reason});
    json_answer(status, &body)
}

fn respond(objects: &[Object], method: &Method, uri: &http::Uri) -> Answer {
    match uri.path() {
        "/api" => return json_answer(200, &discovery("")),
        "/apis" => return json_answer(200, &discovery("apps")),
        _ => {}
    }
    let Some(place) = place(uri.path()) else {
        return refusal(404, "NotFound");
    };
    let parameters: Vec<(Cow<'_, str>, Cow<'_, str>)> =
        form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).collect();
    let parameter = |name: &str| {
        let found = parameters.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| &**value).unwrap_or_default()
    };
    let mut found: Vec<&Object> = objects
        .iter()
        .filter(|own| own.kind == place.kind)
        .collect();
    found.retain(|own| place.namespace.is_empty() || own.namespace() == place.namespace);
    if place.name.is_empty() && *method != Method::POST {
        let (Ok(labels), Ok(fields)) = (
            parameter("labelSelector").parse::<LabelSelector>(),
            parameter("fieldSelector").parse::<FieldSelector>(),
        ) else {
            return refusal(400, "BadRequest");
        };
        found.retain(|own| is_selected(own, &labels, &fields));
        return match parameter("watch") {
            "" => json_answer(200, &list(&place, &found)),
            _ => watch(&found, parameter("sendInitialEvents") == "true"),
        };
    }
    // A creation under a name that the server chooses returns any object.
    found.retain(|own| place.name.is_empty() || own.name() == place.name);
    match found.first() {
        Some(object) => {
            let mut json = object.json(&object.version);
            if *method != Method::GET {
                json["metadata"]["resourceVersion"] = "15".into();
            }
            json_answer(200, &json)
        }
        None if *method == Method::DELETE => refusal(200, "Success"),
        None => refusal(404, "NotFound"),
    }
}

fn list(place: &Place, found: &[&Object]) -> Value {
    let items: Vec<Value> = found.iter().map(|own| own.json(&own.version)).collect();
    let (api_version, kind) = place.kind.rsplit_once('/').unwrap_or_default();
    json!({
        "apiVersion": api_version, "kind": format!("{kind}List"),
        "metadata": {"resourceVersion": "10"}, "items": items,
    })
}

/// A watch that shows the initial objects, if it is asked to, and then nothing.
fn watch(found: &[&Object], initial: bool) -> Answer {
    let mut events = String::new();
    if initial {
        for object in found {
            let event = json!({"type": "ADDED", "object": object.json(&object.version)});
            events.push_str(&format!("{event}\n"));
        }
        let end = json!({"type": "BOOKMARK", "object": {"metadata": {
            "resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"},
        }}});
        events.push_str(&format!("{end}\n"));
    }
    Answer(200, events.into_bytes(), true)
}

fn is_selected(object: &Object, labels: &LabelSelector, fields: &FieldSelector) -> bool {
    let own: Vec<(&str, &str)> = object.version["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect();
    let field = |path: &FieldPath| {
        let found = path.lookup(&object.version);
        found.first().copied().unwrap_or_default().to_owned()
    };
    labels.matches(&own[..]) && fields.matches(field)
}

fn discovery(group: &str) -> Value {
    let verbs = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    let subresource = |name: &str| json!({"subresource": name, "verbs": verbs});
    let resources: Vec<Value> = KINDS
        .iter()
        .filter(|known| known.0 == group)
        .map(|(_, _, kind, plural, namespaced)| {
            json!({
                "resource": plural, "responseKind": {"kind": kind}, "verbs": verbs,
                "scope": if *namespaced { "Namespaced" } else { "Cluster" },
                "subresources": [subresource("status"), subresource("scale")],
            })
        })
        .collect();
    json!({"items": [{"metadata": {"name": group}, "versions": [{"version": "v1", "resources": resources}]}]})
}

/// A body that ends, or stays open.
struct AnswerBody(Option<Bytes>, bool);

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match (self.0.take(), self.1) {
            (Some(bytes), _) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            (None, true) => Poll::Pending,
            (None, false) => Poll::Ready(None),
        }
    }
}

/// Returns a connection to a server with these objects, inside the process.
pub(super) fn connection(objects: Vec<Object>) -> Connection {
    let objects = Arc::new(objects);
    BoxCloneSyncService::new(tower::service_fn(move |request: Request<Body>| {
        let objects = objects.clone();
        async move {
            let (client, server) = tokio::io::duplex(64 * 1024);
            let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
                let answer = respond(&objects, request.method(), request.uri());
                let Answer(status, body, stays_open) = answer;
                let body = AnswerBody(Some(body.into()), stays_open);
                async move {
                    let response = Response::builder().status(status);
                    response
                        .header("content-type", "application/json")
                        .body(body)
                }
            });
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(server), answer);
            tokio::spawn(serving);
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(client)).await?;
            tokio::spawn(connection);
            let response = sender.send_request(request).await?;
            Ok::<_, BoxError>(response.map(ResponseBody::from))
        }
    }))
}
