//! The kinds that the API server serves, as operators and the tools for authors ask for them.

use std::sync::Arc;
use std::time::Duration;

use flyball_cache::{ApiResource, Catalogue, Discovery};
use flyball_types::{Kind, error_chain};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::requests::RequestError;

/// The age up to which the list of kinds is reused: an operator may ask about a kind that was just created.
const MAX_AGE: Duration = Duration::from_secs(1);
/// How long the API server may take to answer an operator's question.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// A kind in one version, as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedKind {
    pub kind: Kind,
    /// The name in paths and in RBAC rules, as in `deployments`.
    pub plural: String,
    pub namespaced: bool,
}

impl From<&ApiResource> for ServedKind {
    fn from(resource: &ApiResource) -> Self {
        Self {
            kind: resource.kind.clone(),
            plural: resource.plural.clone(),
            namespaced: resource.namespaced,
        }
    }
}

/// Asks the API server for its kinds, and sends the reply. The supervisor doesn't wait for it.
pub(super) fn reply(
    discovery: Arc<Discovery>,
    reply: oneshot::Sender<Result<Arc<Catalogue>, RequestError>>,
) {
    tokio::spawn(async move {
        let asked = tokio::time::timeout(ANSWERS_WITHIN, discovery.catalogue(MAX_AGE)).await;
        let served = match asked {
            Ok(Ok(served)) => Ok(served),
            Ok(Err(error)) => Err(RequestError::Refused(error_chain(&error))),
            Err(_) => Err(RequestError::Refused(format!(
                "the API server did not list its kinds within {ANSWERS_WITHIN:?}"
            ))),
        };
        // The operator's connection may be closed.
        let _ = reply.send(served);
    });
}
