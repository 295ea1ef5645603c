//! A plugin: a component with its limits and its instances. Each call is given its [`Imports`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_types::description::DeltaType;

use crate::bindings::ControllerPre;
use crate::component::Component;
use crate::engine::Engine;
use crate::error::{CallError, LoadError};
use crate::hits::Hits;
use crate::imports::Imports;
use crate::limits::Limits;
use crate::pool::{self, Pool};
use crate::request::{Describe, Reconcile, Route};

/// How a reconcile ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key is as it should be.
    Done,
    /// As done, and reconcile it again after this time.
    RequeueAfter(Duration),
    /// It failed, with a sentence for people; a retry may help.
    Failed(String),
    /// It failed, with a sentence for people; no retry can help.
    Terminal(String),
}

/// A change of an object, for `route`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The object's kind, as in `v1/Pod`.
    pub watch: String,
    pub delta_type: DeltaType,
    /// The object before the change, in JSON, reduced to the declared fields; the last version of an object that was added
    /// and deleted since the last call.
    pub old: Option<Bytes>,
    /// The object after the change.
    pub new: Option<Bytes>,
    /// True if the object was there when the watch began.
    pub initial: bool,
}

/// A key that `route` enqueues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedKey {
    /// The queue; the plugin's first one, if empty.
    pub queue: String,
    pub key: String,
    /// Enqueue it only after this time.
    pub delay: Duration,
}

/// What a plugin has used, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instances that exist.
    pub live: usize,
    /// Instances of those that no call uses.
    pub idle: usize,
    /// Bytes of linear memory of all instances.
    pub memory: usize,
    /// Instances created since the start.
    pub instantiated: u64,
    /// Calls since the start.
    pub calls: u64,
    /// Calls that did not return.
    pub failures: u64,
    /// Time on cores of all calls.
    pub cpu: Duration,
    /// Time for which calls have waited for the plugin's share of the cores, or for a core because of it, all together.
    pub waited: Duration,
    /// How often the limits were hit.
    pub hits: Hits,
}

/// A component with its limits and its instances. Clones are the same plugin; the last one dropped drops the instances.
#[derive(Clone)]
pub struct Plugin {
    pool: Arc<Pool>,
}

impl Plugin {
    /// A plugin without instances yet. Fails if the component does not fit the world.
    pub fn new(engine: &Engine, component: Component, limits: Limits) -> Result<Self, LoadError> {
        let shared = engine.shared.clone();
        let mismatch = |error: wasmtime::Error| LoadError::Mismatch(format!("{error:#}"));
        let pre = shared
            .linker
            .instantiate_pre(&component.code)
            .and_then(ControllerPre::new)
            .map_err(mismatch)?;
        let seats = pool::seats(&component.code);
        Ok(Self {
            pool: Pool::new(shared, pre, limits, seats, component.pages),
        })
    }

    /// The guest's description of itself: JSON, not yet checked.
    pub async fn describe(&self, imports: Arc<dyn Imports>) -> Result<Vec<u8>, CallError> {
        self.pool.call(imports, Describe).await
    }

    /// Reconciles a key. `attempt` is the number of failures since the last success.
    ///
    /// Waits while as many calls run as the plugin may have instances. The call is stopped if this future is dropped.
    pub async fn reconcile(
        &self,
        imports: Arc<dyn Imports>,
        queue: &str,
        key: &str,
        attempt: u32,
    ) -> Result<Outcome, CallError> {
        self.pool
            .call(
                imports,
                Reconcile {
                    queue: queue.into(),
                    key: key.into(),
                    attempt,
                },
            )
            .await
    }

    /// Turns deltas into keys; `Ok(Err(sentence))` if the guest reports a failure. The caller makes one such call at a time.
    pub async fn route(
        &self,
        imports: Arc<dyn Imports>,
        deltas: Vec<Delta>,
    ) -> Result<Result<Vec<RoutedKey>, String>, CallError> {
        self.pool.call(imports, Route::new(deltas)).await
    }

    /// Drops instances that no call has used for this long; returns how many. Zero drops all idle ones. Where none is left
    /// and none was used for this long, the pages of the plugin's code are given back to the system too, if they come from
    /// the cache: the next call reads them again. To be called now and then; may block for a millisecond.
    pub fn trim_idle(&self, max_idle: Duration) -> usize {
        self.pool.trim_idle(max_idle)
    }

    /// The plugin's limits.
    pub fn limits(&self) -> &Limits {
        self.pool.limits()
    }

    /// What the plugin has used.
    pub fn stats(&self) -> Stats {
        self.pool.stats()
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("limits", self.limits())
            .field("stats", &self.stats())
            .finish()
    }
}
