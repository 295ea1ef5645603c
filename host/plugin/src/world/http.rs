//! `wasi:http`: requests to the servers that the operator granted. The runtime that the call's imports return drives
//! the connections, so that no guest thread does.

use std::future::Future;
use std::sync::Arc;

use flyball_types::ApiError;
use http::Uri;
use http::uri::Scheme;
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use wasmtime::component::Linker;
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
    default_send_request,
};

use super::State;
use super::wasi::Wasi;

/// The result of an outgoing request: a response, and the future that drives its connection.
type Sent = Result<
    (
        http::Response<WasiBody>,
        Box<dyn Future<Output = Result<(), Error>> + Send>,
    ),
    Error,
>;

/// The `wasi:http` state of one instance.
pub(super) struct Http {
    context: WasiHttpCtx,
    gate: Gate,
}

/// Checks whether a request may go to this server. Returns the runtime that drives the connection.
pub(super) type Allow = dyn Fn(&str) -> Result<Handle, ApiError> + Send + Sync;

/// Rejects requests to servers that are not granted.
struct Gate {
    allow: Arc<Allow>,
}

impl Http {
    pub(super) fn new(allow: Arc<Allow>) -> Self {
        Self {
            context: WasiHttpCtx::new(),
            gate: Gate { allow },
        }
    }
}

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let Wasi { table, http, .. } = self.wasi();
        WasiHttpCtxView {
            ctx: &mut http.context,
            table,
            hooks: &mut http.gate,
        }
    }
}

impl WasiHttpHooks for Gate {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        match server(request.uri()).and_then(|server| (self.allow)(&server)) {
            Ok(runtime) => Box::new(async move {
                let sent = runtime.spawn(async move {
                    let (response, connection) = default_send_request(request, options).await?;
                    let connection: Box<dyn Future<Output = Result<(), Error>> + Send> =
                        Box::new(connection);
                    Ok((response.map(BodyExt::boxed_unsync), connection))
                });
                sent.await.unwrap_or(Err(Error::ConnectionTerminated))
            }),
            Err(denied) => {
                tracing::debug!(%denied, "a request of a guest was denied");
                Box::new(async { Err(Error::HttpRequestDenied) })
            }
        }
    }
}

/// The server that a request goes to, for example `https://example.com:443`.
fn server(uri: &Uri) -> Result<String, ApiError> {
    let (scheme, port) = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => ("http", 80),
        _ => ("https", 443),
    };
    let host = uri
        .host()
        .filter(|host| !host.is_empty())
        .ok_or_else(|| ApiError::invalid("the request has no host"))?;
    Ok(format!(
        "{scheme}://{}:{}",
        host.to_ascii_lowercase(),
        uri.port_u16().unwrap_or(port)
    ))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Empty;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn send(allow: Arc<Allow>, uri: &str) -> Result<String, Error> {
        let body = Empty::<Bytes>::new()
            .map_err(|never| match never {})
            .boxed_unsync();
        let request = http::Request::get(uri).body(body).unwrap();
        let sent = Gate { allow }.send_request(request, None, Box::new(async { Ok(()) }));
        let (response, connection) = Box::into_pin(sent).await?;
        let driver = tokio::spawn(Box::into_pin(connection));
        let body = response.into_body().collect().await?.to_bytes();
        driver.abort();
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn only_requests_to_granted_servers_are_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
                .await
                .unwrap();
            (
                String::from_utf8_lossy(&request[..read]).into_owned(),
                listener,
            )
        });
        let granted = format!("http://{address}");
        let allow: Arc<Allow> = Arc::new(move |server: &str| match server == granted {
            true => Ok(Handle::current()),
            false => Err(ApiError::denied("no")),
        });
        let body = send(allow.clone(), &format!("http://{address}/path?query"))
            .await
            .unwrap();
        assert_eq!(body, "hello");
        let (request, listener) = served.await.unwrap();
        assert!(
            request.starts_with("GET /path?query HTTP/1.1\r\n"),
            "{request}"
        );
        let denied = send(allow, &format!("http://localhost:{}/", address.port())).await;
        assert!(
            matches!(denied, Err(Error::HttpRequestDenied)),
            "{denied:?}"
        );
        let next =
            tokio::time::timeout(std::time::Duration::from_millis(100), listener.accept()).await;
        assert!(next.is_err(), "a denied request reached the server");
    }

    #[test]
    fn a_server_is_identified_by_scheme_host_and_port() {
        for (uri, expected) in [
            ("https://Example.com/a", "https://example.com:443"),
            ("http://example.com/", "http://example.com:80"),
            ("https://example.com:8443/a?b", "https://example.com:8443"),
            ("https://user@example.com/", "https://example.com:443"),
            ("http://[::1]:8080/", "http://[::1]:8080"),
        ] {
            assert_eq!(server(&uri.parse().unwrap()).unwrap(), expected);
        }
        assert!(server(&"/path".parse().unwrap()).is_err());
    }
}
