//! A request: which object or list it is about, and its query.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use flyball_sdk::time::Time;
use flyball_types::{ApiError, FieldPath, FieldSelector, LabelSelector};
use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::discovery::Served;

/// A request with its body.
pub struct Call<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    pub query: &'a str,
    /// The field manager of a write that names none.
    pub agent: &'a str,
    pub accept: &'a str,
    pub content_type: &'a str,
    pub body: &'a Bytes,
}

/// The object or the list that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: String,
    /// Empty for all namespaces, and for cluster-scoped kinds.
    pub namespace: String,
    /// Empty for a list.
    pub name: String,
    pub subresource: String,
}

impl Call<'_> {
    /// The first value of a parameter; empty if it is absent.
    pub fn parameter(&self, name: &str) -> String {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        let found = pairs.find(|(key, _)| key == name);
        found.map_or_else(String::new, |(_, value)| value.into_owned())
    }

    /// Whether the client asks for the objects' metadata alone.
    pub fn wants_metadata(&self) -> bool {
        self.accept.contains("as=PartialObjectMetadata")
    }

    /// The body as JSON; null if it is empty.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn json(&self) -> Result<Value, ApiError> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(self.body)
            .map_err(|error| bad_request(format!("the body is not JSON: {error}")))
    }

    /// The objects that the request selects.
    ///
    /// # Errors
    /// A selector is malformed.
    pub fn selection(&self, target: &Target) -> Result<Selection, ApiError> {
        Ok(Selection {
            namespace: target.namespace.clone(),
            labels: self.parsed("labelSelector")?,
            fields: self.parsed("fieldSelector")?,
        })
    }

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
        &self,
        parameter: &str,
    ) -> Result<T, ApiError> {
        let parsed = self.parameter(parameter).parse();
        parsed.map_err(|error: T::Err| bad_request(format!("{parameter}: {error}")))
    }
}

/// The objects that a list or a watch selects.
#[derive(Default)]
pub struct Selection {
    /// Empty for all namespaces.
    pub namespace: String,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Selection {
    /// All objects of a namespace, or of all namespaces if it is empty.
    pub fn everything(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..Self::default()
        }
    }

    /// Whether the namespace, the labels and the fields of an object match.
    pub fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        let field = |path: &FieldPath| path.lookup(object).first().copied().unwrap_or_default();
        (self.namespace.is_empty() || metadata["namespace"] == *self.namespace)
            && self.labels.matches_all(labels)
            && self.fields.matches(field)
    }
}

/// Parses a path such as `/apis/apps/v1/namespaces/default/deployments/web/status`; `None` if no kind has it.
pub fn target(path: &str, kinds: &[Served]) -> Option<Target> {
    let segments = path.trim_matches('/').split('/');
    let segments: Vec<_> = segments
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy())
        .collect();
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        // `/namespaces/a/status` is a subresource of the namespace.
        ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        _ => ("", rest),
    };
    let [plural, rest @ ..] = rest else {
        return None;
    };
    let is_named = |served: &&Served| {
        let kind = &served.kind;
        kind.group == group && kind.version == version && served.plural == *plural
    };
    let served = kinds.iter().find(is_named)?;
    Some(Target {
        kind: served.kind.to_string(),
        namespace: namespace.to_owned(),
        name: rest.first().map_or("", |name| name).to_owned(),
        subresource: rest.get(1..).unwrap_or_default().join("/"),
    })
}

/// An error of the client.
pub fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::of_server(400, "BadRequest", message.into())
}

/// The error for a path that is not served.
pub fn not_found(path: &str) -> ApiError {
    let message = format!("the API server in memory does not serve {path}");
    ApiError::of_server(404, "NotFound", message)
}

/// The time of this machine. Guests see the same one.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.unwrap_or_default().as_secs();
    Time::of_seconds(seconds.try_into().unwrap_or(i64::MAX))
}
