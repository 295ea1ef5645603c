//! Reads the server's answer to a write, for the overlay and for the fields that the plugin asks for. A plugin with a
//! CPU quota is charged for it, since each answer may be as large as an object. The answer is read at once, so that the
//! next reconcile sees the write. The plugin's next request waits until the quota is no longer overdrawn.

use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::{ApiResponse, Object};
use flyball_reads::cached::CachedReads;
use flyball_types::{ApiError, Effect, Kind, Mask};

use crate::Writer;
use crate::body::METERED_MERGE;

/// A write that the server acknowledged.
pub(super) struct Acknowledged {
    pub(super) cached: Arc<CachedReads>,
    pub(super) kind: Kind,
    /// The namespace and the name of the deleted object, if it was a delete.
    pub(super) deleted: Option<(String, String)>,
    /// The object as the plugin saw it before it was deleted.
    pub(super) before: Option<Arc<Object>>,
    pub(super) answer: ApiResponse,
    pub(super) is_dry_run: bool,
    /// The part of the answer that the plugin asks for; nothing if none.
    pub(super) returns: Option<Arc<Mask>>,
}

/// The name that the server assigned, if any, and the fields that the plugin asked for.
type Answered = (Option<String>, Bytes);

impl Writer {
    /// Reads an answer of this size.
    pub(super) async fn read(
        &self,
        acknowledged: Acknowledged,
        size: usize,
    ) -> Result<Answered, ApiError> {
        let Some(quota) = self.quota.clone() else {
            return acknowledged.read().await;
        };
        if size < METERED_MERGE {
            return quota.charge(acknowledged.read()).await;
        }
        let threads = quota.threads().clone();
        let read = threads.spawn(async move { quota.charge(acknowledged.read()).await });
        let read = read.await;
        read.unwrap_or_else(|error| {
            let message =
                format!("the host failed to read the server's answer to a write: {error}");
            Err(ApiError::internal(Effect::Unknown, message))
        })
    }
}

impl Acknowledged {
    async fn read(self) -> Result<Answered, ApiError> {
        let visible = if self.is_dry_run {
            None
        } else {
            self.add_to_overlay().await
        };
        let name = match &visible {
            Some(object) => Some(object.name().to_owned()),
            None => {
                let told = self.answer.object_version();
                let told = told.map_err(|error| self.unreadable(&error))?.name;
                Some(told).filter(|name| !name.is_empty())
            }
        };
        let Some(returns) = &self.returns else {
            return Ok((name, Bytes::new()));
        };
        // The object that the plugin sees is smaller than the answer, and mostly has all fields that it asks for. The
        // whole object is the answer itself, which also names its kind.
        let source = match visible
            .as_ref()
            .filter(|object| object.mask().covers(returns))
        {
            Some(visible) if !returns.is_whole() => visible.bytes(),
            _ => {
                let whole = self.answer.json(returns);
                whole.map_err(|error| self.unreadable(&error))?
            }
        };
        if returns.is_whole() {
            return Ok((name, source));
        }
        let mut projected = Vec::new();
        returns
            .prune(&source, &mut projected)
            .map_err(|error| self.unreadable(&error))?;
        Ok((name, projected.into()))
    }

    /// Returns the object as the plugin sees it; none if the plugin doesn't see it.
    async fn add_to_overlay(&self) -> Option<Arc<Object>> {
        let Self { kind, answer, .. } = self;
        if let Some((namespace, name)) = &self.deleted {
            let before = self.before.as_deref();
            self.cached
                .deleted(kind, (namespace, name), before, answer)
                .await;
            return None;
        }
        if answer.is_metadata() || answer.kind() == kind.to_string() {
            self.cached.written(kind, answer).await
        } else {
            None
        }
    }

    fn unreadable(&self, error: &dyn std::error::Error) -> ApiError {
        let kind = &self.kind;
        let message = format!("the server's answer to the write of {kind} can't be read: {error}");
        ApiError::internal(Effect::Unknown, message)
    }
}
