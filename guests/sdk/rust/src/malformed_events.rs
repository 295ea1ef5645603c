//! Events about objects that do not fit a view, for plugins that declare
//! [`malformed_events`](crate::describe::Description::malformed_events).

use flyball_types::EventOptions;

use crate::describe::Description;
use crate::error::Error;
use crate::host::Host;

/// The reason of the events.
const REASON: &str = "MalformedObject";

/// Emits an event about each object that did not fit, if the plugin asks for it.
#[cold]
#[inline(never)]
pub(crate) fn emit(host: &Host<'_>, error: &Error, describe: fn() -> Description) {
    error.each_malformed(&mut |about, malformed| {
        let description = describe();
        if !description.malformed_events {
            return;
        }
        let message = format!(
            "{} can't read this object: {}",
            description.name,
            malformed.problem()
        );
        let options = EventOptions {
            resource_version: about.resource_version.clone(),
            once: true,
            ..EventOptions::default()
        };
        let imports = host.imports();
        imports.events_emit(about, "Warning", REASON, &message, &options);
    });
}
