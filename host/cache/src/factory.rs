//! The informers of the process: one reflector for each kind and scope, shared by all who watch it, started by the first
//! and stopped with the last.

use std::sync::Arc;

use flyball_types::Mask;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::core::Core;
use crate::informer::Handle;
use crate::link::Link;
use crate::reflector::Reflector;
use crate::{Informer, InformerStatus, Interest, Source};

/// Makes informers and owns their reflectors' tasks.
pub struct InformerFactory {
    shared: Arc<Shared>,
}

struct Shared {
    source: Arc<dyn Source>,
    link: Arc<Link>,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    entries: Vec<Entry>,
    /// Tasks that were told to stop.
    ending: Vec<JoinHandle<()>>,
    stopped: bool,
}

/// An informer and, once it is started, its reflector's task.
struct Entry {
    core: Arc<Core>,
    task: Option<(watch::Sender<bool>, JoinHandle<()>)>,
}

/// A handle's part in an informer. The last one that is dropped stops the reflector.
pub(crate) struct Registration {
    shared: Arc<Shared>,
    core: Arc<Core>,
    number: u64,
}

impl InformerFactory {
    /// Informers that list and watch through this source.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self {
            shared: Arc::new(Shared {
                source,
                link: Arc::default(),
                registry: Mutex::default(),
            }),
        }
    }

    /// A handle of the informer of this interest. Nothing is asked of the server before [`InformerFactory::start`], so that
    /// the fields that all handles want can be united before the first list. On a reflector that runs already and whose
    /// mask does not cover the interest, the wider mask is taken on soon (see [`Informer::synced`]).
    ///
    /// Where metadata alone will do, the informer of whole objects serves if there is one.
    pub fn informer(&self, interest: Interest) -> Informer {
        let paths = interest
            .indexes
            .iter()
            .chain(&interest.selectors)
            .chain(interest.scope.paths());
        let mask = Arc::new(interest.mask.union(&paths.collect::<Mask>()));
        let mut registry = self.shared.registry.lock();
        let fits = |entry: &&Entry| {
            entry.core.resource.kind == interest.resource.kind
                && entry.core.scope == interest.scope
                && (entry.core.is_metadata_only() == interest.metadata_only
                    || interest.metadata_only
                    || entry.task.is_none())
        };
        // Of two that fit, the one that holds whole objects.
        let core = match registry
            .entries
            .iter()
            .filter(fits)
            .min_by_key(|entry| entry.core.is_metadata_only())
        {
            Some(entry) => Arc::clone(&entry.core),
            None => {
                let core = Core::new(interest.resource, interest.scope, interest.metadata_only);
                registry.entries.push(Entry {
                    core: Arc::new(core),
                    task: None,
                });
                Arc::clone(&registry.entries[registry.entries.len() - 1].core)
            }
        };
        if core.is_metadata_only() && !interest.metadata_only {
            core.hold_all();
        }
        let number = core.register(&mask, &interest.indexes, &interest.selectors);
        drop(registry);
        let registration = Registration {
            shared: Arc::clone(&self.shared),
            core: Arc::clone(&core),
            number,
        };
        let source = Arc::clone(&self.shared.source);
        Informer {
            handle: Arc::new(Handle {
                core,
                mask,
                source,
                _registration: registration,
            }),
        }
    }

    /// Starts the reflectors of all handles that have none yet. To be called in a tokio runtime.
    pub fn start(&self) {
        let mut registry = self.shared.registry.lock();
        registry.ending.retain(|task| !task.is_finished());
        if registry.stopped {
            return;
        }
        for entry in registry
            .entries
            .iter_mut()
            .filter(|entry| entry.task.is_none())
        {
            let (stop, stopped) = watch::channel(false);
            let Shared { source, link, .. } = &*self.shared;
            let reflector = Reflector::new(
                Arc::clone(&entry.core),
                Arc::clone(source),
                Arc::clone(link),
            );
            entry.task = Some((stop, tokio::spawn(reflector.run(stopped))));
        }
    }

    /// Stops all reflectors and waits for their tasks. Caches stay readable as they are.
    pub async fn shutdown(&self) {
        let tasks = {
            let mut registry = self.shared.registry.lock();
            registry.stopped = true;
            let mut tasks = std::mem::take(&mut registry.ending);
            for entry in &mut registry.entries {
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
                tracing::error!(%error, "a reflector failed");
            }
        }
    }

    /// How each informer is.
    pub fn status(&self) -> Vec<InformerStatus> {
        let cores: Vec<Arc<Core>> = self
            .shared
            .registry
            .lock()
            .entries
            .iter()
            .map(|entry| Arc::clone(&entry.core))
            .collect();
        cores.iter().map(|core| InformerStatus::of(core)).collect()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut registry = self.shared.registry.lock();
        if self.core.unregister(self.number) > 0 {
            return;
        }
        let Some(at) = registry
            .entries
            .iter()
            .position(|entry| Arc::ptr_eq(&entry.core, &self.core))
        else {
            return;
        };
        match registry.entries.swap_remove(at).task {
            Some((stop, task)) => {
                stop.send_replace(true);
                registry.ending.push(task);
            }
            None => self.core.close(),
        }
    }
}
