//! The informers of the process: one reflector for each kind and scope, shared by all who watch it, started by the first
//! and stopped with the last.

use std::sync::Arc;

use crate::{Informer, Interest, Source};

/// Makes informers and owns their reflectors' tasks.
pub struct InformerFactory {}

impl InformerFactory {
    /// Informers that list and watch through this source.
    pub fn new(source: Arc<dyn Source>) -> Self {
        todo!()
    }

    /// A handle of the informer of this interest. Nothing is asked of the server before [`InformerFactory::start`], so that
    /// the fields that all handles want can be united before the first list. On a reflector that runs already and whose
    /// mask does not cover the interest, the wider mask is taken on soon (see [`Informer::synced`]).
    pub fn informer(&self, interest: Interest) -> Informer {
        todo!()
    }

    /// Starts the reflectors of all handles that have none yet. To be called in a tokio runtime.
    pub fn start(&self) {
        todo!()
    }

    /// Stops all reflectors and waits for their tasks. Caches stay readable as they are.
    pub async fn shutdown(&self) {
        todo!()
    }

    /// Every informer that has a handle.
    pub fn status(&self) -> Vec<crate::InformerStatus> {
        todo!()
    }
}
