//! The Endpoints that a Service should have, and the write that creates or updates them.
//!
//! Upstream: pkg/controller/endpoint/endpoints_controller.go: syncService, endpointSubsetsEqualIgnoreResourceVersion,
//! labelsCorrectForEndpoints, capacityAnnotationSetCorrectly.

use std::borrow::Cow;

use flyball_sdk::StringMap;
use flyball_sdk::prelude::*;
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::slice::HEADLESS;
use flyball_service_endpoints::subsets::{Endpoints, Subset, repack, same};
use flyball_service_endpoints::trigger;
use flyball_service_endpoints::write::change_of;
use serde::Serialize;

/// The label of Endpoints that this controller maintains, and its value.
pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub const MANAGER: &str = "endpoint-controller";
/// The annotation of Endpoints that lack addresses, and its value.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
pub const TRUNCATED: &str = "truncated";

/// The Endpoints that a Service should have.
#[derive(Clone, Debug)]
pub struct Desired<'a> {
    pub service: &'a Service,
    pub subsets: Vec<Subset>,
    /// Whether addresses were left out.
    pub is_truncated: bool,
    /// The time of the change that a write publishes.
    pub changed_at: Option<Time>,
}

impl Desired<'_> {
    /// The write that creates or updates the Endpoints; `None` if they are up to date.
    pub fn write(&self, current: Option<&Endpoints>) -> Option<Write> {
        let Meta {
            name, namespace, ..
        } = &self.service.meta;
        let Some(current) = current else {
            let annotations = self.annotations(&StringMap::new());
            let metadata =
                json!({"name": name, "labels": self.labels(), "annotations": annotations});
            return Some(Write::create(
                Endpoints::KIND,
                namespace,
                &self.with(metadata),
            ));
        };
        if self.matches(current) {
            return None;
        }
        let annotations = self.annotations(&current.meta.annotations);
        let metadata = json!({
            "labels": change_of(&current.meta.labels, &self.labels()),
            "annotations": change_of(&current.meta.annotations, &annotations),
        });
        Some(Write::update(
            Endpoints::KIND,
            &current.meta,
            &self.with(metadata),
        ))
    }

    /// The body of a write.
    fn with(&self, metadata: Value) -> impl Serialize {
        #[derive(Serialize)]
        struct Body<'a> {
            metadata: Value,
            subsets: &'a [Subset],
        }
        Body {
            metadata,
            subsets: &self.subsets,
        }
    }

    /// Whether Endpoints are up to date. The time of the last change does not count. Neither does the label of headless
    /// Services, which is written with the next change, nor the order, which versions of Kubernetes hash differently
    /// (kubernetes/kubernetes#129652).
    fn matches(&self, current: &Endpoints) -> bool {
        let truncated = current.meta.annotation(OVER_CAPACITY);
        let has_right_annotation = match self.is_truncated {
            true => truncated == Some(TRUNCATED),
            false => truncated.is_none(),
        };
        let without_headless = |labels: &StringMap| {
            let mut labels = labels.clone();
            labels.remove(HEADLESS);
            labels
        };
        has_right_annotation
            && without_headless(&current.meta.labels) == without_headless(&self.labels())
            && same(&repack(current.subsets.clone()), &self.canonical())
    }

    /// Returns the subsets in canonical form. They are computed in it. They are repacked only if addresses were left
    /// out, because two subsets may then have the same addresses.
    fn canonical(&self) -> Cow<'_, [Subset]> {
        match self.is_truncated && self.subsets.len() > 1 {
            true => repack(self.subsets.clone()).into(),
            false => (&*self.subsets).into(),
        }
    }

    /// The labels of the Service and the labels that the controller sets.
    fn labels(&self) -> StringMap {
        let mut labels = self.service.meta.labels.clone();
        match self.service.has_address() {
            true => labels.remove(HEADLESS),
            false => labels.insert(HEADLESS.into(), String::new()),
        };
        labels.insert(MANAGED_BY.into(), MANAGER.into());
        labels
    }

    /// The annotations: other ones stay.
    fn annotations(&self, current: &StringMap) -> StringMap {
        let mut annotations = current.clone();
        match self.changed_at {
            Some(time) => annotations.insert(trigger::ANNOTATION.into(), time.to_string()),
            None => annotations.remove(trigger::ANNOTATION),
        };
        match self.is_truncated {
            true => annotations.insert(OVER_CAPACITY.into(), TRUNCATED.into()),
            false => annotations.remove(OVER_CAPACITY),
        };
        annotations
    }
}
