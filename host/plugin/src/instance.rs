//! One instance of a plugin: its store, what it has used, and why a call to it failed. It serves one call at a time, and
//! none after a failure.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use wasmtime::{Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::bindings::{Controller, ControllerPre};
use crate::error::CallFailure;
use crate::hits::Limit;
use crate::imports::Imports;
use crate::limits::Limits;
use crate::meter::Meter;
use crate::pool::Tally;
use crate::request::Request;
use crate::share::Share;
use crate::world::{Broken, State};

/// What wasmtime says where a guest passes too much to the host; the error itself has no public type.
const FUEL: &str = "fuel allocated for hostcalls has been exhausted";

/// An instance, from before it is instantiated until it is thrown away.
pub(crate) struct Instance {
    store: Store<State>,
    /// None until the first call.
    guest: Option<Controller>,
    pub(crate) meter: Arc<Meter>,
    limits: Arc<Limits>,
    calls: u32,
    /// Bytes of memory after it was instantiated.
    initial_memory: usize,
    /// Bytes of memory that the tally counts for it.
    counted: usize,
    tally: Arc<Tally>,
    /// Given back last, when the store has left the engine's pool.
    _seats: OwnedSemaphorePermit,
}

/// The guest has used up its time on a core.
#[derive(Debug, thiserror::Error)]
#[error("the guest used up its time")]
struct CpuExceeded;

impl Instance {
    /// An instance that is yet to be instantiated, which its first call does.
    pub(crate) fn new(
        engine: &wasmtime::Engine,
        limits: Arc<Limits>,
        tally: Arc<Tally>,
        share: Arc<Share>,
        seats: OwnedSemaphorePermit,
    ) -> Self {
        let meter = Arc::new(Meter::new(share));
        let mut store = Store::new(
            engine,
            State::new(limits.clone(), meter.clone(), tally.clone()),
        );
        store.set_hostcall_fuel(limits.staged_bytes);
        store.limiter(|state| &mut state.memory);
        store.epoch_deadline_callback(|context| {
            let state = context.data();
            if state.meter.spent_until_now() > state.cpu_limit() {
                return Err(wasmtime::Error::new(CpuExceeded));
            }
            state.meter.interrupt();
            Ok(UpdateDeadline::Yield(1))
        });
        tally.born();
        Self {
            store,
            guest: None,
            meter,
            limits,
            calls: 0,
            initial_memory: 0,
            counted: 0,
            tally,
            _seats: seats,
        }
    }

    /// Serves one call. After an error the instance is of no more use but to ask for its [`Instance::failure`].
    pub(crate) async fn call<R: Request>(
        &mut self,
        pre: &ControllerPre<State>,
        request: &R,
    ) -> wasmtime::Result<R::Answer> {
        // Whatever ticked since the last call, this one starts at the current tick: its budget is the meter's.
        self.store.set_epoch_deadline(1);
        if self.guest.is_none() {
            self.guest = Some(pre.instantiate_async(&mut self.store).await?);
            self.initial_memory = self.store.data().memory.used();
        }
        let Some(guest) = &self.guest else {
            return Err(wasmtime::Error::msg("there is no instance"));
        };
        request
            .call(guest.flyball_controller_guest(), &mut self.store)
            .await
    }

    /// Begins a call with these imports.
    pub(crate) fn begin_call(&mut self, imports: Arc<dyn Imports>) {
        self.calls += 1;
        self.store.data_mut().begin_call(imports);
    }

    /// Ends a call that has returned. Returns whether the instance may serve another.
    pub(crate) fn end_call(&mut self) -> bool {
        let state = self.store.data_mut();
        state.end_call();
        let memory = state.memory.used();
        let handles = state.held_handles();
        if state.memory.refused().is_some() {
            self.tally.hits.hit(Limit::Memory);
        }
        self.tally.memory(self.counted, memory);
        self.counted = memory;
        self.calls < self.limits.recycle_calls
            && memory.saturating_sub(self.initial_memory) <= self.limits.recycle_growth
            && handles <= self.limits.handles / 2
    }

    /// Why a call to it failed.
    pub(crate) fn failure(&self, error: &wasmtime::Error) -> CallFailure {
        let state = self.store.data();
        let backtrace = error.downcast_ref::<WasmBacktrace>().and_then(functions);
        if error.is::<CpuExceeded>() {
            let (used, limit) = (self.meter.spent(), self.limits.cpu_per_call);
            return CallFailure::CpuLimit {
                used: round(used),
                limit,
                backtrace,
            };
        }
        if let Some(wanted) = state.memory.refused() {
            return CallFailure::MemoryLimit {
                wanted,
                limit: self.limits.memory,
                said: state.said(),
                backtrace,
            };
        }
        let message = if let Some(I32Exit(code)) = error.downcast_ref() {
            format!("it called exit({code})")
        } else if let Some(Broken(rule)) = error.downcast_ref() {
            rule.clone()
        } else if error.root_cause().to_string().contains(FUEL) {
            self.tally.hits.hit(Limit::Staged);
            format!(
                "it passed more than its limit of {} bytes to the host at once",
                self.limits.staged_bytes
            )
        } else if let Some(trap) = error.downcast_ref::<Trap>() {
            trap.to_string()
                .trim_start_matches("wasm trap: ")
                .to_string()
        } else if self.guest.is_none() && backtrace.is_none() {
            return CallFailure::Instantiate(format!("{error:#}"));
        } else {
            error.root_cause().to_string()
        };
        CallFailure::Trap {
            message,
            said: state.said(),
            backtrace,
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.tally.memory(self.counted, 0);
        self.tally.died();
    }
}

/// The functions of a backtrace, one a line.
fn functions(backtrace: &WasmBacktrace) -> Option<String> {
    let text = backtrace.to_string();
    let frames: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once(" - ").map(|(_, name)| name.trim()))
        .collect();
    (!frames.is_empty()).then(|| frames.join("\n"))
}

/// Whole milliseconds: more says nothing.
fn round(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis().try_into().unwrap_or(u64::MAX))
}
