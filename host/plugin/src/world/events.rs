//! `events`: Kubernetes events about objects. Emitting never waits. An event with a name that is too long is dropped.

use super::{InstanceState, arguments};
use crate::bindings::flyball::controller::events::{self, Host};

impl Host for InstanceState {
    fn emit(
        &mut self,
        about: events::ObjectReference,
        event_type: String,
        reason: String,
        mut message: String,
        options: Vec<u8>,
    ) -> wasmtime::Result<()> {
        arguments::clip_message(&mut message);
        let checked = arguments::reference(&about.kind, &about.namespace, &about.name, &about.uid)
            .and_then(|()| arguments::name("the type of an event", &event_type))
            .and_then(|()| arguments::name("the reason of an event", &reason));
        if let Ok(imports) = self.imports(checked)? {
            imports.events_emit(about.into(), &event_type, &reason, &message, &options);
        }
        Ok(())
    }
}
