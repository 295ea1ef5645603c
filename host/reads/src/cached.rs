//! Cached reads: one plugin's view of the kinds that it watches, through the cache and its own acknowledged writes, in
//! the fields that it declared. Each read of a guest passes the check in `access.rs`: see [`Listers::readable`].

mod listers;
mod lookup;
mod views;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::{
    ApiResponse, DecodeError, Discovery, Informer, ListQuery, Lister, Object, OverlayWriter, Uid,
};
use flyball_plugin::{Allowance, Page};
use flyball_policy::PluginPolicy;
use flyball_types::description::Description;
use flyball_types::{
    ALL_KINDS, ApiError, Columns, FieldPath, Kind, LabelSelector, Mask, MaskError, Projection,
    Query, Reference,
};
use parking_lot::Mutex;

use self::listers::{Listers, Readable};
pub use self::views::{RouteView, WatchView};

/// Bytes of the sets of paths that are kept parsed. Further sets are parsed for each read. Most sets take a few hundred
/// bytes.
const PARSED_BYTES: usize = 1 << 20;

/// How many deleted owners are remembered.
const DELETED_KEPT: usize = 16_384;

/// The owners whose deletion was observed last.
#[derive(Default)]
struct Deleted {
    known: HashSet<Reference>,
    in_order: VecDeque<Reference>,
}

/// The state that a plugin's versions share: its acknowledged writes, and the deletions that it observed.
#[derive(Clone, Default)]
pub struct SharedReads {
    overlay: Arc<OverlayWriter>,
    deleted: Arc<Mutex<Deleted>>,
}

/// Parsed sets of paths.
struct Parsed<T> {
    known: Mutex<Known<T>>,
}

struct Known<T> {
    sets: HashMap<Vec<String>, Arc<T>>,
    /// An estimate.
    bytes: usize,
}

impl<T> Default for Parsed<T> {
    fn default() -> Self {
        Self {
            known: Mutex::new(Known {
                sets: HashMap::new(),
                bytes: 0,
            }),
        }
    }
}

/// The cached reads of one plugin.
pub struct CachedReads {
    listers: Listers,
    discovery: Arc<Discovery>,
    indexes: HashMap<(Kind, String), FieldPath>,
    shared: SharedReads,
    masks: Parsed<Mask>,
    columns: Parsed<Columns>,
    /// The longest page in bytes.
    answer_bytes: usize,
}

/// The base of an update, as the cache knows it.
pub enum Base {
    Cached(Bytes),
    /// The object is at this later version by now: the update would conflict.
    Newer(u64),
    /// The cache holds no such object: it was deleted, or is too new.
    Gone,
    /// The cache holds too few fields of the kind, or an earlier version.
    Unknown,
}

/// A write that was added to the overlay.
#[derive(Default)]
pub struct Overlaid {
    /// The part of the object that is visible to the plugin; none if the object isn't visible to it.
    pub visible: Option<Arc<Object>>,
    /// Whether the plugin's reads don't show the write until the cache has caught up: its answer can't be read.
    pub is_unseen: bool,
}

impl CachedReads {
    /// Reads from these informers, which belong to the watches that name a kind, in the namespaces of the policy.
    pub fn new<'a>(
        description: &Description,
        policy: Arc<PluginPolicy>,
        informers: impl IntoIterator<Item = &'a Informer>,
        discovery: Arc<Discovery>,
        answer_bytes: usize,
        shared: SharedReads,
    ) -> Self {
        let index = |index: &flyball_types::description::Index| {
            Some((
                (index.kind.clone(), index.name.clone()),
                index.path.parse().ok()?,
            ))
        };
        let indexes = description.indexes.iter().filter_map(index).collect();
        let (masks, columns) = (Parsed::default(), Parsed::default());
        Self {
            listers: Listers::new(policy, shared.clone(), informers),
            discovery,
            indexes,
            shared,
            masks,
            columns,
            answer_bytes,
        }
    }

    /// Returns the state that the plugin's versions share, for the next version.
    pub fn shared(&self) -> SharedReads {
        self.shared.clone()
    }

    /// Returns a view that tells which objects of a watch the plugin sees.
    pub fn watch_view(&self, informer: &Informer) -> WatchView {
        WatchView::new(self.listers.lister(informer))
    }

    /// Returns a view that reduces the objects of a watch for the plugin's `route`.
    ///
    /// # Errors
    /// `Denied` if the plugin may not see them.
    pub fn route_view(&self, informer: &Informer) -> Result<RouteView, ApiError> {
        self.listers.route_view(informer)
    }

    /// Replaces the informers of the discovered kinds.
    pub fn discover(&self, informers: impl IntoIterator<Item = Informer>) {
        self.listers.discover(informers);
    }

    /// Returns an object that the plugin sees, for the host's own work.
    pub fn object(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let listers = self.listers.of(kind);
        listers
            .iter()
            .find_map(|lister| lister.get(namespace, name))
    }

    /// Visits each object that the plugin sees, of all kinds.
    pub fn each(&self, mut visit: impl FnMut(&Kind, &Arc<Object>)) {
        let discovered = self.listers.discovered();
        for (kind, lister) in self.listers.named().chain(&*discovered) {
            lister
                .list(&ListQuery::default())
                .iter()
                .for_each(|object| visit(kind, object));
        }
    }

    /// Returns the object of that name, reduced to `fields`.
    pub fn get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError> {
        let readable = self.listers.readable(kind, &[])?;
        readable.get(namespace, name, self.mask(fields)?.as_ref())
    }

    /// Returns the first page of a snapshot of the objects that match.
    pub fn list(
        &self,
        query: &Query,
        projection: &Projection,
        limit: u32,
        allowance: &Allowance,
    ) -> Result<Page, ApiError> {
        let (readable, list_query) = self.list_query(query)?;
        let reduced = |lister: &Lister| self.projection(lister, &query.kind, projection);
        let names_kinds = query.kind == ALL_KINDS;
        readable
            .snapshot(
                &list_query,
                names_kinds,
                reduced,
                self.answer_bytes,
                allowance,
            )?
            .next(limit, allowance)
    }

    /// Returns how the objects of a lister are reduced.
    fn projection(
        &self,
        lister: &Lister,
        kind: &str,
        projection: &Projection,
    ) -> Result<flyball_cache::Projection, ApiError> {
        let projection = match projection {
            Projection::All => lister.projection(None),
            Projection::Fields(paths) => lister.projection(self.mask(paths)?.as_ref()),
            Projection::Columns(_) if kind == ALL_KINDS => {
                return Err(ApiError::invalid(
                    "rows do not name their kind, so a query of all kinds returns none: ask for fields",
                ));
            }
            Projection::Columns(paths) => {
                lister.rows(self.columns.get(paths, Columns::parse, Columns::size)?)
            }
        };
        projection.map_err(|error| ApiError::denied(error.to_string()))
    }

    /// Returns how many objects match.
    pub fn count(&self, query: &Query, allowance: &Allowance) -> Result<u32, ApiError> {
        let (readable, list_query) = self.list_query(query)?;
        Ok(u32::try_from(readable.count(&list_query, allowance)?).unwrap_or(u32::MAX))
    }

    /// Finds the base of an update: the cached object of this version, with all of its fields (`whole`) or of its
    /// metadata.
    pub fn base(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        resource_version: &str,
        whole: bool,
    ) -> Base {
        let listers = self.listers.of(kind);
        let enough = |lister: &&Lister| {
            let mask = lister.informer().mask();
            if whole {
                mask.is_whole()
            } else {
                mask.covers(Mask::metadata())
            }
        };
        let Some(lister) = listers.iter().find(enough) else {
            return Base::Unknown;
        };
        let Some(object) = lister.get(namespace, name) else {
            return Base::Gone;
        };
        let cached = object.resource_version();
        match resource_version.parse::<u64>() {
            Ok(asked) if asked == cached => Base::Cached(object.bytes()),
            Ok(asked) if asked < cached => Base::Newer(cached),
            _ => Base::Unknown,
        }
    }

    /// Whether the deletion of this object was observed; false means unknown.
    pub fn is_deletion_observed(&self, object: &Reference) -> bool {
        self.shared.deleted.lock().known.contains(object)
    }

    /// Whether the plugin sees no more of a kind's objects than their metadata.
    pub fn shows_metadata_alone(&self, kind: &Kind) -> bool {
        self.listers
            .of(kind)
            .iter()
            .all(|lister| Mask::metadata().covers(&lister.view().mask))
    }

    /// Whether the server may return a written object of the kind in protobuf. It may if all caches of the kind that
    /// the plugin sees read protobuf.
    pub fn reads_protobuf(&self, kind: &Kind) -> bool {
        let listers = self.listers.of(kind);
        !listers.is_empty()
            && listers
                .iter()
                .all(|lister| lister.informer().reads_protobuf())
    }

    /// Adds a write that the server acknowledged with this object.
    pub async fn written(&self, kind: &Kind, answer: &ApiResponse) -> Overlaid {
        let (mut visible, mut is_unseen) = (None, false);
        for lister in &*self.listers.of(kind) {
            let informer = lister.informer();
            match self.shared.overlay.written(informer, answer) {
                Ok(object) => visible = Some(object),
                Err(DecodeError::Protobuf(_)) if informer.catches_up(answer).await => {
                    let written = answer.object_version().unwrap_or_default();
                    visible = lister.get(&written.namespace, &written.name).or(visible);
                }
                Err(error) => {
                    tracing::warn!(%kind, %error, "can't read the server's answer to a write: it is not an object");
                    is_unseen = true;
                }
            }
        }
        Overlaid { visible, is_unseen }
    }

    /// Returns an object as the plugin sees it, before it is deleted.
    pub fn before(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.listers
            .of(kind)
            .iter()
            .find_map(|lister| lister.get(namespace, name))
    }

    /// Adds a delete that the server acknowledged with this answer. `before` is the object that the plugin saw. Returns
    /// whether the plugin's reads show the deletion.
    pub async fn deleted(
        &self,
        kind: &Kind,
        at: (&str, &str),
        before: Option<&Object>,
        answer: &ApiResponse,
    ) -> bool {
        let mut is_seen = true;
        for lister in &*self.listers.of(kind) {
            let informer = lister.informer();
            match self.shared.overlay.deleted(informer, at, before, answer) {
                Ok(()) => {}
                Err(DecodeError::Protobuf(_)) if informer.catches_up(answer).await => {}
                Err(error) => {
                    tracing::warn!(%kind, %error, "can't read the server's answer to a delete: it is neither a status nor an object");
                    is_seen = false;
                }
            }
        }
        is_seen
    }

    /// Returns the informers of a kind, in any of its versions.
    pub fn informers(&self, kind: &Kind) -> Vec<Informer> {
        let is_it = |(own, _): &(&Kind, &Lister)| is_of_some_version(own, kind);
        let discovered = self.listers.discovered();
        let all = self.listers.named().chain(&*discovered).filter(is_it);
        all.map(|(_, lister)| lister.informer().clone()).collect()
    }

    /// Whether the plugin's cached reads show the kind in another version. The overlay adds no write to these.
    pub fn shows_another_version(&self, kind: &Kind) -> bool {
        let is_other = |(own, _): (&Kind, &Lister)| is_of_some_version(own, kind) && own != kind;
        let discovered = self.listers.discovered();
        self.listers.named().chain(&*discovered).any(is_other)
    }

    /// Frees the memory of writes that the reflectors have seen.
    pub fn tidy(&self) {
        self.shared.overlay.tidy();
    }

    /// Returns the listers that a query reads, and the query for the cache.
    fn list_query(&self, query: &Query) -> Result<(Readable<'_>, ListQuery), ApiError> {
        let readable = self.listers.readable(&query.kind, &metadata_of(query))?;
        let labels: LabelSelector = query
            .labels
            .parse()
            .map_err(|error| ApiError::invalid(format!("{error}")))?;
        let field = |(name, value): &(String, String)| {
            let path = if query.kind == ALL_KINDS {
                None
            } else {
                self.indexes.get(&(parse(&query.kind)?, name.clone()))
            };
            let undeclared = || {
                ApiError::denied(format!(
                    "this plugin declares no index `{name}` over {}",
                    query.kind
                ))
            };
            Ok((path.ok_or_else(undeclared)?.clone(), value.clone()))
        };
        let list_query = ListQuery {
            namespace: query.namespace.clone(),
            labels,
            fields: query
                .indexes
                .iter()
                .map(field)
                .collect::<Result<_, ApiError>>()?,
            uid: query.uid.as_deref().map(Uid::new),
            owner: query.owner.as_deref().map(Uid::new),
            controller: query.controller.as_deref().map(Uid::new),
            orphans: query.orphans,
        };
        Ok((readable, list_query))
    }

    /// Returns the mask of these fields; none if all are meant.
    pub fn mask(&self, fields: &[String]) -> Result<Option<Arc<Mask>>, ApiError> {
        if fields.is_empty() {
            Ok(None)
        } else {
            self.masks.get(fields, Mask::parse, Mask::size).map(Some)
        }
    }
}

impl<T> Parsed<T> {
    fn get<'a>(
        &self,
        paths: &'a [String],
        parse: impl FnOnce(&'a [String]) -> Result<T, MaskError>,
        size: impl FnOnce(&T) -> usize,
    ) -> Result<Arc<T>, ApiError> {
        if let Some(known) = self.known.lock().sets.get(paths) {
            return Ok(known.clone());
        }
        let parsed = Arc::new(parse(paths).map_err(|error| ApiError::invalid(error.to_string()))?);
        let text = |path: &String| size_of::<String>() + path.len();
        let bytes = paths.iter().map(text).sum::<usize>() + size(&parsed);
        let mut known = self.known.lock();
        if known.bytes.saturating_add(bytes) <= PARSED_BYTES
            && known.sets.insert(paths.to_vec(), parsed.clone()).is_none()
        {
            known.bytes += bytes;
        }
        Ok(parsed)
    }
}

/// Returns the metadata that a query's conditions compare. The paths of indexes are the description's.
fn metadata_of(query: &Query) -> Vec<FieldPath> {
    let owners = query.owner.is_some() || query.controller.is_some() || query.orphans;
    let fields = [
        (!query.labels.is_empty(), "labels"),
        (owners, "ownerReferences"),
    ];
    let used = fields.into_iter().filter(|(is_used, _)| *is_used);
    used.map(|(_, field)| FieldPath::of_fields(&["metadata", field]))
        .collect()
}

/// Whether two kinds are the same but for the version.
fn is_of_some_version(one: &Kind, other: &Kind) -> bool {
    one.group == other.group && one.kind == other.kind
}

fn parse(kind: &str) -> Result<Kind, ApiError> {
    kind.parse()
        .map_err(|error| ApiError::invalid(format!("{error}")))
}

#[cfg(test)]
mod tests;
