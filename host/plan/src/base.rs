//! What lies below a plan: a cluster that is only read, or objects of files.

mod cluster;
mod files;

use flyball_cache::ApiResource;
use flyball_testserver::api::discovery::Served;
use flyball_testserver::api::request::Selection;
use flyball_types::ApiError;
use serde_json::Value;
use serde_json::value::RawValue;

pub use cluster::ClusterBase;
pub use files::{FileBase, FileError};

use crate::kinds::Kinds;

/// The objects that a plan begins with.
pub enum Base {
    /// A cluster.
    Cluster(ClusterBase),
    /// Objects of files.
    Files(FileBase),
}

/// A list that is asked for.
pub(crate) struct Listing<'a> {
    pub(crate) resource: &'a Served,
    /// Empty for all namespaces, and for cluster-scoped kinds.
    pub(crate) namespace: &'a str,
    pub(crate) labels: &'a str,
    pub(crate) fields: &'a str,
    /// The labels and the fields, parsed.
    pub(crate) selection: &'a Selection,
    /// The most objects of a page; empty for no limit.
    pub(crate) limit: &'a str,
    /// The token of the next page; empty for the first one.
    pub(crate) token: &'a str,
    pub(crate) only_metadata: bool,
}

/// A page of a list.
pub(crate) struct Page {
    pub(crate) items: Vec<Box<RawValue>>,
    /// The token of the next page; empty after the last one.
    pub(crate) next: String,
    /// The resource version of the list.
    pub(crate) version: u64,
}

impl Base {
    pub(crate) async fn kinds(&self) -> Result<Kinds, ApiError> {
        match self {
            Self::Cluster(cluster) => cluster.kinds().await,
            Self::Files(files) => Ok(Kinds::of_served(files.kinds().to_vec())),
        }
    }

    /// Returns an object as JSON; `None` if it does not exist.
    pub(crate) async fn get(
        &self,
        resource: &Served,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ApiError> {
        match self {
            Self::Cluster(cluster) => cluster.object(&path(resource, namespace, name)?).await,
            Self::Files(files) => Ok(files.get(&resource.kind.to_string(), namespace, name)),
        }
    }

    pub(crate) async fn list(&self, listing: &Listing<'_>) -> Result<Page, ApiError> {
        match self {
            Self::Cluster(cluster) => cluster.list(listing).await,
            Self::Files(files) => Ok(files.list(listing)),
        }
    }

    /// The cluster, if it is one.
    pub(crate) fn cluster(&self) -> Option<&ClusterBase> {
        match self {
            Self::Cluster(cluster) => Some(cluster),
            Self::Files(_) => None,
        }
    }
}

/// The path of an object.
///
/// # Errors
/// The namespace or the name can't stand in a path.
pub(crate) fn path(resource: &Served, namespace: &str, name: &str) -> Result<String, ApiError> {
    let found = api_resource(resource).object(namespace, name, "");
    found.map_err(|error| ApiError::of_server(400, "BadRequest", error.to_string()))
}

/// The path of the objects of a kind.
///
/// # Errors
/// The namespace can't stand in a path.
pub(crate) fn collection(resource: &Served, namespace: &str) -> Result<String, ApiError> {
    let found = api_resource(resource).collection(namespace);
    found.map_err(|error| ApiError::of_server(400, "BadRequest", error.to_string()))
}

fn api_resource(served: &Served) -> ApiResource {
    ApiResource::new(served.kind.clone(), &served.plural, served.namespaced)
}
