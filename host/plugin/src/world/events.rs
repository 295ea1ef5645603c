//! `events`: Events about objects. Emitting never waits.

use super::State;
use crate::bindings::flyball::controller::events::{self, Host};
use crate::imports::ObjectReference;

impl Host for State {
    fn emit(
        &mut self,
        about: events::ObjectReference,
        event_type: String,
        reason: String,
        message: String,
    ) -> wasmtime::Result<()> {
        let events::ObjectReference { kind, namespace, name, uid } = about;
        let about = ObjectReference { kind, namespace, name, uid };
        self.imports()?.emit_event(about, &event_type, &reason, &message);
        Ok(())
    }
}
