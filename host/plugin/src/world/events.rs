//! `events`: Events about objects. Emitting never waits.

use super::State;
use crate::bindings::flyball::controller::events::{self, Host};

impl Host for State {
    fn emit(
        &mut self,
        about: events::ObjectReference,
        event_type: String,
        reason: String,
        message: String,
    ) -> wasmtime::Result<()> {
        self.imports()?
            .emit_event(about.into(), &event_type, &reason, &message);
        Ok(())
    }
}
