//! A registry of packages that is not trusted: a function computes its responses.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// A registry on a loopback address. It responds to one request after another.
pub struct FakeRegistry {
    address: String,
    /// The heads of the requests.
    requests: Arc<Mutex<Vec<String>>>,
    serving: AbortHandle,
}

/// A status line with headers, and a body, which ends with the connection.
pub struct Response {
    head: String,
    body: Bytes,
}

impl Response {
    pub fn new(head: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self {
            head: head.into(),
            body: body.into(),
        }
    }

    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::new("200 OK", body)
    }
}

impl FakeRegistry {
    /// Starts a registry. The function is given its address and the head of a request.
    ///
    /// # Panics
    /// No address is free.
    pub async fn start(respond: impl Fn(&str, &str) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (own, log) = (address.to_string(), requests.clone());
        let serve = async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.expect("a whole request"));
                }
                let head = String::from_utf8(head).expect("a request is text");
                let Response { head: status, body } = respond(&own, &head);
                log.lock().push(head);
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n");
                // A client closes the connection once a response is too large.
                if stream.write_all(head.as_bytes()).await.is_ok() {
                    let _ = stream.write_all(&body).await;
                }
            }
        };
        Self {
            address: address.to_string(),
            requests,
            serving: tokio::spawn(serve).abort_handle(),
        }
    }

    /// The host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The heads of the requests until now.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
