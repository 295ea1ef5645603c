//! `events`: Kubernetes events about objects. Emitting never waits.

use super::State;
use crate::bindings::flyball::controller::events::{self, Host};

impl Host for State {
    fn emit(
        &mut self,
        about: events::ObjectReference,
        event_type: String,
        reason: String,
        message: String,
        options: Vec<u8>,
    ) -> wasmtime::Result<()> {
        self.imports()?
            .events_emit(about.into(), &event_type, &reason, &message, &options);
        Ok(())
    }
}
