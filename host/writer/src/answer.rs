//! Reads the server's answer to a write, for the overlay and for the fields that the plugin asks for. A plugin with a
//! CPU quota is charged for it, since each answer may be as large as an object. The answer is read at once, so that the
//! next reconcile sees the write. The plugin's next request waits until the quota is no longer overdrawn.

use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::{ApiResponse, Object};
use flyball_reads::cached::{CachedReads, Overlaid};
use flyball_types::{ApiError, Effect, Kind, Mask};

use crate::Writer;
use crate::body::METERED_MERGE;

/// The kind of an answer without `apiVersion` and `kind`.
const UNTYPED: &str = "/";

/// A write that the server acknowledged.
pub(super) struct Acknowledged {
    pub(super) cached: Arc<CachedReads>,
    pub(super) kind: Kind,
    pub(super) subresource: String,
    /// The namespace and the name of the deleted object, if it was a delete.
    pub(super) deleted: Option<(String, String)>,
    /// The object as the plugin saw it before it was deleted.
    pub(super) before: Option<Arc<Object>>,
    pub(super) answer: ApiResponse,
    pub(super) is_dry_run: bool,
    /// The part of the answer that the plugin asks for; nothing if none.
    pub(super) returns: Option<Arc<Mask>>,
}

/// What an answer says.
pub(super) struct Answered {
    /// The name that the server assigned, if any.
    pub(super) name: Option<String>,
    /// The fields that the plugin asked for.
    pub(super) returned: Bytes,
    /// Whether the plugin's cached reads show the kind, and don't show the write yet.
    pub(super) is_unseen: bool,
}

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
        let Overlaid { visible, is_unseen } = if self.is_dry_run {
            Overlaid::default()
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
            return Ok(Answered {
                name,
                returned: Bytes::new(),
                is_unseen,
            });
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
        let returned = if returns.is_whole() {
            source
        } else {
            let mut projected = Vec::new();
            let pruned = returns.prune(&source, &mut projected);
            pruned.map_err(|error| self.unreadable(&error))?;
            projected.into()
        };
        Ok(Answered {
            name,
            returned,
            is_unseen,
        })
    }

    /// Adds the write to the overlay as far as it can be.
    async fn add_to_overlay(&self) -> Overlaid {
        let Self { kind, answer, .. } = self;
        let mut added = Overlaid::default();
        if let Some((namespace, name)) = &self.deleted {
            let (at, before) = ((namespace.as_str(), name.as_str()), self.before.as_deref());
            added.is_unseen = !self.cached.deleted(kind, at, before, answer).await;
        } else if self.is_object() {
            added = self.cached.written(kind, answer).await;
        }
        added.is_unseen |= self.is_beyond_overlay();
        added
    }

    /// Whether the answer is the written object. That of a `scale` is a Scale, and that of an `eviction` a Status. The
    /// answer to a write of the object itself may lack its kind: some aggregated API servers leave it out.
    fn is_object(&self) -> bool {
        let own = self.kind.to_string();
        match self.answer.kind() {
            UNTYPED => matches!(self.subresource.as_str(), "" | "status"),
            kind => kind == own || self.answer.is_metadata(),
        }
    }

    /// Whether the write changed objects that the plugin's cached reads show, and the overlay can't have them: the
    /// answer is another object (`scale`, `eviction`, `binding`, a collection), or the plugin watches another version of
    /// the kind.
    fn is_beyond_overlay(&self) -> bool {
        let is_in_answer = self.deleted.is_some() || self.is_object();
        let changes_nothing = self.subresource == "token";
        match is_in_answer {
            true => self.cached.shows_another_version(&self.kind),
            false => !changes_nothing && !self.cached.informers(&self.kind).is_empty(),
        }
    }

    fn unreadable(&self, error: &dyn std::error::Error) -> ApiError {
        let kind = &self.kind;
        let message = format!("the server's answer to the write of {kind} can't be read: {error}");
        ApiError::internal(Effect::Unknown, message)
    }
}
