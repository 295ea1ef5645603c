//! The informers that exist, and the handles that keep them running. Dropping the last handle of an informer removes it
//! here and stops its reflector.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::core::{Core, Indexes};
use crate::reachability::Reachability;
use crate::{ListMode, Observe, Source};

/// The state that a factory shares with the handles of its informers.
pub(crate) struct Shared {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) reachability: Arc<Reachability>,
    pub(crate) list_mode: ListMode,
    pub(crate) observe: Arc<Observe>,
    pub(crate) registrations: Mutex<Registrations>,
}

/// All informers of a factory.
#[derive(Default)]
pub(crate) struct Registrations {
    pub(crate) entries: Vec<RegisteredInformer>,
    /// Tasks that are stopping.
    pub(crate) ending: Vec<JoinHandle<()>>,
    pub(crate) stopped: bool,
}

/// An informer and, once it is started, its reflector's task.
pub(crate) struct RegisteredInformer {
    pub(crate) core: Arc<Core>,
    pub(crate) task: Option<(watch::Sender<bool>, JoinHandle<()>)>,
}

/// The registration of a handle with its informer. Dropping the last one stops the reflector.
pub(crate) struct Registration {
    pub(crate) shared: Arc<Shared>,
    pub(crate) core: Arc<Core>,
    pub(crate) number: u64,
    pub(crate) indexes: Arc<Indexes>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut registrations = self.shared.registrations.lock();
        if self.core.unregister(self.number, &self.indexes) > 0 {
            return;
        }
        let Some(at) = registrations
            .entries
            .iter()
            .position(|entry| Arc::ptr_eq(&entry.core, &self.core))
        else {
            return;
        };
        match registrations.entries.swap_remove(at).task {
            Some((stop, task)) => {
                stop.send_replace(true);
                registrations.ending.push(task);
            }
            None => self.core.close(),
        }
    }
}
