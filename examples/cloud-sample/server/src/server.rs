//! The server: HTTP/1.1, faults, the log of calls, and the requests by which a test controls the cloud.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::api::{self, Answer};
use crate::faults::{Fault, Faults};
use crate::state::{self, State};

/// A running cloud. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// What all connections share.
struct Shared {
    /// The file with the state; none if it need not survive.
    path: Option<PathBuf>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    state: State,
    faults: Faults,
    /// The calls of the cloud since they were last removed.
    calls: Vec<Call>,
}

/// A call of the cloud.
struct Call {
    /// The method, the path and the query.
    line: String,
    /// What it is about: the body, and the Service of the load balancer in the path.
    about: String,
}

impl Server {
    /// Starts the cloud at this address, such as `127.0.0.1:0`, with the state in this file.
    ///
    /// # Errors
    /// The state can't be read, or the address is in use.
    pub async fn start(address: &str, path: Option<PathBuf>) -> Result<Self> {
        let state = path
            .as_deref()
            .map_or_else(|| Ok(State::default()), State::read)?;
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("the sample cloud can't listen on {address}"))?;
        let address = listener.local_addr()?;
        let inner = Inner {
            state,
            ..Inner::default()
        };
        let shared = Arc::new(Shared {
            path,
            inner: Mutex::new(inner),
        });
        let served = shared.clone();
        let task = tokio::spawn(async move {
            // Connections end with the server, because the set of their tasks is dropped with this task.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(serve(stream, served.clone()));
            }
        });
        Ok(Self {
            address,
            shared,
            task,
        })
    }

    /// The address for `--cloud-config`, such as `http://127.0.0.1:8080`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers a request of the cloud's operator: it is not among the calls, and meets no fault. The path may be one of the
    /// API or of the control, such as `v1/instances?name=a`.
    ///
    /// # Errors
    /// The request is refused, or the state can't be stored.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let whole = format!("/{path}");
        let (path, query) = whole.split_once('?').unwrap_or((&whole, ""));
        let body = match body {
            Value::Null => Vec::new(),
            body => serde_json::to_vec(body)?,
        };
        let (status, answer) = match path.starts_with("/control/") {
            true => self.shared.control(method, path, query, &body)?,
            false => self.shared.operate(method, path, query, &body)?,
        };
        ensure!(
            status < 400,
            "the sample cloud refuses {method} {whole}: {answer}"
        );
        Ok(answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| respond(&shared, request));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A client that disconnects, or a fault that closes the connection.
    let _ = connection.await;
}

/// Responds to a request. An error closes the connection.
async fn respond(shared: &Shared, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let (method, path) = (head.method.as_str(), head.uri.path());
    let query = head.uri.query().unwrap_or_default();
    if path.starts_with("/control/") {
        return response(shared.control(method, path, query, &body)?, None);
    }
    let (fault, is_throttled) = shared.admit(method, path, query, &body);
    let Some(fault) = fault else {
        if is_throttled {
            return response(api::error(429, "Throttled", "too many requests"), Some(1));
        }
        return response(shared.operate(method, path, query, &body)?, None);
    };
    tokio::time::sleep(Duration::from_millis(fault.delay)).await;
    let is_replaced = fault.status != 0 || fault.drops || fault.body.is_some();
    let done = match is_replaced && !fault.after {
        true => (0, Value::Null),
        false => shared.operate(method, path, query, &body)?,
    };
    if fault.drops {
        bail!("a fault closes the connection");
    }
    if !is_replaced {
        return response(done, None);
    }
    let status = if fault.status == 0 { 200 } else { fault.status };
    let answer = match fault.body {
        Some(body) => (status, body),
        None => api::error(status, &fault.code, &fault.message),
    };
    response(answer, fault.retry_after)
}

fn response((status, body): Answer, retry_after: Option<u64>) -> Result<Response<Full<Bytes>>> {
    let mut builder = Response::builder().status(status);
    if let Some(seconds) = retry_after {
        builder = builder.header("retry-after", seconds);
    }
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let builder = builder.header("content-type", "application/json");
    Ok(builder.body(Full::new(body.into()))?)
}

impl Shared {
    /// Records a call. Returns the fault that it meets, and whether it exceeds the rate.
    fn admit(&self, method: &str, path: &str, query: &str, body: &[u8]) -> (Option<Fault>, bool) {
        let inner = &mut *self.inner.lock();
        let separator = if query.is_empty() { "" } else { "?" };
        let whole = format!("{path}{separator}{query}");
        let name = path.strip_prefix("/v1/load-balancers/").unwrap_or_default();
        let name = name.split('/').next().unwrap_or_default();
        let service = inner.state.load_balancers.get(name);
        let service = service.map_or("", |one| one.service.as_str());
        let about = format!("{} {service}", String::from_utf8_lossy(body));
        let rate = inner.state.settings.requests_per_second;
        let is_throttled = rate.is_some_and(|rate| inner.faults.exceeds(rate, Instant::now()));
        let fault = inner.faults.take(method, &whole, &about);
        inner.calls.push(Call {
            line: format!("{method} {whole}"),
            about,
        });
        (fault, is_throttled)
    }

    /// Runs an operation, and stores the state if it may have changed.
    fn operate(&self, method: &str, path: &str, query: &str, body: &[u8]) -> Result<Answer> {
        let inner = &mut *self.inner.lock();
        let answer = api::answer(&mut inner.state, method, path, query, body, state::now());
        if method != "GET" {
            self.store(&inner.state)?;
        }
        Ok(answer)
    }

    fn store(&self, state: &State) -> Result<()> {
        self.path
            .as_deref()
            .map_or(Ok(()), |path| state.write(path))
    }

    /// Answers a request of a test.
    fn control(&self, method: &str, path: &str, query: &str, body: &[u8]) -> Result<Answer> {
        let inner = &mut *self.inner.lock();
        let malformed = |error: serde_json::Error| {
            api::error(400, "Invalid", &format!("the body is malformed: {error}"))
        };
        Ok(match (method, path) {
            ("GET", "/control/state") => (200, json!(inner.state)),
            ("GET", "/control/settings") => (200, json!(inner.state.settings)),
            ("PUT", "/control/settings") => match serde_json::from_slice(body) {
                Ok(settings) => {
                    inner.state.settings = settings;
                    self.store(&inner.state)?;
                    (200, json!(inner.state.settings))
                }
                Err(error) => malformed(error),
            },
            ("GET", "/control/faults") => (200, json!({"faults": inner.faults.all()})),
            ("POST", "/control/faults") => match serde_json::from_slice(body) {
                Ok(fault) => {
                    inner.faults.add(fault);
                    (201, Value::Null)
                }
                Err(error) => malformed(error),
            },
            ("DELETE", "/control/faults") => {
                inner.faults.clear();
                (204, Value::Null)
            }
            ("GET", "/control/calls") => {
                let text = query.strip_prefix("contains=").unwrap_or_default();
                let is_about = |call: &&Call| call.line.contains(text) || call.about.contains(text);
                let calls = inner.calls.iter().filter(is_about);
                let lines: Vec<&str> = calls.map(|call| call.line.as_str()).collect();
                (200, json!({"calls": lines}))
            }
            ("DELETE", "/control/calls") => {
                inner.calls.clear();
                (204, Value::Null)
            }
            _ => api::error(
                404,
                "NotFound",
                &format!("{method} {path} does not control this cloud"),
            ),
        })
    }
}
