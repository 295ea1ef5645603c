//! The responses of the server.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::json;

/// A response whose body is in memory.
pub(crate) type FullResponse = Response<Full<Bytes>>;

/// The content type of plain text.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) fn response(
    code: StatusCode,
    content_type: &str,
    body: impl Into<Bytes>,
) -> FullResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        headers.insert(CONTENT_TYPE, content_type);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(crate) fn text(code: StatusCode, body: impl Into<Bytes>) -> FullResponse {
    response(code, TEXT, body)
}

pub(crate) fn not_found() -> FullResponse {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

pub(crate) fn method_not_allowed() -> FullResponse {
    let mut response = text(
        StatusCode::METHOD_NOT_ALLOWED,
        "only GET and HEAD are served\n",
    );
    let allow = HeaderValue::from_static("GET, HEAD");
    response.headers_mut().insert(ALLOW, allow);
    response
}

/// An error as a Status object.
pub(crate) fn status(code: StatusCode, reason: &str, message: &str) -> FullResponse {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": {}, "code": code.as_u16(),
    });
    response(code, "application/json", body.to_string())
}
