//! One instance of a plugin: its store, its resource usage, and the reason why a call to it failed. It serves one call
//! at a time, and none after a failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::{Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::backtrace::{function_names, place};
use crate::error::CallFailure;
use crate::exports::{Exports, Linked};
use crate::hits::Limit;
use crate::imports::Imports;
use crate::limits::{Limits, Refused};
use crate::meter::{Meter, Stopped};
use crate::request::Request;
use crate::share::Share;
use crate::slots::Slots;
use crate::tally::Tally;
use crate::world::{InstanceState, RuleViolation};

/// A call is long if it took at least this many times as long as the creation of another instance. The memory of its
/// instance need not be kept then.
const LONG_CALL: u32 = 10;
/// About how long it takes to get another MiB of memory from the system.
const COST_OF_A_MIB: Duration = Duration::from_micros(250);

/// Wasmtime's message if a guest passes too much data to the host. The error has no public type.
const HOSTCALL_FUEL_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";

/// An instance, from before it is instantiated until it is dropped.
pub(crate) struct Instance {
    store: Store<InstanceState>,
    guest: Guest,
    pub(crate) meter: Arc<Meter>,
    limits: Arc<Limits>,
    calls: u32,
    /// Bytes that the engine keeps of it besides its memories and tables.
    footprint: usize,
    /// Bytes of memory after instantiation.
    initial_memory: usize,
    /// How long the instantiation took.
    creation: Duration,
    tally: Arc<Tally>,
    /// The last field, so that the slots are released after the store has returned its memory to the engine's pool.
    _slots: Slots,
}

enum Guest {
    /// Until the first call.
    Linked(Arc<Linked>),
    Instantiated(Exports),
}

impl Instance {
    /// Creates the store. The first call instantiates the component.
    pub(crate) fn new(
        linked: Arc<Linked>,
        limits: Arc<Limits>,
        tally: Arc<Tally>,
        share: Arc<Share>,
        (slots, footprint): (Slots, usize),
    ) -> Self {
        let meter = Arc::new(Meter::new(share, limits.cpu_per_call));
        let mut store = Store::new(
            linked.engine(),
            InstanceState::new(limits.clone(), meter.clone(), tally.clone()),
        );
        store.set_hostcall_fuel(limits.staged_bytes);
        store.limiter(|state| &mut state.memory);
        store.epoch_deadline_callback(|context| {
            let state = context.data();
            state.meter.check().map_err(wasmtime::Error::new)?;
            state.meter.interrupt();
            Ok(UpdateDeadline::Yield(1))
        });
        tally.instance_created();
        Self {
            store,
            guest: Guest::Linked(linked),
            meter,
            limits,
            calls: 0,
            footprint,
            initial_memory: 0,
            creation: Duration::ZERO,
            tally,
            _slots: slots,
        }
    }

    /// Runs one call. After an error the instance must not be used again, except for [`Instance::failure`].
    pub(crate) async fn call<R: Request>(&mut self, request: &R) -> wasmtime::Result<R::Output> {
        // The epoch may have advanced since the last call, so the deadline is the next tick. The CPU limit itself is
        // checked against the meter.
        self.store.set_epoch_deadline(1);
        if let Guest::Linked(linked) = &self.guest {
            let memory = &mut self.store.data_mut().memory;
            if !memory.grow(self.footprint) {
                return Err(wasmtime::Error::msg("its instance takes too much memory"));
            }
            let started = Instant::now();
            let guest = linked.instantiate(&mut self.store).await?;
            self.creation = started.elapsed();
            self.guest = Guest::Instantiated(guest);
            self.initial_memory = self.store.data().memory.used();
        }
        let Guest::Instantiated(guest) = &self.guest else {
            return Err(wasmtime::Error::msg("the component is not instantiated"));
        };
        request.call(guest, &mut self.store).await
    }

    pub(crate) fn begin_call(&mut self, imports: Arc<dyn Imports>) {
        self.calls += 1;
        self.store.data_mut().begin_call(imports);
    }

    /// Ends a call that has returned. Returns false if the instance must be dropped instead of serving another call.
    pub(crate) fn end_call(&mut self) -> bool {
        let state = self.store.data_mut();
        state.end_call();
        let memory = state.memory.used();
        let has_leaked_handles = state.has_leaked_handles();
        if let Some(limit) = state.memory.refused().and_then(|r| r.owner.limit()) {
            self.tally.hits.hit(limit);
        }
        let growth = memory.saturating_sub(self.initial_memory);
        let another = self.creation + COST_OF_A_MIB * (growth >> 20).try_into().unwrap_or(u32::MAX);
        let is_long = self.meter.spent() > another.saturating_mul(LONG_CALL);
        self.calls < self.limits.recycle_calls
            && growth <= self.limits.recycle_growth
            && !(is_long && growth > self.limits.idle_growth)
            && !has_leaked_handles
    }

    /// Returns the reason why a call failed with this error.
    pub(crate) fn failure(&self, error: &wasmtime::Error) -> CallFailure {
        let state = self.store.data();
        let frames = error.downcast_ref::<WasmBacktrace>();
        let has_run = frames.is_some_and(|frames| !frames.frames().is_empty());
        let backtrace = frames.and_then(function_names);
        let place = || backtrace.as_deref().and_then(place);
        match error.downcast_ref() {
            Some(Stopped::CpuExceeded) => {
                let (used, limit) = (self.meter.spent(), self.limits.cpu_per_call);
                return CallFailure::CpuLimit {
                    used: whole_millis(used),
                    limit,
                    place: place(),
                    backtrace,
                };
            }
            Some(Stopped::Removed) => return CallFailure::Removed,
            None => {}
        }
        if let Some(Refused {
            wanted,
            limit,
            owner,
        }) = state.memory.refused()
        {
            return CallFailure::MemoryLimit {
                wanted,
                limit,
                owner,
                last_error: state.last_error(),
                backtrace,
            };
        }
        let message = if let Some(I32Exit(code)) = error.downcast_ref() {
            format!("it called exit({code})")
        } else if let Some(RuleViolation(message)) = error.downcast_ref() {
            message.clone()
        } else if error
            .root_cause()
            .to_string()
            .contains(HOSTCALL_FUEL_EXHAUSTED)
        {
            self.tally.hits.hit(Limit::Staged);
            format!(
                "it passed more than its limit of {} bytes to the host at once",
                self.limits.staged_bytes
            )
        } else if let Some(trap) = error.downcast_ref::<Trap>() {
            trap.to_string()
                .trim_start_matches("wasm trap: ")
                .to_string()
        } else if matches!(self.guest, Guest::Linked(_)) && !has_run {
            return CallFailure::Instantiate(format!("{error:#}"));
        } else {
            error.root_cause().to_string()
        };
        let last_error = state.last_error();
        let is_unexplained = error.downcast_ref::<Trap>().is_some() && last_error.is_none();
        CallFailure::Trap {
            message,
            place: is_unexplained.then(place).flatten(),
            last_error,
            backtrace,
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.tally.instance_dropped();
    }
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis().try_into().unwrap_or(u64::MAX))
}
