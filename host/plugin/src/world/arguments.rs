//! The limits of the arguments that a guest passes to an import. They are checked at the one place where imports
//! receive arguments.
//!
//! The engine limits the arguments of a call to [`Limits::staged_bytes`](crate::Limits::staged_bytes) together, which
//! bodies of writes need. A text that the host splits, escapes or renders takes many times its length, so each text has
//! a limit of its own. [`InstanceState::imports`](super::InstanceState::imports) is the only way to the host's
//! functions, and takes the call's arguments to check them. `tests/arguments.rs` generates a call for each text in
//! `wit/`, so that no import can forget one.

use flyball_types::ApiError;

use super::InstanceState;
use crate::hits::Limit;
use crate::imports::{Operation, Read, Target, Write};

/// The longest name, namespace, kind, key or other identifier in bytes. The API's own are at most 253 bytes long.
const MAX_NAME: usize = 1024;
/// The longest text that becomes a part of a request's URI in bytes: paths, and the parameters of one list together.
/// Servers and proxies accept little more.
const MAX_URI: usize = 8 * 1024;
/// The longest conditions of a query to the cache together, in bytes: as long as one label selector may be. It may come
/// from an object, and is compared in memory.
const MAX_CONDITIONS: usize = 256 * 1024;
/// The most paths of fields of one request, and their bytes together.
const MAX_PATHS: usize = 512;
const MAX_PATHS_BYTES: usize = 64 * 1024;
/// The maximum number of label values of a metric. A description may declare 16.
const MAX_LABELS: usize = 16;
/// The longest token in bytes.
const MAX_TOKEN: usize = 64 * 1024;
/// The longest message of a log line or an event in bytes. The rest is cut off.
const MAX_MESSAGE: usize = 64 * 1024;
/// The most fields of a log line. The rest is left out.
const MAX_LOG_FIELDS: usize = 64;
/// The longest value of a log line's field in bytes. The rest is cut off.
const MAX_LOG_VALUE: usize = 8 * 1024;

/// An argument of an import that is too long, or none.
pub(super) type Checked = Result<(), TooLong>;

/// An argument is longer than its limit.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{what}: {found} {unit}, and the limit is {limit}")]
pub(super) struct TooLong {
    /// The argument, such as `the namespace`.
    what: &'static str,
    found: usize,
    limit: usize,
    /// `bytes`, or what is counted.
    unit: &'static str,
}

impl From<TooLong> for ApiError {
    fn from(error: TooLong) -> Self {
        Self::full(error.to_string())
    }
}

/// Checks an identifier.
pub(super) fn name(what: &'static str, text: &str) -> Checked {
    at_most(what, text.len(), MAX_NAME, "bytes")
}

/// Checks identifiers. Each may have the length of a name.
pub(super) fn names(what: &'static str, texts: &[String]) -> Checked {
    texts.iter().try_for_each(|text| name(what, text))
}

/// Checks a text that becomes a part of a URI.
pub(super) fn uri(what: &'static str, text: &str) -> Checked {
    at_most(what, text.len(), MAX_URI, "bytes")
}

/// Checks a token.
pub(super) fn token(text: &str) -> Checked {
    at_most("the token", text.len(), MAX_TOKEN, "bytes")
}

/// Checks paths of fields.
pub(super) fn paths(paths: &[String]) -> Checked {
    at_most("the paths of fields", paths.len(), MAX_PATHS, "paths")?;
    let bytes = paths.iter().map(String::len).sum();
    at_most("the paths of fields", bytes, MAX_PATHS_BYTES, "bytes")
}

/// Checks the values of a metric's labels.
pub(super) fn labels(values: &[String]) -> Checked {
    at_most("the labels of a metric", values.len(), MAX_LABELS, "values")?;
    names("a label of a metric", values)
}

/// Checks the conditions of a query, given the lengths of their names and values.
pub(super) fn conditions(lengths: impl Iterator<Item = usize>) -> Checked {
    at_most(
        "the conditions of a query",
        lengths.sum(),
        MAX_CONDITIONS,
        "bytes",
    )
}

/// Checks a reference to an object: its kind, namespace, name and UID.
pub(super) fn reference(kind: &str, namespace: &str, object: &str, uid: &str) -> Checked {
    name("the kind", kind)?;
    name("the namespace", namespace)?;
    name("the name", object)?;
    name("the UID", uid)
}

/// Checks the texts of a live read.
///
/// # Errors
/// `NotFound` if the namespace or the name is too long: references in objects may hold names of any length, but no
/// object has such a name.
pub(super) fn read(read: &Read) -> Result<(), ApiError> {
    match read {
        Read::Get {
            kind,
            namespace,
            name: object,
            fields,
        } => {
            name("the kind", kind).and(paths(fields))?;
            reference("", namespace, object, "")
                .map_err(|error| ApiError::not_found(error.to_string()))
        }
        Read::List {
            kind,
            namespace,
            parameters,
            fields,
        } => {
            reference(kind, namespace, "", "")?;
            let lengths = parameters
                .iter()
                .map(|(name, value)| name.len() + value.len());
            at_most("the parameters of a list", lengths.sum(), MAX_URI, "bytes")?;
            Ok(paths(fields)?)
        }
        Read::Raw { path } => Ok(uri("the path", path)?),
    }
}

/// Checks the texts of a write. The API server limits the documents, as the writer does.
pub(super) fn write(write: &Write) -> Checked {
    let Write {
        target,
        operation,
        options: _,
        returns,
    } = write;
    let Target {
        kind,
        namespace,
        name: object,
        subresource,
    } = target;
    reference(kind, namespace, object, "")?;
    name("the subresource", subresource)?;
    match operation {
        Operation::Create { object: _ } | Operation::Delete => {}
        Operation::Update {
            resource_version,
            change: _,
        }
        | Operation::UpdateStatus {
            resource_version,
            status: _,
            metadata: _,
        } => name("the resource version", resource_version)?,
        Operation::Patch {
            patch_type,
            patch: _,
        } => name("the type of a patch", patch_type)?,
        Operation::DeleteCollection {
            label_selector,
            field_selector,
        } => at_most(
            "the selectors",
            label_selector.len() + field_selector.len(),
            MAX_URI,
            "bytes",
        )?,
    }
    paths(returns)
}

/// Truncates a message to its limit.
pub(super) fn clip_message(message: &mut String) {
    clip(message, MAX_MESSAGE);
}

/// Truncates the fields of a log line to their limits.
pub(super) fn clip_fields(fields: &mut Vec<(String, String)>) {
    fields.truncate(MAX_LOG_FIELDS);
    for (name, value) in fields {
        clip(name, MAX_NAME);
        clip(value, MAX_LOG_VALUE);
    }
}

/// Truncates a text, and frees the memory of the rest.
fn clip(text: &mut String, limit: usize) {
    if text.len() > limit {
        *text = text[..text.floor_char_boundary(limit)].to_owned();
    }
}

fn at_most(what: &'static str, found: usize, limit: usize, unit: &'static str) -> Checked {
    if found <= limit {
        return Ok(());
    }
    Err(TooLong {
        what,
        found,
        limit,
        unit,
    })
}

impl InstanceState {
    /// Counts an argument that is too long.
    pub(super) fn checked(
        &self,
        arguments: Result<(), impl Into<ApiError>>,
    ) -> Result<(), ApiError> {
        arguments.map_err(|error| {
            self.hit(Limit::Argument);
            error.into()
        })
    }
}
