//! The pool of a plugin's instances. A call takes an idle instance or creates one. Afterwards the instance returns to
//! the pool, or is dropped if the call failed or the instance has reached a recycling limit. No lock is held while a
//! guest runs.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout_at;

use crate::budget::Budget;
use crate::component::{Code, Component};
use crate::engine::Shared;
use crate::error::{CallError, CallFailure, LoadError};
use crate::exports::Linked;
use crate::hits::Limit;
use crate::imports::Imports;
use crate::instance::Instance;
use crate::limits::{Limits, MemoryShares};
use crate::request::Request;
use crate::settings::{GUEST_STACK, TABLES_PER_SLOT};
use crate::share::{self, Share};
use crate::slots::{Holder, IdleInstances};
use crate::tally::{Stats, Tally, UsageGuard};
use crate::threads::{CallResult, Threads};

/// Used if a deadline is too late to be expressed. Longer times overflow the clocks of some systems.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

pub(crate) struct Pool {
    shared: Arc<Shared>,
    code: Arc<Code>,
    /// The code, linked with the host's functions; none while it is unloaded.
    linked: Mutex<Option<Arc<Linked>>>,
    /// Whether the component exports a cloud.
    is_provider: bool,
    /// Notified when an instance is created, for which unloaded code is loaded.
    loaded: Notify,
    limits: Arc<Limits>,
    /// Instance slots that each instance occupies.
    slots_per_instance: u32,
    /// Bytes of each instance besides its memories and tables, and its stack if it has no reservation.
    footprint: usize,
    /// One permit for each call that may run at once.
    permits: Arc<Semaphore>,
    /// The most recently used instance is last.
    idle: Mutex<VecDeque<Idle>>,
    tally: Arc<Tally>,
    share: Arc<Share>,
    /// Counts the plugin's slots; none if it has a reservation.
    holder: Option<Arc<Holder>>,
    /// When a call last ended, or the plugin was created.
    last_used: Mutex<Instant>,
}

/// An instance that no call uses.
struct Idle {
    instance: Instance,
    since: Instant,
}

impl Pool {
    /// Fails as [`crate::Plugin::new`] does.
    pub(crate) fn new(
        shared: Arc<Shared>,
        component: Component,
        limits: Limits,
    ) -> Result<Arc<Self>, LoadError> {
        let Component {
            code, footprint, ..
        } = component;
        let linked =
            link(&shared, &code).map_err(|error| LoadError::Mismatch(format!("{error:#}")))?;
        let slots_per_instance = slots_needed(linked.component());
        if slots_per_instance as usize > limits.max_slots {
            return Err(LoadError::Compile(format!(
                "an instance needs {slots_per_instance} slots for its memories and tables, and the limit is {}",
                limits.max_slots
            )));
        }
        // The pages of a stack stay with the instance. How many it has used is unknown, and a malicious guest uses all.
        let footprint = match limits.is_reserved {
            true => footprint,
            false => footprint + GUEST_STACK,
        };
        let instances = limits.instances(slots_per_instance);
        let permits = Arc::new(Semaphore::new(instances.min(Semaphore::MAX_PERMITS)));
        let memory = MemoryShares::new(&limits, &shared.memory);
        let tally = Arc::new(Tally::new(&limits, memory));
        let pool = Arc::new(Self {
            share: Arc::new(Share::new(&limits)),
            holder: (!limits.is_reserved).then(Arc::default),
            shared,
            code,
            is_provider: linked.is_provider(),
            linked: Mutex::new(Some(linked)),
            loaded: Notify::new(),
            limits: Arc::new(limits),
            slots_per_instance,
            footprint,
            permits,
            idle: Mutex::default(),
            tally,
            last_used: Mutex::new(Instant::now()),
        });
        let idle: Weak<Self> = Arc::downgrade(&pool);
        pool.shared.slots.register(idle);
        Ok(pool)
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.tally.budget
    }

    /// See [`crate::Plugin::is_provider`].
    pub(crate) fn is_provider(&self) -> bool {
        self.is_provider
    }

    pub(crate) fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// See [`crate::Plugin::threads`].
    pub(crate) fn threads(&self) -> Handle {
        let threads = self.own_threads();
        threads.map_or_else(Handle::current, Threads::handle)
    }

    /// See [`crate::Plugin::request_threads`].
    pub(crate) fn request_threads(&self) -> Handle {
        let threads = self.own_threads();
        threads.map_or_else(Handle::current, Threads::requests)
    }

    /// The engine's threads, unless the plugin may use the threads of the caller.
    fn own_threads(&self) -> Option<&Threads> {
        let threads = self.shared.threads();
        threads.filter(|_| !self.share.runs_inline())
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Runs a call as soon as fewer calls of the plugin run than it may have instances. Dropping the future stops the
    /// call.
    pub(crate) async fn call<R: Request>(
        self: &Arc<Self>,
        imports: Arc<dyn Imports>,
        request: R,
    ) -> Result<R::Output, CallError> {
        let request = Arc::new(request);
        if self.permits.available_permits() == 0 {
            self.tally.hits.hit(Limit::Instances);
        }
        let result = match self.permits.clone().acquire_owned().await {
            Ok(permit) => {
                let (pool, request) = (self.clone(), request.clone());
                let task = async move {
                    let _permit = permit;
                    pool.run(imports, &*request).await
                };
                match self.shared.threads() {
                    Some(threads) => threads.call(&self.share, task).await,
                    None => Err((CallFailure::Shutdown, Duration::ZERO)),
                }
            }
            Err(_) => Err((CallFailure::Shutdown, Duration::ZERO)),
        };
        self.tally.calls.fetch_add(1, Relaxed);
        *self.last_used.lock() = Instant::now();
        result.map_err(|(failure, cpu)| {
            self.tally.failures.fetch_add(1, Relaxed);
            match failure {
                CallFailure::CpuLimit { .. } => self.tally.hits.hit(Limit::Cpu),
                CallFailure::WallLimit { .. } => self.tally.hits.hit(Limit::Wall),
                CallFailure::MemoryLimit { owner, .. } => {
                    if let Some(limit) = owner.limit() {
                        self.tally.hits.hit(limit);
                    }
                }
                _ => {}
            }
            CallError {
                call: request.label(),
                failure,
                cpu,
            }
        })
    }

    /// Runs a call on this thread.
    async fn run<R: Request>(
        &self,
        imports: Arc<dyn Imports>,
        request: &R,
    ) -> CallResult<R::Output> {
        let now = tokio::time::Instant::now();
        let mut deadline = now
            .checked_add(self.limits.wall_per_call)
            .unwrap_or(now + FOREVER);
        self.share.charge(share::CALL_COST);
        let mut instance = match self.take_idle() {
            Some(instance) => instance,
            None => {
                let slots = self
                    .shared
                    .slots
                    .acquire(self.slots_per_instance, self.holder.as_ref());
                let waits = self.tally.wait_for_slots();
                let slots = timeout_at(deadline, slots).await;
                drop(waits);
                match slots {
                    Ok(Some(slots)) => {
                        let linked = self.linked().map_err(|error| {
                            (
                                CallFailure::Instantiate(format!("{error:#}")),
                                Duration::ZERO,
                            )
                        })?;
                        let (limits, tally, share) =
                            (self.limits.clone(), self.tally.clone(), self.share.clone());
                        let created =
                            Instance::new(linked, limits, tally, share, (slots, self.footprint));
                        self.loaded.notify_one();
                        created
                    }
                    Ok(None) => return Err((CallFailure::Shutdown, Duration::ZERO)),
                    Err(_) => {
                        let waited = self.limits.wall_per_call;
                        return Err((CallFailure::NoSlot { waited }, Duration::ZERO));
                    }
                }
            }
        };
        self.tally.got_instance();
        instance.begin_call(imports);
        let meter = instance.meter.clone();
        let _usage = UsageGuard {
            meter: &meter,
            tally: &self.tally,
        };
        let result = {
            let mut call = pin!(meter.run(
                &self.shared.ticker,
                &self.tally.hits,
                instance.call(request)
            ));
            let (wall_deadline, mut extension) = (deadline, Duration::ZERO);
            loop {
                let result = timeout_at(deadline, &mut call).await;
                // The host causes the wait for the CPU quota, so that wait extends the deadline.
                let waited = meter.waited();
                if result.is_ok() || waited <= extension {
                    break result;
                }
                extension = waited;
                deadline = wall_deadline.checked_add(waited).unwrap_or(wall_deadline);
            }
        };
        let result = result.map(|ended| ended.unwrap_or_else(|exceeded| Err(exceeded.into())));
        match result {
            Ok(Ok(output)) => {
                if instance.end_call() {
                    self.put_back(instance);
                } else {
                    meter.measure(|| drop(instance));
                }
                Ok(output)
            }
            Ok(Err(error)) => {
                let failed = (instance.failure(&error), meter.spent());
                // Freeing much memory takes time too, and is charged to the guest that allocated it.
                meter.measure(|| drop(instance));
                Err(failed)
            }
            Err(_) => {
                let (used, limit) = (meter.spent(), self.limits.wall_per_call);
                Err((CallFailure::WallLimit { used, limit }, used))
            }
        }
    }

    /// See [`crate::Plugin::trim_idle`].
    pub(crate) fn trim_idle(&self, max_idle: Duration) -> usize {
        let dropped: Vec<Idle> = {
            let mut idle = self.idle.lock();
            let count = idle
                .iter()
                .take_while(|idle| idle.since.elapsed() >= max_idle)
                .count();
            idle.drain(..count).collect()
        };
        let count = dropped.len();
        drop(dropped);
        if self.tally.live.load(Relaxed) == 0 {
            self.unload(max_idle);
        }
        count
    }

    /// Returns the linked code. Loads it if it is unloaded.
    fn linked(&self) -> wasmtime::Result<Arc<Linked>> {
        let mut linked = self.linked.lock();
        if let Some(linked) = &*linked {
            return Ok(linked.clone());
        }
        Ok(linked.insert(link(&self.shared, &self.code)?).clone())
    }

    /// Unloads the code if it can be loaded again and has not run for `max_idle`.
    fn unload(&self, max_idle: Duration) {
        if self.last_used.lock().elapsed() >= max_idle && self.code.unload() {
            *self.linked.lock() = None;
        }
    }

    /// See [`crate::Plugin::loaded`].
    pub(crate) async fn loaded(&self) {
        // A call that begins while the code is unloaded may still create an instance of it.
        while self.linked.lock().is_none() && self.tally.live.load(Relaxed) == 0 {
            self.loaded.notified().await;
        }
    }

    /// See [`crate::Plugin::total_memory`].
    pub(crate) fn total_memory(&self) -> Option<usize> {
        self.tally.memory_shares.limit()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.tally.stats(self.idle.lock().len())
    }

    fn take_idle(&self) -> Option<Instance> {
        self.idle.lock().pop_back().map(|idle| idle.instance)
    }

    fn put_back(&self, instance: Instance) {
        self.idle.lock().push_back(Idle {
            instance,
            since: Instant::now(),
        });
        // Checked after the instance was added: a waiter that did not find it is visible by now.
        if self.shared.slots.has_waiters(self.holder()) {
            self.drop_oldest();
        }
    }
}

impl IdleInstances for Pool {
    fn holder(&self) -> Option<&Arc<Holder>> {
        self.holder.as_ref()
    }

    fn oldest_since(&self) -> Option<Instant> {
        self.idle.lock().front().map(|idle| idle.since)
    }

    fn drop_oldest(&self) -> bool {
        let oldest = self.idle.lock().pop_front();
        oldest.is_some()
    }
}

/// Links code with the host's functions. Loads it if it is unloaded.
fn link(shared: &Shared, code: &Code) -> wasmtime::Result<Arc<Linked>> {
    let linked = shared.linker.instantiate_pre(&code.load()?)?;
    Linked::new(linked).map(Arc::new)
}

/// The instance slots that an instance of a component occupies: enough for its memories and its tables.
fn slots_needed(component: &wasmtime::component::Component) -> u32 {
    component.resources_required().map_or(1, |needs| {
        needs
            .num_memories
            .max(needs.num_tables.div_ceil(TABLES_PER_SLOT))
            .max(1)
    })
}
