//! Carries out a plan.
//!
//! Upstream: staging/src/k8s.io/endpointslice/reconciler.go: Reconcile, finalize.
//! Upstream: staging/src/k8s.io/endpointslice/utils.go: newEndpointSlice, addTriggerTimeAnnotation.

use flyball_sdk::StringMap;
use flyball_sdk::prelude::*;
use flyball_service_endpoints::ip::Family;
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::slice::{Slice, generate_name};
use flyball_service_endpoints::trigger;
use flyball_service_endpoints::write::{self, Content, Writes};

use crate::changes::{ChangedSlice, NewSlice, Plan};
use crate::describe::{ADDED, CHANGED, CHANGES, REMOVED};
use crate::labels;
use crate::plan::is_owned;

/// Writes the slices of one address type. `changed_at` is the time of the change that they publish.
///
/// # Errors
/// A write failed. Further ones were not started.
pub fn write(
    host: &Host,
    service: &Service,
    plan: Plan,
    family: Family,
    changed_at: Option<Time>,
    metric_labels: [&str; 2],
) -> Result<(), Error> {
    host.metrics().observe(ADDED, &[], plan.added as f64);
    host.metrics().observe(REMOVED, &[], plan.removed as f64);
    let writes = writes(service, plan, family, changed_at);
    let changed = writes.create.len() + writes.update.len() + writes.delete.len();
    let written = write::run(host, &owner(service), writes)?;
    for (operation, count) in [
        ("create", written.created),
        ("update", written.updated),
        ("delete", written.deleted),
    ] {
        if count > 0 {
            host.metrics().add(CHANGES, &[operation], count as f64);
        }
    }
    host.metrics()
        .observe(CHANGED, &metric_labels, changed as f64);
    Ok(())
}

/// Deletes slices of address types that the Service no longer has.
///
/// # Errors
/// A write failed. All others were made.
pub fn delete(host: &Host, service: &Service, slices: &[Slice]) -> Result<(), Error> {
    let deletions = slices.iter().map(|slice| (slice, deletion(slice)));
    let mut failures = Vec::new();
    for (slice, result) in host.tagged_batch().extend(deletions).run() {
        match result.found() {
            Ok(_) => host.metrics().add(CHANGES, &["delete"], 1.0),
            Err(error) => failures.push(Error::Doing(
                format!(
                    "error deleting {} EndpointSlice for {}",
                    slice.meta.name,
                    owner(service)
                ),
                Box::new(error.into()),
            )),
        }
    }
    Error::join(failures).map_or(Ok(()), Err)
}

/// The writes of a plan. A slice that would be deleted becomes one that would be created, if there is one. A Service
/// that is being deleted gets no new slice.
pub fn writes(service: &Service, plan: Plan, family: Family, changed_at: Option<Time>) -> Writes {
    let Plan {
        mut create,
        update,
        delete,
        ..
    } = plan;
    let labels = labels::of(service);
    let prefix = generate_name(&service.meta.name);
    let content = |new: NewSlice| Content {
        labels: labels.clone(),
        annotations: annotated(&StringMap::new(), changed_at),
        owner: service.meta.controller_reference(Service::KIND),
        address_type: family.as_str().into(),
        ports: new.ports,
        endpoints: new.endpoints,
    };
    let mut writes = Writes {
        // Each slice is dropped once its write exists.
        update: (update.into_iter())
            .map(|changed| change(&changed, &labels, changed_at))
            .collect(),
        ..Writes::default()
    };
    for slice in delete {
        let new = match is_owned(&slice, service) {
            true => create.pop(),
            false => None,
        };
        match new {
            Some(new) => writes
                .update
                .push(write::replace(&slice, Some(&prefix), &content(new))),
            None => writes.delete.push(deletion(&slice)),
        }
    }
    if !service.meta.is_deleting() {
        let Meta {
            name, namespace, ..
        } = &service.meta;
        let create = create.into_iter();
        writes.create = create
            .map(|new| write::create(namespace, name, &content(new)))
            .collect();
    }
    writes
}

fn change(changed: &ChangedSlice, labels: &StringMap, changed_at: Option<Time>) -> Write {
    let meta = &changed.slice.meta;
    let labels = if changed.relabel {
        labels
    } else {
        &meta.labels
    };
    let annotations = annotated(&meta.annotations, changed_at);
    write::update(
        &changed.slice,
        labels,
        &annotations,
        &changed.slice.endpoints,
    )
}

fn deletion(slice: &Slice) -> Write {
    Write::delete_exactly(Slice::KIND, &slice.meta)
}

/// Annotations with the time of the change, or without one.
fn annotated(annotations: &StringMap, changed_at: Option<Time>) -> StringMap {
    let mut annotations = annotations.clone();
    match changed_at {
        Some(time) => annotations.insert(trigger::ANNOTATION.into(), time.to_string()),
        None => annotations.remove(trigger::ANNOTATION),
    };
    annotations
}

fn owner(service: &Service) -> String {
    format!("Service {}", service.meta.key())
}
