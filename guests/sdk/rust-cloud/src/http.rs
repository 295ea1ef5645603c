//! Requests to a cloud's servers. In the sandbox they use `wasi:http`, and reach the servers that the policy names.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::CloudError;

/// The time for a connection, for the first byte of the response, and between two parts of it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A request of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// For example `GET`.
    pub method: String,
    /// With scheme, server and path, as in `https://cloud.example.com/v1/instances?zone=a`.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The limit for each step of the exchange: connecting, the first byte, and each further part.
    pub timeout: Duration,
}

/// A response of HTTP, whatever its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    /// With names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// A request without a body.
    pub fn new(method: &str, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: TIMEOUT,
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    pub fn json(self, body: &(impl Serialize + ?Sized)) -> Self {
        let body = crate::document::to_bytes(body);
        Self { body, ..self }.header("content-type", "application/json")
    }

    /// Splits the URL into scheme, server, and path with query.
    ///
    /// # Errors
    /// The URL has no scheme `http` or `https`, or no server.
    pub fn parts(&self) -> Result<(&str, &str, &str), CloudError> {
        let invalid = || {
            let url = &self.url;
            CloudError::other(format!("`{url}` is not a URL: write `https://server/path`"))
        };
        let (scheme, rest) = self.url.split_once("://").ok_or_else(invalid)?;
        let path = rest.find(['/', '?']).unwrap_or(rest.len());
        let (server, path) = rest.split_at(path);
        if !matches!(scheme, "http" | "https") || server.is_empty() {
            return Err(invalid());
        }
        Ok((scheme, server, if path.is_empty() { "/" } else { path }))
    }
}

impl HttpResponse {
    /// A response with a document.
    pub fn json(status: u16, body: &(impl Serialize + ?Sized)) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            body: crate::document::to_bytes(body),
        }
    }

    /// The first header of this name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Parses the body.
    ///
    /// # Errors
    /// The body is not such a document.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, CloudError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let status = self.status;
            CloudError::other(format!(
                "the cloud's response with status {status} is malformed: {error}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_into_scheme_server_and_path() {
        for (url, expected) in [
            ("http://127.0.0.1:80", ("http", "127.0.0.1:80", "/")),
            ("https://a.b/c?d=e://f", ("https", "a.b", "/c?d=e://f")),
            ("https://a?b", ("https", "a", "?b")),
        ] {
            assert_eq!(HttpRequest::new("GET", url).parts(), Ok(expected));
        }
        for url in ["a.b/c", "ftp://a", "https:///c", ""] {
            let error = HttpRequest::new("GET", url).parts().unwrap_err();
            assert!(error.message.contains("is not a URL"), "{error}");
        }
    }
}
