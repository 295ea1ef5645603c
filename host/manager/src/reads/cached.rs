//! Cached reads: what one plugin sees of the kinds that it watches, through the cache and its own acknowledged writes, in the
//! fields that it declared. Each read of a guest passes the check in `access.rs`.

mod lookup;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::{
    ApiResponse, DecodeError, Discovery, Informer, ListQuery, Lister, Object, OverlayWriter, Uid,
    View,
};
use flyball_plugin::{Cursor, Page, check_cpu_time};
use flyball_types::description::Description;
use flyball_types::{
    ALL_KINDS, ApiError, Columns, FieldPath, Kind, LabelSelector, Mask, MaskError, Projection,
    Query, Reference,
};
use parking_lot::{Mutex, RwLock};

use crate::policy::PluginPolicy;
use crate::policy::access::{Access, Read, access};
use crate::reads::snapshot::{Part, Snapshot};

/// The most paths of one request, and their bytes: they are counted before they are parsed.
const MAX_PATHS: usize = 512;
const MAX_PATHS_BYTES: usize = 64 * 1024;

/// Bytes of the sets of paths that are kept parsed. Further sets are parsed for each read. A set mostly has a few hundred bytes.
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
pub(crate) struct Seen {
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
pub(crate) struct CachedReads {
    /// The kinds that the description names.
    kinds: HashMap<Kind, Vec<Lister>>,
    /// The kinds that its watches discover, as of now.
    discovered: RwLock<Arc<BTreeMap<Kind, Lister>>>,
    discovery: Arc<Discovery>,
    indexes: HashMap<(Kind, String), FieldPath>,
    policy: Arc<PluginPolicy>,
    seen: Seen,
    masks: Parsed<Mask>,
    columns: Parsed<Columns>,
    /// The longest page in bytes.
    answer_bytes: usize,
}

impl CachedReads {
    /// Reads from these informers, which belong to the watches that name a kind, in the namespaces of the policy.
    pub(crate) fn new<'a>(
        description: &Description,
        policy: Arc<PluginPolicy>,
        informers: impl IntoIterator<Item = &'a Informer>,
        discovery: Arc<Discovery>,
        answer_bytes: usize,
        seen: Seen,
    ) -> Self {
        let mut kinds: HashMap<Kind, Vec<Lister>> = HashMap::new();
        for informer in informers {
            kinds
                .entry(informer.resource().kind.clone())
                .or_default()
                .push(lister(informer, &policy, &seen));
        }
        let index = |index: &flyball_types::description::Index| {
            Some((
                (index.kind.clone(), index.name.clone()),
                index.path.parse().ok()?,
            ))
        };
        let indexes = description.indexes.iter().filter_map(index).collect();
        let (discovered, masks, columns) =
            (RwLock::default(), Parsed::default(), Parsed::default());
        Self {
            kinds,
            discovered,
            discovery,
            indexes,
            policy,
            seen,
            masks,
            columns,
            answer_bytes,
        }
    }

    /// Returns the state for the plugin's next version.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.clone()
    }

    /// Returns a lister of an informer's objects, with what the plugin may see of them.
    pub(crate) fn lister(&self, informer: &Informer) -> Lister {
        lister(informer, &self.policy, &self.seen)
    }

    /// Returns what the plugin may see of the deltas of a watch, with its lister.
    pub(crate) fn deltas(&self, informer: &Informer) -> Result<(Lister, Access), ApiError> {
        let read = Read::Cached {
            kind: &informer.resource().kind,
            is_watched: true,
            uses: &[],
        };
        Ok((self.lister(informer), access(&self.policy, read)?))
    }

    /// Replaces the informers of the discovered kinds.
    pub(crate) fn discover(&self, informers: impl IntoIterator<Item = Informer>) {
        let known = self.discovered();
        let keep = |informer: Informer| {
            let kind = informer.resource().kind.clone();
            let lister = known
                .get(&kind)
                .cloned()
                .unwrap_or_else(|| lister(&informer, &self.policy, &self.seen));
            (kind, lister)
        };
        let new = informers.into_iter().map(keep).collect();
        *self.discovered.write() = Arc::new(new);
    }

    fn discovered(&self) -> Arc<BTreeMap<Kind, Lister>> {
        self.discovered.read().clone()
    }

    /// Returns the listers of a kind; none if the plugin does not watch it.
    fn listers(&self, kind: &Kind) -> Cow<'_, [Lister]> {
        match self.kinds.get(kind) {
            Some(listers) => Cow::Borrowed(listers),
            None => self.discovered().get(kind).cloned().into_iter().collect(),
        }
    }

    /// Returns the listers of the kinds that the description names.
    fn named(&self) -> impl Iterator<Item = (&Kind, &Lister)> {
        self.kinds
            .iter()
            .flat_map(|(kind, all)| all.iter().map(move |lister| (kind, lister)))
    }

    /// Visits each object that the plugin sees, of all kinds.
    pub(crate) fn each(&self, mut visit: impl FnMut(&Kind, &Arc<Object>)) {
        let discovered = self.discovered();
        for (kind, lister) in self.named().chain(&*discovered) {
            lister
                .list(&ListQuery::default())
                .iter()
                .for_each(|object| visit(kind, object));
        }
    }

    /// Returns the object of that name, reduced to `fields`.
    pub(crate) fn get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError> {
        let listers = self.readable(kind, &[])?;
        let mask = self.mask(fields)?;
        let Some((lister, object)) = listers
            .iter()
            .find_map(|lister| Some((lister, lister.get(namespace, name)?)))
        else {
            return Ok(None);
        };
        let mut json = Vec::with_capacity(object.json().len());
        lister
            .project(&object, mask.as_ref(), &mut json)
            .map_err(|error| ApiError::denied(error.to_string()))?;
        Ok(Some(json.into()))
    }

    /// Returns the first page of a snapshot of the objects that match.
    pub(crate) fn list(
        &self,
        query: &Query,
        projection: &Projection,
        limit: u32,
    ) -> Result<Page, ApiError> {
        let (listers, list_query) = self.list_query(query)?;
        let names_kinds = query.kind == ALL_KINDS;
        let mut found: Vec<(usize, Arc<Object>)> = Vec::new();
        let mut parts = Vec::new();
        for lister in listers.iter() {
            let objects = lister.list_while(&list_query, check_cpu_time)?;
            // Of many kinds, most have no matching object.
            if !objects.is_empty() {
                let kind = names_kinds.then(|| lister.informer().resource().kind.clone());
                found.extend(objects.into_iter().map(|object| (parts.len(), object)));
                parts.push(Part {
                    projection: self.projection(lister, &query.kind, projection),
                    kind,
                });
            }
        }
        if listers.len() > 1 {
            found.sort_by(|(_, a), (_, b)| {
                (a.namespace(), a.name()).cmp(&(b.namespace(), b.name()))
            });
            found.dedup_by(|(_, a), (_, b)| a.uid() == b.uid());
        }
        Box::new(Snapshot::new(found, parts, self.answer_bytes)).next(limit)
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
    pub(crate) fn count(&self, query: &Query) -> Result<u32, ApiError> {
        let (listers, list_query) = self.list_query(query)?;
        let count = match &*listers {
            [lister] => lister.count_while(&list_query, check_cpu_time)?,
            listers => {
                let mut uids: HashSet<Uid> = HashSet::new();
                for lister in listers {
                    let objects = lister.list_while(&list_query, check_cpu_time)?;
                    uids.extend(objects.iter().map(|object| object.uid().clone()));
                }
                uids.len()
            }
        };
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Returns the cached object of this version, as the base of an update; none if the cache holds another version, or not
    /// all of its fields (`whole`) or of its metadata.
    pub(crate) fn base(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        resource_version: &str,
        whole: bool,
    ) -> Option<Bytes> {
        let listers = self.listers(kind);
        let enough = |lister: &&Lister| {
            let mask = lister.informer().mask();
            if whole {
                mask.is_whole()
            } else {
                mask.covers(Mask::metadata())
            }
        };
        let lister = listers.iter().find(enough)?;
        let object = lister.get(namespace, name)?;
        (object.resource_version().to_string() == resource_version).then(|| object.bytes())
    }

    /// Whether the deletion of this object was observed; false means unknown.
    pub(crate) fn is_deletion_observed(&self, object: &Reference) -> bool {
        self.seen.deleted.lock().known.contains(object)
    }

    /// Whether the plugin sees no more of a kind's objects than their metadata.
    pub(crate) fn shows_metadata_alone(&self, kind: &Kind) -> bool {
        self.listers(kind)
            .iter()
            .all(|lister| Mask::metadata().covers(&lister.view().mask))
    }

    /// Whether the server may return a written object of the kind in protobuf, because all caches of the kind that the plugin
    /// sees read it so.
    pub(crate) fn reads_protobuf(&self, kind: &Kind) -> bool {
        let listers = self.listers(kind);
        !listers.is_empty()
            && listers
                .iter()
                .all(|lister| lister.informer().reads_protobuf())
    }

    /// Adds a write that the server acknowledged with this object. Returns the object as the plugin sees it, if it does.
    pub(crate) async fn written(&self, kind: &Kind, answer: &ApiResponse) -> Option<Arc<Object>> {
        let mut seen = None;
        for lister in &*self.listers(kind) {
            let informer = lister.informer();
            match self.seen.overlay.written(informer, answer) {
                Ok(object) => seen = Some(object),
                Err(DecodeError::Protobuf(_)) if informer.catches_up(answer).await => {
                    let written = answer.object_version().unwrap_or_default();
                    seen = lister.get(&written.namespace, &written.name).or(seen);
                }
                Err(error) => {
                    tracing::warn!(%kind, %error, "can't read the server's answer to a write: it is not an object")
                }
            }
        }
        seen
    }

    /// Returns an object as the plugin sees it, before it is deleted.
    pub(crate) fn before(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.listers(kind)
            .iter()
            .find_map(|lister| lister.get(namespace, name))
    }

    /// Adds a delete that the server acknowledged with this answer. `before` is the object that the plugin saw.
    pub(crate) async fn deleted(
        &self,
        kind: &Kind,
        at: (&str, &str),
        before: Option<&Object>,
        answer: &ApiResponse,
    ) {
        for lister in &*self.listers(kind) {
            let informer = lister.informer();
            match self.seen.overlay.deleted(informer, at, before, answer) {
                Ok(()) => {}
                Err(DecodeError::Protobuf(_)) if informer.catches_up(answer).await => {}
                Err(error) => {
                    tracing::warn!(%kind, %error, "can't read the server's answer to a delete: it is neither a status nor an object");
                }
            }
        }
    }

    /// Returns the informers of a kind.
    pub(crate) fn informers(&self, kind: &Kind) -> Vec<Informer> {
        self.listers(kind)
            .iter()
            .map(|lister| lister.informer().clone())
            .collect()
    }

    /// Frees the memory of writes that the reflectors have seen.
    pub(crate) fn tidy(&self) {
        self.seen.overlay.tidy();
    }

    /// Returns the listers of a kind, if the plugin may read it with conditions on the fields `uses`.
    fn readable(&self, kind: &str, uses: &[FieldPath]) -> Result<Cow<'_, [Lister]>, ApiError> {
        let check = |kind: &Kind, is_watched| {
            let read = Read::Cached {
                kind,
                is_watched,
                uses,
            };
            access(&self.policy, read)
        };
        if kind == ALL_KINDS {
            let discovered = self.discovered();
            for kind in discovered.keys() {
                check(kind, true)?;
            }
            return Ok(discovered.values().cloned().collect());
        }
        let kind = parse(kind)?;
        let listers = self.listers(&kind);
        check(&kind, !listers.is_empty())?;
        Ok(listers)
    }

    /// Returns the listers that a query reads, and the query for the cache.
    fn list_query(&self, query: &Query) -> Result<(Cow<'_, [Lister]>, ListQuery), ApiError> {
        let listers = self.readable(&query.kind, &metadata_of(query))?;
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
        Ok((listers, list_query))
    }

    /// Returns the mask of these fields; none if all are meant.
    pub(crate) fn mask(&self, fields: &[String]) -> Result<Option<Arc<Mask>>, ApiError> {
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
        check_paths(paths)?;
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

/// Fails if a request has too many paths to parse them.
pub(crate) fn check_paths(paths: &[String]) -> Result<(), ApiError> {
    let count = paths.len();
    let bytes: usize = paths.iter().map(String::len).sum();
    if count > MAX_PATHS || bytes > MAX_PATHS_BYTES {
        return Err(ApiError::full(format!(
            "a read or write names at most {MAX_PATHS} field paths of {MAX_PATHS_BYTES} bytes together, and this one has \
             {count} of {bytes} bytes"
        )));
    }
    Ok(())
}

/// Returns a lister of an informer's objects, with the fields of its watch, in the namespaces of the policy.
fn lister(informer: &Informer, policy: &PluginPolicy, seen: &Seen) -> Lister {
    let namespaces = policy.watched_namespaces(&informer.resource().kind);
    let view = View {
        mask: informer.mask().clone(),
        namespaces,
    };
    Lister::new(informer.clone(), seen.overlay.reader(), view)
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

fn parse(kind: &str) -> Result<Kind, ApiError> {
    kind.parse()
        .map_err(|error| ApiError::invalid(format!("{error}")))
}

#[cfg(test)]
mod tests;
