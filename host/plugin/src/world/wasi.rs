//! A restricted WASI, so that guests of stock toolchains start. There are no arguments, no environment, no files and no
//! sockets, and stdin is empty. HTTP requests go only to granted servers (see `http.rs`). The time and the randomness
//! come from the [`Imports`] of the current call. Output to stdout and stderr goes to the log.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use flyball_types::ApiError;
use parking_lot::Mutex;
use rand_core::TryRng;
use tokio::io::AsyncWrite;
use wasmtime::component::{Linker, Resource, ResourceTable};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::bindings::io::poll;
use wasmtime_wasi::p2::{DynPollable, OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use super::http::{Http, MAX_HANDLE};
use super::replace::replace;
use super::{InstanceState, MAX_LAST_ERROR, last_error_tail, trap};
use crate::budget::Charge;
use crate::hits::Limit;
use crate::imports::{Imports, LogLevel};
use crate::tally::Tally;

/// Maximum number of handles of WASI that an instance holds: streams, pollables, and handles of `wasi:http`. More cause
/// a trap.
pub(super) const HANDLES: usize = 128;
/// Maximum number of bytes that a guest may print or request as random bytes at once.
const CHUNK: usize = 65_536;
/// Maximum length of a line of output, in bytes. Longer lines are split.
const MAX_LINE: usize = 4096;

/// The WASI state of one instance.
pub(super) struct Wasi {
    context: WasiCtx,
    http: Http,
    pub(super) table: ResourceTable,
    /// The charge for the data that the handles of `wasi:http` hold.
    held: Charge,
    shared: Arc<Shared>,
}

/// The state that the clocks, randomness, streams and HTTP requests of an instance share.
struct Shared {
    call: Mutex<CallState>,
    /// The last monotonic time, in nanoseconds. It is needed because the time comes from the wall clock, which may go
    /// back.
    last_time: AtomicU64,
}

/// The state of the current call.
#[derive(Default)]
struct CallState {
    imports: Option<Arc<dyn Imports>>,
    /// The unfinished lines of stdout and stderr.
    lines: [Vec<u8>; 2],
    /// The end of the output to stderr.
    stderr_tail: String,
}

impl Wasi {
    fn new(imports: Option<Arc<dyn Imports>>, tally: Arc<Tally>) -> Self {
        let shared = Arc::new(Shared {
            call: Mutex::new(CallState {
                imports,
                ..CallState::default()
            }),
            last_time: AtomicU64::new(0),
        });
        let context = WasiCtx::builder()
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .wall_clock(Clock(shared.clone()))
            .monotonic_clock(Clock(shared.clone()))
            .secure_random(Random(shared.clone()))
            .insecure_random(Random(shared.clone()))
            // It only seeds hash tables. The same in each instance, so that a call can be replayed.
            .insecure_random_seed(0x0066_6c79_6261_6c6c)
            .max_random_size(CHUNK as u64)
            .stdout(Stream {
                shared: shared.clone(),
                number: 0,
            })
            .stderr(Stream {
                shared: shared.clone(),
                number: 1,
            })
            .build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        let for_http = shared.clone();
        let grant = move |server: &str| match for_http.imports() {
            Some(imports) => imports.http(server),
            None => Err(ApiError::invalid(
                "a guest can't send a request between two calls",
            )),
        };
        let held = tally.budget.charge();
        let http = Http::new(Arc::new(grant), tally);
        Self {
            context,
            http,
            table,
            held,
            shared,
        }
    }

    pub(super) fn begin_call(&self, imports: Arc<dyn Imports>) {
        *self.shared.call.lock() = CallState {
            imports: Some(imports),
            ..CallState::default()
        };
    }

    pub(super) fn end_call(&mut self) {
        self.http.end_call();
        if self.held.bytes() > 0 {
            // The handles that the guest did not drop.
            let left = self.handles() * MAX_HANDLE;
            self.held.shrink(self.held.bytes().saturating_sub(left));
        }
        self.flush();
        self.shared.call.lock().imports = None;
    }

    /// The number of handles that the guest holds.
    pub(super) fn handles(&mut self) -> usize {
        self.table.iter_mut().count()
    }

    /// Logs the unfinished lines.
    fn flush(&self) {
        (0..2).for_each(|number| self.shared.flush(number));
    }

    /// The end of the guest's output to stderr in this call.
    pub(super) fn stderr_tail(&self) -> Option<String> {
        let call = self.shared.call.lock();
        let tail = last_error_tail(&call.stderr_tail);
        (!tail.is_empty()).then(|| tail.into())
    }
}

impl Drop for Wasi {
    fn drop(&mut self) {
        // `end_call` is not called after a failed call.
        self.flush();
    }
}

/// Links WASI without `wasi:http`.
pub(super) fn link(linker: &mut Linker<InstanceState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    // The list lives as long as the guest waits, and may name a handle any number of times.
    type Pollables = (Vec<Resource<DynPollable>>,);
    replace(linker, "wasi:io/poll@0.2.12", "poll", |poll, name| {
        poll.func_wrap_async(name, |mut store, (pollables,): Pollables| {
            Box::new(async move {
                if pollables.len() > HANDLES {
                    return Err(trap(format!(
                        "it waits for {} pollables at once, more than the limit of {HANDLES}",
                        pollables.len()
                    )));
                }
                let table = &mut store.data_mut().wasi().table;
                Ok((poll::Host::poll(table, pollables).await?,))
            })
        })
    })
}

impl InstanceState {
    pub(super) fn wasi(&mut self) -> &mut Wasi {
        self.wasi
            .get_or_insert_with(|| Wasi::new(self.imports.clone(), self.tally.clone()))
    }

    /// Counts what one more handle of `wasi:http` may hold. Traps beyond the plugin's budget.
    pub(super) fn hold_handle(&mut self) -> wasmtime::Result<()> {
        let wasi = self.wasi();
        let handles = wasi.handles() + 1;
        wasi.held.resize(handles * MAX_HANDLE).map_err(|error| {
            self.hit(Limit::Held);
            trap(error.message)
        })
    }
}

impl WasiView for InstanceState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.wasi();
        WasiCtxView {
            ctx: &mut wasi.context,
            table: &mut wasi.table,
        }
    }
}

impl WasiHttpView for InstanceState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let Wasi { table, http, .. } = self.wasi();
        http.view(table)
    }
}

impl Shared {
    fn imports(&self) -> Option<Arc<dyn Imports>> {
        self.call.lock().imports.clone()
    }

    /// The time since the Unix epoch.
    fn now(&self) -> Duration {
        self.imports()
            .map(|imports| {
                imports
                    .clock_now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default()
            })
            .unwrap_or_default()
    }

    /// Adds output, and logs each completed line.
    fn print(&self, number: usize, bytes: &[u8]) {
        let mut lines = Vec::new();
        let imports = {
            let mut call = self.call.lock();
            if number == 1 {
                call.stderr_tail.push_str(&String::from_utf8_lossy(bytes));
                if call.stderr_tail.len() > 4 * MAX_LAST_ERROR {
                    call.stderr_tail = last_error_tail(&call.stderr_tail).to_string() + "\n";
                }
            }
            let line = &mut call.lines[number];
            for &byte in bytes {
                if byte != b'\n' {
                    line.push(byte);
                }
                if byte == b'\n' || line.len() >= MAX_LINE {
                    lines.push(std::mem::take(line));
                }
            }
            call.imports.clone()
        };
        if let Some(imports) = imports {
            lines.iter().for_each(|line| log(&*imports, number, line));
        }
    }

    /// Logs the unfinished line.
    fn flush(&self, number: usize) {
        let (line, imports) = {
            let mut call = self.call.lock();
            (
                std::mem::take(&mut call.lines[number]),
                call.imports.clone(),
            )
        };
        if let Some(imports) = imports {
            log(&*imports, number, &line);
        }
    }
}

fn log(imports: &dyn Imports, number: usize, line: &[u8]) {
    if !line.is_empty() && imports.log_enabled(LogLevel::Debug) {
        let stream = ["stdout", "stderr"][number];
        imports.log_write(
            LogLevel::Debug,
            &String::from_utf8_lossy(line),
            &[("stream".into(), stream.into())],
        );
    }
}

/// The clock of the current call.
struct Clock(Arc<Shared>);

impl HostWallClock for Clock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        self.0.now()
    }
}

impl HostMonotonicClock for Clock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        let now = u64::try_from(self.0.now().as_nanos()).unwrap_or(u64::MAX);
        self.0.last_time.fetch_max(now, Relaxed).max(now)
    }
}

/// The randomness of the current call.
struct Random(Arc<Shared>);

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, buffer: &mut [u8]) -> Result<(), Infallible> {
        if let Some(imports) = self.0.imports() {
            imports.random_bytes(buffer);
        }
        Ok(())
    }
}

/// Stdout (0) or stderr (1).
#[derive(Clone)]
struct Stream {
    shared: Arc<Shared>,
    number: usize,
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }
}

impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > CHUNK {
            return Err(StreamError::Trap(trap(format!(
                "it printed {} bytes at once, more than the limit of {CHUNK}",
                bytes.len()
            ))));
        }
        self.shared.print(self.number, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}
