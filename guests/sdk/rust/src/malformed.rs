//! Objects that do not fit a view: which one of a list it is, and the event that says so.

use flyball_types::{EventOptions, read};
use serde::de::DeserializeOwned;

use crate::controller::{Controller, Key};
use crate::describe::Description;
use crate::error::{Error, Malformed};
use crate::host::Host;
use crate::imports::ObjectReference;

mod scan;

/// The reason of the events.
const REASON: &str = "MalformedObject";

/// Returns the error of an object that does not fit. `key` is the object's, if it is known.
#[cold]
pub(crate) fn object(kind: &str, key: Option<Key>, json: &[u8], error: serde_json::Error) -> Error {
    let text = std::str::from_utf8(json).unwrap_or_default();
    let metadata = scan::field(text, "metadata").unwrap_or_default();
    let of = |field: &str| {
        let text = scan::field(metadata, field).and_then(scan::string);
        text.unwrap_or_default().to_owned()
    };
    let key = key.unwrap_or_else(|| Key {
        namespace: of("namespace"),
        name: of("name"),
    });
    if key.name.is_empty() {
        return Error::malformed(format!("a {kind}"), error);
    }
    Error::Malformed(Box::new(Malformed {
        what: format!("{kind} {key}"),
        object: Some(ObjectReference {
            kind: kind.to_owned(),
            namespace: key.namespace,
            name: key.name,
            uid: of("uid"),
            resource_version: of("resourceVersion"),
        }),
        error,
    }))
}

/// Returns why JSON is not a `T`; none if it is one. The functions below take this one as a pointer, so that they are in a guest
/// once, and not for each view.
#[inline(never)]
pub(crate) fn misfit<T: DeserializeOwned>(json: &[u8]) -> Option<serde_json::Error> {
    read::<T>(json).err()
}

pub(crate) type Misfit = fn(&[u8]) -> Option<serde_json::Error>;

/// Returns the error of the first object of a list that does not fit.
#[cold]
pub(crate) fn list(kind: &str, items: &[u8], misfit: Misfit, error: serde_json::Error) -> Error {
    first_of(kind, items, misfit).unwrap_or_else(|| of_list(kind, error))
}

/// Returns the error of a list in which no object is known that does not fit.
#[cold]
pub(crate) fn of_list(kind: &str, error: serde_json::Error) -> Error {
    Error::malformed(format!("a list of {kind}"), error)
}

/// Returns the error of the first object of a list that does not fit; none if all do. The list is an array, or the API's object.
#[cold]
pub(crate) fn first_of(kind: &str, json: &[u8], misfit: Misfit) -> Option<Error> {
    let text = std::str::from_utf8(json).ok()?;
    let items = scan::field(text, "items").unwrap_or(text);
    scan::items(items).find_map(|item| {
        let item = item.as_bytes();
        misfit(item).map(|error| object(kind, None, item, error))
    })
}

/// Emits an event about each object that did not fit, if the plugin asks for it.
#[cold]
pub(crate) fn report<C: Controller>(host: &Host<'_>, error: &Error) {
    report_for(host, error, C::describe);
}

#[cold]
#[inline(never)]
fn report_for(host: &Host<'_>, error: &Error, describe: fn() -> Description) {
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

#[cfg(test)]
mod tests;
