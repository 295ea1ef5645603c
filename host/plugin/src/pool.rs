//! The instances of one plugin. A call takes an idle one or creates one, and puts it back; after a
//! failure, or when it has served long enough, it is thrown away. No lock is held while a guest runs.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use crate::bindings::ControllerPre;
use crate::engine::Shared;
use crate::error::{CallError, CallFailure};
use crate::hits::{Counters, Limit};
use crate::imports::Imports;
use crate::instance::Instance;
use crate::limits::Limits;
use crate::meter::Meter;
use crate::pages::Pages;
use crate::plugin::Stats;
use crate::request::Request;
use crate::settings::TABLES_PER_SEAT;
use crate::share::{self, Share};
use crate::threads::Answer;
use crate::world::State;

/// The longest wait that a clock can express.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The instances of one plugin.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    pre: ControllerPre<State>,
    limits: Arc<Limits>,
    /// Seats that each instance takes in the engine's room.
    seats: u32,
    /// One permit a call.
    permits: Arc<Semaphore>,
    /// The one that was used last is at the end.
    idle: Mutex<VecDeque<Idle>>,
    tally: Arc<Tally>,
    share: Arc<Share>,
    /// Of its code, if that is mapped.
    pages: Option<Arc<Pages>>,
    /// When the code was last run or read; none once its pages were given back.
    touched: Mutex<Option<Instant>>,
}

/// An instance that no call uses.
struct Idle {
    instance: Instance,
    since: Instant,
}

/// Counts what a plugin uses.
#[derive(Default)]
pub(crate) struct Tally {
    live: AtomicUsize,
    memory: AtomicUsize,
    instantiated: AtomicU64,
    calls: AtomicU64,
    failures: AtomicU64,
    /// In nanoseconds.
    cpu: AtomicU64,
    /// In nanoseconds.
    waited: AtomicU64,
    pub(crate) hits: Counters,
}

/// Adds what a call has used to the tally, also if the call is dropped.
struct Spending<'a> {
    meter: &'a Meter,
    tally: &'a Tally,
}

impl Pool {
    pub(crate) fn new(
        shared: Arc<Shared>,
        pre: ControllerPre<State>,
        limits: Limits,
        seats: u32,
        pages: Option<Arc<Pages>>,
    ) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(
            limits.max_instances.clamp(1, Semaphore::MAX_PERMITS),
        ));
        let pool = Arc::new(Self {
            share: Arc::new(Share::new(&limits)),
            shared,
            pre,
            limits: Arc::new(limits),
            seats,
            permits,
            idle: Mutex::default(),
            tally: Arc::default(),
            pages,
            touched: Mutex::new(Some(Instant::now())),
        });
        pool.shared.room.join(&pool);
        pool
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Makes a call, once fewer calls run than the plugin may make at once. Dropping the future
    /// stops the call.
    pub(crate) async fn call<R: Request>(
        self: &Arc<Self>,
        imports: Arc<dyn Imports>,
        request: R,
    ) -> Result<R::Answer, CallError> {
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
        *self.touched() = Some(Instant::now());
        result.map_err(|(failure, cpu)| {
            self.tally.failures.fetch_add(1, Relaxed);
            match failure {
                CallFailure::CpuLimit { .. } => self.tally.hits.hit(Limit::Cpu),
                CallFailure::WallLimit { .. } => self.tally.hits.hit(Limit::Wall),
                CallFailure::MemoryLimit { .. } => self.tally.hits.hit(Limit::Memory),
                _ => {}
            }
            CallError {
                call: request.what(),
                failure,
                cpu,
            }
        })
    }

    /// Makes a call on this thread.
    async fn run<R: Request>(&self, imports: Arc<dyn Imports>, request: &R) -> Answer<R::Answer> {
        let now = tokio::time::Instant::now();
        let mut deadline = now
            .checked_add(self.limits.wall_per_call)
            .unwrap_or(now + FOREVER);
        self.share.charge(share::CALL);
        let late = |used| CallFailure::WallLimit {
            used,
            limit: self.limits.wall_per_call,
        };
        let mut instance = match self.take_idle() {
            Some(instance) => instance,
            None => match timeout_at(deadline, self.shared.room.seats(self.seats)).await {
                Ok(Some(seats)) => {
                    let (limits, tally, share) =
                        (self.limits.clone(), self.tally.clone(), self.share.clone());
                    Instance::new(&self.shared.wasmtime, limits, tally, share, seats)
                }
                Ok(None) => return Err((CallFailure::Shutdown, Duration::ZERO)),
                Err(_) => return Err((late(Duration::ZERO), Duration::ZERO)),
            },
        };
        instance.begin_call(imports);
        let meter = instance.meter.clone();
        let _spending = Spending {
            meter: &meter,
            tally: &self.tally,
        };
        let result = {
            let mut call = pin!(meter.run(
                &self.shared.ticker,
                &self.tally.hits,
                instance.call(&self.pre, request)
            ));
            let (start, mut forgiven) = (deadline, Duration::ZERO);
            loop {
                let result = timeout_at(deadline, &mut call).await;
                // Waiting for the plugin's share is the host's doing: it is added to the time that the call has.
                let waited = meter.waited();
                if result.is_ok() || waited <= forgiven {
                    break result;
                }
                forgiven = waited;
                deadline = start.checked_add(waited).unwrap_or(start);
            }
        };
        match result {
            Ok(Ok(answer)) => {
                if instance.end_call() {
                    self.put_back(instance);
                } else {
                    meter.measure(|| drop(instance));
                }
                Ok(answer)
            }
            Ok(Err(error)) => {
                let failed = (instance.failure(&error), meter.spent());
                // To give back much memory takes time too, and it is the guest who wanted so much.
                meter.measure(|| drop(instance));
                Err(failed)
            }
            Err(_) => Err((late(meter.spent()), meter.spent())),
        }
    }

    /// Drops instances that have been idle for this long, and returns how many.
    pub(crate) fn trim_idle(&self, max_idle: Duration) -> usize {
        let dropped: Vec<Idle> = {
            let mut idle = self.idle();
            let count = idle
                .iter()
                .take_while(|idle| idle.since.elapsed() >= max_idle)
                .count();
            idle.drain(..count).collect()
        };
        let count = dropped.len();
        drop(dropped);
        if self.tally.live.load(Relaxed) == 0 {
            self.release_pages(max_idle);
        }
        count
    }

    /// Gives the code's pages back if they were not used for this long.
    fn release_pages(&self, max_idle: Duration) {
        let Some(pages) = &self.pages else { return };
        {
            let mut touched = self.touched();
            if touched.is_none_or(|touched| touched.elapsed() < max_idle) {
                return;
            }
            *touched = None;
        }
        pages.release();
    }

    fn touched(&self) -> MutexGuard<'_, Option<Instant>> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when the instance has been idle that has been so for longest.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.idle().front().map(|idle| idle.since)
    }

    /// Drops the instance that has been idle for longest.
    pub(crate) fn drop_oldest(&self) -> bool {
        let oldest = self.idle().pop_front();
        oldest.is_some()
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            live: self.tally.live.load(Relaxed),
            idle: self.idle().len(),
            memory: self.tally.memory.load(Relaxed),
            instantiated: self.tally.instantiated.load(Relaxed),
            calls: self.tally.calls.load(Relaxed),
            failures: self.tally.failures.load(Relaxed),
            cpu: Duration::from_nanos(self.tally.cpu.load(Relaxed)),
            waited: Duration::from_nanos(self.tally.waited.load(Relaxed)),
            hits: self.tally.hits.read(),
        }
    }

    fn take_idle(&self) -> Option<Instance> {
        self.idle().pop_back().map(|idle| idle.instance)
    }

    fn put_back(&self, instance: Instance) {
        self.idle().push_back(Idle {
            instance,
            since: Instant::now(),
        });
        // Looked at after it can be found: who waits for room and did not find it is seen here.
        if self.shared.room.is_short() {
            self.drop_oldest();
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The seats that an instance of a component takes, so that the pool has room for its memories and its tables.
pub(crate) fn seats(component: &wasmtime::component::Component) -> u32 {
    component.resources_required().map_or(1, |needs| {
        needs
            .num_memories
            .max(needs.num_tables.div_ceil(TABLES_PER_SEAT))
            .max(1)
    })
}

impl Tally {
    pub(crate) fn born(&self) {
        self.live.fetch_add(1, Relaxed);
        self.instantiated.fetch_add(1, Relaxed);
    }

    pub(crate) fn died(&self) {
        self.live.fetch_sub(1, Relaxed);
    }

    /// An instance had so many bytes, and now has so many.
    pub(crate) fn memory(&self, before: usize, now: usize) {
        if now != before {
            self.memory.fetch_add(now, Relaxed);
            self.memory.fetch_sub(before, Relaxed);
        }
    }
}

impl Drop for Spending<'_> {
    fn drop(&mut self) {
        self.tally.cpu.fetch_add(
            self.meter.spent().as_nanos().try_into().unwrap_or(u64::MAX),
            Relaxed,
        );
        self.tally.waited.fetch_add(
            self.meter
                .waited()
                .as_nanos()
                .try_into()
                .unwrap_or(u64::MAX),
            Relaxed,
        );
    }
}
