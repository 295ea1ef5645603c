//! `wasi:http`: requests to the servers that the operator granted. The runtime that the call's imports return drives
//! the connections, so that no guest thread does. Requests end with the call that sent them.

mod connection;

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;

use flyball_types::ApiError;
use http::Uri;
use http::uri::Scheme;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use wasmtime::component::{Linker, LinkerInstance, Resource, ResourceTable};
use wasmtime_wasi_http::p2::bindings::http::types::{
    Host, HostFields, HostOutgoingRequest as _, Method,
};
use wasmtime_wasi_http::p2::types::HostOutgoingRequest;
use wasmtime_wasi_http::{
    Error, FieldMap, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks,
    WasiHttpView,
};

use self::connection::Dialer;
use super::InstanceState;
use super::replace::replace;
use crate::hits::Limit;
use crate::imports::HttpGrant;
use crate::tally::Tally;

/// Bytes of a request's body that are buffered until they are sent, for each body that a guest holds.
const BODY_CHUNK: usize = 16 * 1024;
/// Bytes of the headers that a guest holds in one set.
const MAX_HEADERS: usize = 32 * 1024;
/// Maximum length of the method, the authority and the path of a request, in bytes each. Servers accept no more.
const MAX_TEXT: usize = 8 * 1024;
/// Bytes that a handle may hold: at most a request with its headers and texts, and a part of its body.
pub(super) const MAX_HANDLE: usize = MAX_HEADERS + 3 * MAX_TEXT + BODY_CHUNK;

/// The interface whose functions are replaced.
const TYPES: &str = "wasi:http/types@0.2.12";

/// Defines a function of an interface.
type Define = fn(&mut LinkerInstance<InstanceState>, &str) -> wasmtime::Result<()>;

/// The result of an outgoing request: a response, and a future that is dropped with it.
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

/// Checks whether a request may go to a server.
pub(super) type Grant = dyn Fn(&str) -> Result<HttpGrant, ApiError> + Send + Sync;

/// Sends requests to servers that are granted, and rejects the others.
struct Gate {
    grant: Arc<Grant>,
    dialer: Dialer,
    tally: Arc<Tally>,
    /// The requests of the current call.
    requests: JoinSet<()>,
}

impl Http {
    pub(super) fn new(grant: Arc<Grant>, tally: Arc<Tally>) -> Self {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(MAX_HEADERS);
        Self {
            context,
            gate: Gate {
                grant,
                dialer: Dialer::default(),
                tally,
                requests: JoinSet::new(),
            },
        }
    }

    /// The state as the functions of `wasi:http` need it, with the table of the instance's handles.
    pub(super) fn view<'a>(&'a mut self, table: &'a mut ResourceTable) -> WasiHttpCtxView<'a> {
        WasiHttpCtxView {
            ctx: &mut self.context,
            table,
            hooks: &mut self.gate,
        }
    }

    /// Stops the requests that have not ended. After a failed call they end when this is dropped.
    pub(super) fn end_call(&mut self) {
        self.gate.requests = JoinSet::new();
    }
}

/// Links `wasi:http`. The memory that a guest's handles hold is bounded and counts against the plugin's budget.
pub(super) fn link(linker: &mut Linker<InstanceState>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    let mut replace = |function, define: Define| replace(linker, TYPES, function, define);
    replace("[constructor]fields", |types, name| {
        types.func_wrap(name, |mut store, (): ()| {
            let state: &mut InstanceState = store.data_mut();
            state.hold_handle()?;
            Ok((HostFields::new(&mut state.http())?,))
        })
    })?;
    replace("[static]fields.from-list", |types, name| {
        type Entries = (Vec<(String, Vec<u8>)>,);
        types.func_wrap(name, |mut store, (entries,): Entries| {
            let state: &mut InstanceState = store.data_mut();
            state.hold_handle()?;
            let mut http = state.http();
            let fields = http.from_list(entries);
            let fields = fields.map_err(|error| http.convert_header_error(error));
            Ok((match fields {
                Ok(fields) => Ok(fields),
                Err(error) => Err(error?),
            },))
        })
    })?;
    replace("[method]fields.clone", |types, name| {
        types.func_wrap(name, |mut store, (fields,): (Resource<FieldMap>,)| {
            let state: &mut InstanceState = store.data_mut();
            state.hold_handle()?;
            Ok((HostFields::clone(&mut state.http(), fields)?,))
        })
    })?;
    type Request = Resource<HostOutgoingRequest>;
    replace("[method]outgoing-request.set-method", |types, name| {
        types.func_wrap(name, |mut store, (request, method): (Request, Method)| {
            let state: &mut InstanceState = store.data_mut();
            Ok((match &method {
                Method::Other(text) if text.len() > MAX_TEXT => Err(()),
                _ => state.http().set_method(request, method)?,
            },))
        })
    })?;
    type SetText = (Request, Option<String>);
    replace("[method]outgoing-request.set-authority", |types, name| {
        types.func_wrap(name, |mut store, (request, authority): SetText| {
            let state: &mut InstanceState = store.data_mut();
            Ok((if is_long(&authority) {
                Err(())
            } else {
                state.http().set_authority(request, authority)?
            },))
        })
    })?;
    replace(
        "[method]outgoing-request.set-path-with-query",
        |types, name| {
            types.func_wrap(name, |mut store, (request, path): SetText| {
                let state: &mut InstanceState = store.data_mut();
                Ok((if is_long(&path) {
                    Err(())
                } else {
                    state.http().set_path_with_query(request, path)?
                },))
            })
        },
    )
}

fn is_long(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| text.len() > MAX_TEXT)
}

impl WasiHttpHooks for Gate {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        match self.start(request, options.unwrap_or_default()) {
            Ok(sent) => Box::new(sent),
            Err(error) => Box::new(async { Err(error) }),
        }
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK
    }
}

impl Gate {
    /// Starts a request in a task of its own. The task ends with the response, or with the call.
    fn start(
        &mut self,
        request: http::Request<WasiBody>,
        options: RequestOptions,
    ) -> Result<impl Future<Output = Sent> + Send + use<>, Error> {
        let granted = Server::of(request.uri())
            .and_then(|server| Ok(((self.grant)(&server.to_string())?, server)));
        let (grant, server) = granted.map_err(|denied| {
            tracing::debug!(%denied, "a request of a guest was denied");
            Error::HttpRequestDenied
        })?;
        let permit = self.tally.connections.clone().try_acquire_owned();
        let permit = permit.map_err(|_| {
            self.tally.hits.hit(Limit::Connections);
            Error::ConnectionLimitReached
        })?;
        let permit = Arc::new(permit);
        while self.requests.try_join_next().is_some() {}
        let (dialer, (answer, answered)) = (self.dialer.clone(), oneshot::channel());
        let HttpGrant {
            runtime,
            check_addresses,
        } = grant;
        let request = async move {
            let lookup = permit.clone();
            let sent = connection::send(dialer, &server, check_addresses, lookup, request, options);
            match sent.await {
                Ok((response, drive)) => {
                    if answer.send(Ok(response)).is_ok() {
                        drive.await;
                    }
                }
                Err(error) => {
                    let _ = answer.send(Err(error));
                }
            }
            drop(permit);
        };
        let task = AbortOnDrop(self.requests.spawn_on(request, &runtime));
        Ok(async move {
            let response = answered.await.unwrap_or(Err(Error::ConnectionTerminated))?;
            let dropped_with_it: Box<dyn Future<Output = Result<(), Error>> + Send> =
                Box::new(async move {
                    let _task = task;
                    pending().await
                });
            Ok((response, dropped_with_it))
        })
    }
}

/// Aborts a task when it is dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The server that a request goes to.
struct Server {
    is_tls: bool,
    /// In lower case; an IPv6 address is in brackets.
    host: String,
    port: u16,
}

impl Server {
    fn of(uri: &Uri) -> Result<Self, ApiError> {
        let is_tls = uri.scheme() != Some(&Scheme::HTTP);
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| ApiError::invalid("the request has no host"))?;
        Ok(Self {
            is_tls,
            host: host.to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
        })
    }
}

/// Formats the server as in `https://example.com:443`.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::runtime::Handle;

    use super::*;
    use crate::limits::{Limits, MemoryShares};

    type Response = http::Response<WasiBody>;
    type Worker = Box<dyn Future<Output = Result<(), Error>> + Send>;

    /// A state that grants this server, and these of its addresses.
    fn http(server: &str, allows: fn(SocketAddr) -> bool) -> Http {
        let granted = server.to_owned();
        let grant = move |server: &str| {
            if server != granted {
                return Err(ApiError::denied("no"));
            }
            let check = move |mut addresses: Vec<SocketAddr>| {
                addresses.retain(|address| allows(*address));
                let is_none = addresses.is_empty();
                (!is_none)
                    .then_some(addresses)
                    .ok_or(ApiError::denied("no"))
            };
            Ok(HttpGrant {
                runtime: Handle::current(),
                check_addresses: Box::new(check),
            })
        };
        let limits = Limits {
            connections: 2,
            ..Limits::default()
        };
        Http::new(
            Arc::new(grant),
            Arc::new(Tally::new(&limits, MemoryShares::default())),
        )
    }

    /// Resolves each name to these addresses, and counts how often.
    fn resolve(http: &mut Http, addresses: Vec<SocketAddr>) -> Arc<AtomicUsize> {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        http.gate.dialer.resolve = Arc::new(move |_, _| {
            counted.fetch_add(1, SeqCst);
            Ok(addresses.clone())
        });
        count
    }

    fn send(
        http: &mut Http,
        uri: &str,
    ) -> impl Future<Output = Result<(Response, Worker), Error>> + use<> {
        let body = Empty::<Bytes>::new()
            .map_err(|never| match never {})
            .boxed_unsync();
        let request = http::Request::get(uri).body(body).unwrap();
        Box::into_pin(
            http.gate
                .send_request(request, None, Box::new(async { Ok(()) })),
        )
    }

    async fn error(http: &mut Http, uri: &str) -> Error {
        match send(http, uri).await {
            Ok(_) => panic!("{uri} was sent"),
            Err(error) => error,
        }
    }

    async fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// Accepts a connection and reads the request.
    async fn accept(listener: &TcpListener) -> (TcpStream, String) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 1024];
        let read = stream.read(&mut request).await.unwrap();
        let request = String::from_utf8_lossy(&request[..read]).into_owned();
        (stream, request)
    }

    /// Fails if a connection was made.
    fn check_unused(listener: TcpListener) {
        let listener = listener.into_std().unwrap();
        let accepted = listener.accept();
        assert!(accepted.is_err(), "a denied request reached the server");
    }

    #[tokio::test]
    async fn only_requests_to_granted_servers_are_sent() {
        let (listener, address) = listen().await;
        let mut http = http(&format!("http://{address}"), |_| true);
        let sent = tokio::spawn(send(&mut http, &format!("http://{address}/path?query")));
        let (mut stream, request) = accept(&listener).await;
        assert!(
            request.starts_with("GET /path?query HTTP/1.1\r\n"),
            "{request}"
        );
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
            .await
            .unwrap();
        let (response, _worker) = sent.await.unwrap().unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "hello");
        let denied = error(&mut http, &format!("http://localhost:{}/", address.port())).await;
        assert!(matches!(denied, Error::HttpRequestDenied), "{denied:?}");
        check_unused(listener);
    }

    #[tokio::test]
    async fn a_name_is_resolved_once_and_only_allowed_addresses_are_connected_to() {
        let ((allowed, address), (denied, other)) = (listen().await, listen().await);
        let mut http = http("http://example.test:80", |address| {
            address.ip().is_loopback()
        });
        let prohibited = "192.168.0.1:80".parse().unwrap();
        let count = resolve(&mut http, vec![prohibited]);
        let error = error(&mut http, "http://example.test/").await;
        assert!(matches!(error, Error::DestinationIpProhibited), "{error:?}");
        assert_eq!(count.load(SeqCst), 1);

        let count = resolve(&mut http, vec![prohibited, address, other]);
        let _sent = tokio::spawn(send(&mut http, "http://example.test/"));
        accept(&allowed).await;
        assert_eq!(count.load(SeqCst), 1);
        check_unused(denied);
    }

    /// A server that is granted may redirect to one that isn't, or to its own name, which by then has a private
    /// address.
    #[tokio::test]
    async fn a_redirect_leads_nowhere_but_to_the_guest_and_what_it_then_requests_is_checked() {
        let ((granted, address), (private, other)) = (listen().await, listen().await);
        let mut http = http("http://example.test:80", |address| {
            address.ip() != std::net::Ipv4Addr::new(127, 0, 0, 2)
        });
        resolve(&mut http, vec![address]);
        for location in [
            format!("http://{other}/"),
            "http://example.test/again".to_owned(),
        ] {
            let sent = tokio::spawn(send(&mut http, "http://example.test/"));
            let (mut stream, _) = accept(&granted).await;
            let redirect = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
            );
            stream.write_all(redirect.as_bytes()).await.unwrap();
            let (response, _worker) = sent.await.unwrap().unwrap();
            assert_eq!(response.status(), 307);
            assert_eq!(response.headers()["location"], location);
        }
        let denied = error(&mut http, &format!("http://{other}/")).await;
        assert!(matches!(denied, Error::HttpRequestDenied), "{denied:?}");
        let mut rebound = other;
        rebound.set_ip(std::net::Ipv4Addr::new(127, 0, 0, 2).into());
        resolve(&mut http, vec![rebound]);
        let denied = error(&mut http, "http://example.test/again").await;
        assert!(
            matches!(denied, Error::DestinationIpProhibited),
            "{denied:?}"
        );
        check_unused(private);
        check_unused(granted);
    }

    #[tokio::test]
    async fn an_address_is_checked_without_being_resolved() {
        let mut http = http("http://[::ffff:10.0.0.1]:80", |_| false);
        let count = resolve(&mut http, Vec::new());
        let error = error(&mut http, "http://[::ffff:10.0.0.1]/").await;
        assert!(matches!(error, Error::DestinationIpProhibited), "{error:?}");
        assert_eq!(count.load(SeqCst), 0);
    }

    #[tokio::test]
    async fn a_request_ends_with_the_call_that_sent_it() {
        let (listener, address) = listen().await;
        let mut http = http(&format!("http://{address}"), |_| true);
        let uri = format!("http://{address}/");
        type End = fn(Http) -> Option<Http>;
        let ends: [End; 2] = [
            |mut http| {
                http.end_call();
                Some(http)
            },
            |_| None,
        ];
        for (number, end) in ends.into_iter().enumerate() {
            let sent = tokio::spawn(send(&mut http, &uri));
            let (mut stream, _) = accept(&listener).await;
            // The server never responds.
            let next = self::http(&format!("http://{address}"), |_| true);
            let _ended = end(std::mem::replace(&mut http, next));
            let failed = sent.await.unwrap().map(drop);
            assert!(
                matches!(failed, Err(Error::ConnectionTerminated)),
                "{number}: {failed:?}"
            );
            assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "{number}");
        }
    }

    #[tokio::test]
    async fn a_plugin_has_a_limited_number_of_connections() {
        let (listener, address) = listen().await;
        let mut http = http(&format!("http://{address}"), |_| true);
        let uri = format!("http://{address}/");
        let mut responses = Vec::new();
        for _ in 0..2 {
            let sent = tokio::spawn(send(&mut http, &uri));
            let (mut stream, _) = accept(&listener).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            responses.push((stream, sent.await.unwrap().unwrap()));
        }
        let refused = error(&mut http, &uri).await;
        assert!(
            matches!(refused, Error::ConnectionLimitReached),
            "{refused:?}"
        );
        let tally = http.gate.tally.clone();
        assert_eq!(tally.hits.read().of(Limit::Connections), 1);
        // A guest that drops a response closes its connection.
        let (mut stream, response) = responses.remove(0);
        drop(response);
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
        let _free = tally.connections.acquire().await.unwrap();
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
            let server = Server::of(&uri.parse().unwrap()).unwrap();
            assert_eq!(server.to_string(), expected);
        }
        assert!(Server::of(&"/path".parse().unwrap()).is_err());
    }
}
