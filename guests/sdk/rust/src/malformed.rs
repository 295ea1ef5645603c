//! Parses objects. If an object does not fit its view, the error names the object, also if it is part of a list.

use flyball_types::read;
use serde::de::DeserializeOwned;

use crate::error::{Error, Malformed};
use crate::key::Key;
use crate::reference::ObjectReference;

mod scan;

/// Parses the object with this name.
pub(crate) fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<T, Error> {
    read(bytes).map_err(|error| {
        let key = Key::new(namespace, name);
        object(kind, Some(key), bytes, error)
    })
}

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

/// Returns why JSON is not a `T`; none if it is one. The functions below take this one as a pointer, so that a guest
/// contains them once, and not for each view.
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

/// Returns the error of a list whose malformed object is not known.
#[cold]
pub(crate) fn of_list(kind: &str, error: serde_json::Error) -> Error {
    Error::malformed(format!("a list of {kind}"), error)
}

/// Returns the error of the first object of a list that does not fit; none if all do. The list is an array, or the
/// API's object.
#[cold]
pub(crate) fn first_of(kind: &str, json: &[u8], misfit: Misfit) -> Option<Error> {
    let text = std::str::from_utf8(json).ok()?;
    let items = scan::field(text, "items").unwrap_or(text);
    scan::items(items).find_map(|item| {
        let item = item.as_bytes();
        misfit(item).map(|error| object(kind, None, item, error))
    })
}

#[cfg(test)]
mod tests;
