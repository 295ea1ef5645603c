//! The shared informers of the process: one reflector for each kind and scope. The first handle starts it, and dropping
//! the last one stops it.

use std::sync::Arc;

use flyball_types::Mask;
use parking_lot::Mutex;
use tokio::runtime;
use tokio::sync::watch;

use crate::core::{Core, Indexes};
use crate::informer::Handle;
use crate::reachability::Reachability;
use crate::reflector::Reflector;
use crate::registrations::{RegisteredInformer, Registration, Shared};
use crate::{Informer, InformerStatus, Interest, ListMode, Observe, Source};

/// Creates informers and owns the tasks of their reflectors.
pub struct InformerFactory {
    shared: Arc<Shared>,
}

impl InformerFactory {
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self::sharing(
            source,
            Arc::default(),
            ListMode::default(),
            Arc::new(|_, _| {}),
        )
    }

    /// A factory whose reflectors share the record of the server's reachability with others. `observe` is called for each
    /// list and each batch of changes.
    pub fn sharing(
        source: Arc<dyn Source>,
        reachability: Arc<Reachability>,
        list_mode: ListMode,
        observe: Arc<Observe>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                source,
                reachability,
                list_mode,
                observe,
                registrations: Mutex::default(),
            }),
        }
    }

    /// Returns a handle to the informer of this kind and scope.
    ///
    /// No request is sent before [`InformerFactory::start`], so that the first list has the fields of all handles. A
    /// running reflector whose mask does not cover the interest soon lists again with a wider mask (see
    /// [`Informer::synced`]).
    ///
    /// An interest in metadata only is served by the informer of whole objects if there is one.
    pub fn informer(&self, interest: Interest) -> Informer {
        let paths = interest
            .indexes
            .iter()
            .chain(&interest.selectors)
            .chain(interest.scope.paths());
        let mask = Mask::of(paths).and_then(|kept| interest.mask.union(&kept));
        // If they are too complex together, the cache keeps whole objects, and readers of the handle see the interest's
        // own fields.
        let (mask, kept) = match mask.map(Arc::new) {
            Ok(mask) => (mask.clone(), mask),
            Err(_) => (Arc::new(interest.mask), Arc::new(Mask::whole())),
        };
        let mut registrations = self.shared.registrations.lock();
        let fits = |entry: &&RegisteredInformer| {
            entry.core.resource.kind == interest.resource.kind
                && entry.core.scope == interest.scope
                && (entry.core.is_metadata_only() == interest.metadata_only
                    || interest.metadata_only
                    || entry.task.is_none())
        };
        // If two fit, use the one that holds whole objects.
        let core = match registrations
            .entries
            .iter()
            .filter(fits)
            .min_by_key(|entry| entry.core.is_metadata_only())
        {
            Some(entry) => Arc::clone(&entry.core),
            None => {
                let core = Core::new(interest.resource, interest.scope, interest.metadata_only);
                registrations.entries.push(RegisteredInformer {
                    core: Arc::new(core),
                    task: None,
                });
                Arc::clone(&registrations.entries[registrations.entries.len() - 1].core)
            }
        };
        if core.is_metadata_only() && !interest.metadata_only {
            core.hold_all();
        }
        let indexes = Arc::new(Indexes {
            values: interest.indexes,
            selectors: interest.selectors,
        });
        let number = core.register(&kept, &indexes);
        drop(registrations);
        build(&core, &indexes);
        let registration = Registration {
            shared: Arc::clone(&self.shared),
            core: Arc::clone(&core),
            number,
            indexes: Arc::clone(&indexes),
        };
        let source = Arc::clone(&self.shared.source);
        Informer {
            handle: Arc::new(Handle {
                core,
                mask,
                indexes,
                source,
                _registration: registration,
            }),
        }
    }

    /// Starts the reflectors that are not running yet. Must be called in a tokio runtime.
    pub fn start(&self) {
        let mut registrations = self.shared.registrations.lock();
        registrations.ending.retain(|task| !task.is_finished());
        if registrations.stopped {
            return;
        }
        for entry in registrations
            .entries
            .iter_mut()
            .filter(|entry| entry.task.is_none())
        {
            let (stop, stopped) = watch::channel(false);
            let Shared {
                source,
                reachability,
                list_mode,
                observe,
                ..
            } = &*self.shared;
            let reflector = Reflector::new(
                Arc::clone(&entry.core),
                Arc::clone(source),
                Arc::clone(reachability),
                *list_mode,
                Arc::clone(observe),
            );
            entry.task = Some((stop, tokio::spawn(reflector.run(stopped))));
        }
    }

    /// Stops all reflectors and waits for their tasks. The caches stay readable.
    pub async fn shutdown(&self) {
        let tasks = {
            let mut registrations = self.shared.registrations.lock();
            registrations.stopped = true;
            let mut tasks = std::mem::take(&mut registrations.ending);
            for entry in &mut registrations.entries {
                match entry.task.take() {
                    Some((stop, task)) => {
                        stop.send_replace(true);
                        tasks.push(task);
                    }
                    None => entry.core.close(),
                }
            }
            tasks
        };
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a reflector panicked");
            }
        }
    }

    pub fn status(&self) -> Vec<InformerStatus> {
        let cores: Vec<Arc<Core>> = self
            .shared
            .registrations
            .lock()
            .entries
            .iter()
            .map(|entry| Arc::clone(&entry.core))
            .collect();
        cores.iter().map(|core| InformerStatus::of(core)).collect()
    }
}

/// Builds indexes of a running informer on a thread of its own, so that nobody waits for them. Without a runtime, no
/// informer is running.
fn build(core: &Arc<Core>, indexes: &Arc<Indexes>) {
    if core.has_built(indexes) {
        return;
    }
    let (core, indexes) = (Arc::clone(core), Arc::clone(indexes));
    let build = move || core.build(&indexes);
    match runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(build)),
        Err(_) => build(),
    }
}
