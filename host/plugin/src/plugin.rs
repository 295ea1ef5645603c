//! A plugin: a component with its limits and its instances. Each call receives its [`Imports`].

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::budget::Budget;
use crate::cloud::{CloudCall, CloudError};
use crate::component::Component;
use crate::engine::Engine;
use crate::error::{CallError, LoadError};
use crate::imports::Imports;
use crate::limits::Limits;
use crate::pool::Pool;
use crate::quota::Quota;
use crate::request::{CloudCapabilities, Delta, Describe, Outcome, Reconcile, Route, RoutedKey};
use crate::tally::Stats;

/// A component with its limits and its instances. Clones are the same plugin; the last one dropped drops the instances.
#[derive(Clone)]
pub struct Plugin {
    pool: Arc<Pool>,
}

impl Plugin {
    /// Creates a plugin without instances. Fails if the types of the component's imports and exports differ from the
    /// world's.
    pub fn new(engine: &Engine, component: Component, limits: Limits) -> Result<Self, LoadError> {
        Ok(Self {
            pool: Pool::new(engine.shared.clone(), component, limits)?,
        })
    }

    /// Returns the guest's description: unchecked JSON.
    pub async fn describe(&self, imports: Arc<dyn Imports>) -> Result<Vec<u8>, CallError> {
        self.pool.call(imports, Describe).await
    }

    /// Reconciles a key. `attempt` is the number of failures since the last success.
    ///
    /// Waits while [`Limits::max_instances`] calls of the plugin run. Dropping the future stops the call.
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

    /// Maps deltas to keys. Returns `Ok(Err(message))` if the guest reports a failure. The caller makes one such call
    /// at a time.
    pub async fn route(
        &self,
        imports: Arc<dyn Imports>,
        deltas: Vec<Delta>,
    ) -> Result<Result<Vec<RoutedKey>, String>, CallError> {
        self.pool.call(imports, Route::new(deltas)).await
    }

    /// Whether the component exports a cloud.
    pub fn is_provider(&self) -> bool {
        self.pool.is_provider()
    }

    /// Returns the capabilities of a provider's cloud: an unchecked document. Returns `Ok(Err(error))` if the provider
    /// reports an error.
    pub async fn cloud_capabilities(
        &self,
        imports: Arc<dyn Imports>,
    ) -> Result<Result<Vec<u8>, CloudError>, CallError> {
        self.pool.call(imports, CloudCapabilities).await
    }

    /// Calls a method of a provider's cloud, and returns the document of its result, unchecked. Waits while
    /// [`Limits::max_instances`] calls of the plugin run. Dropping the future stops the call.
    pub async fn cloud_call(
        &self,
        imports: Arc<dyn Imports>,
        call: CloudCall,
    ) -> Result<Result<Vec<u8>, CloudError>, CallError> {
        self.pool.call(imports, call).await
    }

    /// Runs work that the host does for the plugin outside of its calls, such as routing: it waits for the plugin's CPU
    /// quota, and is charged to it. Without a quota, the work runs at once.
    pub async fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        self.pool.share().run(work).await
    }

    /// The threads for such work. They are the engine's threads, so that the work never delays the host's other tasks. A
    /// built-in without a CPU quota uses the caller's threads; the caller must be a task.
    pub fn threads(&self) -> Handle {
        self.pool.threads()
    }

    /// The threads for the requests that the host sends for the plugin, and for their connections. They serve nothing else.
    /// A built-in without a CPU quota uses the caller's threads; the caller must be a task.
    pub fn request_threads(&self) -> Handle {
        self.pool.request_threads()
    }

    /// The CPU quota, for the host's work outside of calls. None if the plugin has no quota.
    pub fn quota(&self) -> Option<Quota> {
        Quota::of(self.pool.share().clone(), || self.threads())
    }

    /// Drops instances that have been idle for `max_idle`, and returns how many. Zero drops all idle instances.
    ///
    /// If no instance is left and the code has not run for `max_idle`, also unloads the plugin's code if it is mapped
    /// from the cache; the next call maps it again. Meant to be called periodically while the code is
    /// [`loaded`](Self::loaded).
    pub fn trim_idle(&self, max_idle: Duration) -> usize {
        self.pool.trim_idle(max_idle)
    }

    /// Returns as soon as the code is loaded, which it is at first, or an instance exists. To be awaited by one task.
    pub async fn loaded(&self) {
        self.pool.loaded().await;
    }

    /// Ends all calls at their next tick or at the next check of a host function, because the plugin was removed. Later
    /// calls end as soon as they are polled.
    pub fn stop(&self) {
        self.pool.share().stop();
    }

    /// The bytes that the host may hold for the plugin's calls.
    pub fn budget(&self) -> &Arc<Budget> {
        self.pool.budget()
    }

    pub fn limits(&self) -> &Limits {
        self.pool.limits()
    }

    /// The most that the instances of the plugin may have together, in bytes; none for no limit.
    pub fn total_memory(&self) -> Option<usize> {
        self.pool.total_memory()
    }

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
