//! Writes of EndpointSlices. Slices are created before others are updated, and deleted last, so that an endpoint that
//! moves to another slice is always in one.
//!
//! Upstream: staging/src/k8s.io/endpointslice/reconciler.go: finalize.
//! Upstream: pkg/controller/endpointslicemirroring/reconciler.go: finalize.

use flyball_sdk::StringMap;
use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::prelude::*;
use serde::Serialize;

use crate::slice::{Endpoint, EndpointPort, Slice, generate_name};

/// The desired content of a slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    pub labels: StringMap,
    pub annotations: StringMap,
    /// The Service or the Endpoints.
    pub owner: OwnerReference,
    pub address_type: String,
    pub ports: Vec<EndpointPort>,
    pub endpoints: Vec<Endpoint>,
}

/// The writes for one Service or Endpoints.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    pub create: Vec<Write>,
    pub update: Vec<Write>,
    pub delete: Vec<Write>,
}

/// The number of writes that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub created: usize,
    pub updated: usize,
    pub deleted: usize,
}

/// Returns the list, or `None` if it is empty, because kube-controller-manager sends null instead of an empty list.
fn some<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// The write that creates a slice for an object with this name.
pub fn create(namespace: &str, name: &str, content: &Content) -> Write {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Object<'a> {
        metadata: Metadata<'a>,
        address_type: &'a str,
        endpoints: Option<&'a [Endpoint]>,
        ports: Option<&'a [EndpointPort]>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        generate_name: String,
        labels: &'a StringMap,
        #[serde(skip_serializing_if = "StringMap::is_empty")]
        annotations: &'a StringMap,
        owner_references: [&'a OwnerReference; 1],
    }
    let object = Object {
        metadata: Metadata {
            generate_name: generate_name(name),
            labels: &content.labels,
            annotations: &content.annotations,
            owner_references: [&content.owner],
        },
        address_type: &content.address_type,
        endpoints: some(&content.endpoints),
        ports: some(&content.ports),
    };
    Write::create(Slice::KIND, namespace, &object)
}

/// The write that makes another slice of an existing one. The slice keeps its name. `generate_name` becomes the prefix
/// of the name in its metadata; `None` removes the prefix.
pub fn replace(slice: &Slice, generate_name: Option<&str>, content: &Content) -> Write {
    #[derive(Serialize)]
    struct Change<'a> {
        metadata: Metadata<'a>,
        endpoints: Option<&'a [Endpoint]>,
        ports: Option<&'a [EndpointPort]>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        generate_name: Option<&'a str>,
        labels: Value,
        annotations: Value,
        owner_references: [&'a OwnerReference; 1],
    }
    let change = Change {
        metadata: Metadata {
            generate_name,
            labels: change_of(&slice.meta.labels, &content.labels),
            annotations: change_of(&slice.meta.annotations, &content.annotations),
            owner_references: [&content.owner],
        },
        endpoints: some(&content.endpoints),
        ports: some(&content.ports),
    };
    Write::update(Slice::KIND, &slice.meta, &change)
}

/// The write that gives an existing slice these endpoints, labels and annotations.
pub fn update(
    slice: &Slice,
    labels: &StringMap,
    annotations: &StringMap,
    endpoints: &[Endpoint],
) -> Write {
    #[derive(Serialize)]
    struct Change<'a> {
        metadata: Metadata,
        endpoints: Option<&'a [Endpoint]>,
    }
    #[derive(Serialize)]
    struct Metadata {
        labels: Value,
        annotations: Value,
    }
    let change = Change {
        metadata: Metadata {
            labels: change_of(&slice.meta.labels, labels),
            annotations: change_of(&slice.meta.annotations, annotations),
        },
        endpoints: some(endpoints),
    };
    Write::update(Slice::KIND, &slice.meta, &change)
}

/// The merge patch from one map to another.
pub fn change_of(from: &StringMap, to: &StringMap) -> Value {
    let removed = (from.keys())
        .filter(|key| !to.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let set = (to.iter())
        .filter(|(key, value)| from.get(*key) != Some(value))
        .map(|(key, value)| (key.clone(), value.as_str().into()));
    removed.chain(set).collect()
}

/// Runs the writes, and stops at the first error. If the namespace is being deleted, it accepts no slices, and the
/// remaining writes are skipped.
///
/// # Errors
/// A write failed. The error names the attempted step for `owner`, such as `Service a/web`.
pub fn run(host: &Host, owner: &str, writes: Writes) -> Result<Written, Error> {
    let mut written = Written::default();
    let Writes {
        create,
        update,
        delete,
    } = writes;
    let results = host.batch().extend(create).stop_on_error().run();
    for result in results {
        match result {
            Ok(_) => written.created += 1,
            Err(error) if is_namespace_terminating(&error) => return Ok(written),
            Err(error) => return Err(failed("create", owner, error)),
        }
    }
    let batch = host.tagged_batch().extend(update.into_iter().map(named));
    for (name, result) in batch.stop_on_error().run() {
        result.map_err(|error| failed(&format!("update {name}"), owner, error))?;
        written.updated += 1;
    }
    let batch = host.tagged_batch().extend(delete.into_iter().map(named));
    for (name, result) in batch.stop_on_error().run() {
        result
            .found()
            .map_err(|error| failed(&format!("delete {name}"), owner, error))?;
        written.deleted += 1;
    }
    Ok(written)
}

/// A write with the name of its slice.
fn named(write: Write) -> (String, Write) {
    (write.target.name.clone(), write)
}

fn failed(what: &str, owner: &str, error: ApiError) -> Error {
    Error::Doing(
        format!("failed to {what} EndpointSlice for {owner}"),
        Box::new(error.into()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_map_sets_what_differs_and_removes_what_is_gone() {
        let map = |pairs: &[(&str, &str)]| {
            let own = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
            pairs.iter().map(own).collect::<StringMap>()
        };
        let from = map(&[("kept", "1"), ("changed", "1"), ("gone", "1")]);
        let to = map(&[("kept", "1"), ("changed", "2"), ("new", "1")]);
        assert_eq!(
            change_of(&from, &to),
            json!({"changed": "2", "gone": null, "new": "1"})
        );
        assert_eq!(change_of(&to, &to), json!({}));
    }
}
