//! The overlay: a plugin's acknowledged writes that the reflector has not seen yet. With it, the plugin's next read
//! returns its own writes without waiting. The writer fills it, and listers read it (`lister.rs`).
//!
//! The contract: an object that a plugin reads is never older than the plugin's last acknowledged write of it. An entry
//! counts only while the reflector is behind it; removing obsolete entries only frees memory. This compares versions of
//! different objects of one kind, which the API allows (KEP-5504).
//!
//! # Example
//!
//! A plugin creates the pod `web-1`, and deletes it without a grace period:
//!
//! | what happens | reflector's position | entry of `web-1` | the plugin's list |
//! |---|---|---|---|
//! | the creation is acknowledged, as version 105 | 100 | `Written`, 105 | has `web-1`, from the overlay |
//! | another pod's event arrives, of version 103 | 103 | `Written`, 105 | has `web-1`, from the overlay |
//! | ADDED arrives, of version 105 | 105 | obsolete | has `web-1`, from the cache |
//! | its deletion is acknowledged, as 109 | 105 | `Deleted`, after 109 | lacks `web-1`: the cached pod is hidden |
//! | DELETED arrives, of version 109 | 109 | obsolete | lacks `web-1`, as the cache does |
//!
//! Other plugins read only the cache: they see the pod between ADDED and DELETED. If ADDED arrives before the
//! acknowledgement, `put` drops the entry, because the cache has its effect already, or that of a later change.
//!
//! kube-controller-manager's controllers need expectations for the same purpose (`pkg/controller/controller_utils.go`):
//! they count the events that their writes must cause, and skip reconciles until all have arrived or five minutes have
//! passed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use flyball_types::{FieldPath, Mask};
use foldhash::fast::RandomState;
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::core::{Core, CoreState};
use crate::{ApiResponse, DecodeError, Informer, Object, Uid};

/// How long a deleted object without a known version stays hidden, since its addition may still arrive.
const HIDDEN_FOR: Duration = Duration::from_secs(600);

/// A plugin's overlay, for reads. Cheap to clone.
#[derive(Clone)]
pub struct Overlay {
    informers: Arc<RwLock<Informers>>,
}

/// A plugin's overlay, for the writer.
pub struct OverlayWriter {
    overlay: Overlay,
}

/// The entries of each informer, by its id.
#[derive(Default)]
struct Informers {
    entries: HashMap<u64, (Arc<Core>, Entries), RandomState>,
    /// The number of entries of all informers.
    count: usize,
    /// The number of entries at which `put` removes the obsolete ones.
    tidy_at: usize,
}

/// The plugin's writes to the objects of one informer, by UID. The cache may have passed some of them.
#[derive(Default)]
pub(crate) struct Entries {
    all: BTreeMap<Uid, OwnWrite>,
    /// The versions and UIDs of the entries that are `Written`. Every read visits those that the cache lacks.
    written: BTreeSet<(u64, Uid)>,
}

static NO_ENTRIES: Entries = Entries {
    all: BTreeMap::new(),
    written: BTreeSet::new(),
};

impl Entries {
    /// Whether reads must not return an object of the cache, because an entry is newer.
    pub(crate) fn hides(&self, object: &Object, state: &CoreState) -> bool {
        self.all
            .get(&object.uid)
            .is_some_and(|entry| entry.is_ahead(&object.uid, state))
    }

    /// The objects that the plugin wrote and the cache does not have yet.
    pub(crate) fn written<'a>(
        &'a self,
        state: &'a CoreState,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let ahead = self.written.range(first_ahead(state)..);
        ahead.filter_map(|(_, uid)| match self.all.get(uid)? {
            OwnWrite::Written(object) => Some(object),
            _ => None,
        })
    }

    /// Whether the cache lacks the effect of an entry.
    pub(crate) fn any_ahead(&self, state: &CoreState) -> bool {
        let mut all = self.all.iter();
        all.any(|(uid, entry)| entry.is_ahead(uid, state))
    }

    fn insert(&mut self, uid: Uid, entry: OwnWrite) {
        if let Some(OwnWrite::Written(old)) = self.all.get(&uid) {
            self.written.remove(&(old.resource_version, uid.clone()));
        }
        if let OwnWrite::Written(object) = &entry {
            self.written.insert((object.resource_version, uid.clone()));
        }
        self.all.insert(uid, entry);
    }

    /// Removes the entries that the cache has passed.
    fn tidy(&mut self, state: &CoreState) {
        self.all.retain(|uid, entry| entry.is_ahead(uid, state));
        self.written = self.written.split_off(&first_ahead(state));
    }
}

/// The least version and UID of an object that was written and that the cache lacks.
fn first_ahead(state: &CoreState) -> (u64, Uid) {
    (state.position.saturating_add(1), Uid::LEAST)
}

/// The effect of a write on an object.
#[derive(Clone, Debug)]
pub(crate) enum OwnWrite {
    /// The object is at this version.
    Written(Arc<Object>),
    /// The object left the informer's scope with this version.
    Left(u64),
    /// The object was deleted. Obsolete once the cache does not hold it and has passed `after`, its last known version.
    Deleted { after: Option<u64>, since: Instant },
}

impl OwnWrite {
    /// Whether the cache does not have the effect yet.
    pub(crate) fn is_ahead(&self, uid: &Uid, state: &CoreState) -> bool {
        match self {
            Self::Written(object) => object.resource_version > state.position,
            Self::Left(version) => *version > state.position,
            Self::Deleted { after, since } => {
                let may_be_added = match after {
                    Some(after) => *after > state.position,
                    None => since.elapsed() < HIDDEN_FOR,
                };
                may_be_added || state.indexer.by_uid(uid).is_some()
            }
        }
    }

    fn version(&self) -> u64 {
        match self {
            Self::Written(object) => object.resource_version,
            Self::Left(version) => *version,
            Self::Deleted { .. } => u64::MAX,
        }
    }
}

impl Overlay {
    /// Reads the entries of an informer together with its cache. The entries are locked before the cache: if an entry
    /// was removed because the cache had passed it, the cache has its effect.
    pub(crate) fn with<T>(&self, core: &Core, read: impl FnOnce(&Entries, &CoreState) -> T) -> T {
        let informers = self.informers.read();
        let entries = informers
            .entries
            .get(&core.id)
            .map_or(&NO_ENTRIES, |(_, entries)| entries);
        read(entries, &core.state())
    }
}

impl Default for OverlayWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl OverlayWriter {
    pub fn new() -> Self {
        Self {
            overlay: Overlay {
                informers: Arc::default(),
            },
        }
    }

    /// The overlay for listers.
    pub fn reader(&self) -> Overlay {
        self.overlay.clone()
    }

    /// Records a create, an update or a patch that the server acknowledged with the whole object. Returns the object as
    /// the informer's cache would hold it.
    ///
    /// Call it for each informer of the plugin that watches the object's kind, before the plugin gets the response. A
    /// version that the reflector has passed is not recorded. Don't call it for the subresources `scale`, `eviction`,
    /// `binding` and `token`, whose responses are other objects.
    ///
    /// # Errors
    /// The response is not an object of the API, or is protobuf that can't be decoded: see [`Informer::catches_up`].
    pub fn written(
        &self,
        informer: &Informer,
        response: &ApiResponse,
    ) -> Result<Arc<Object>, DecodeError> {
        let core = informer.core();
        let object = core.decode(response)?;
        let uid = object.uid.clone();
        let version = object.resource_version;
        let entry = if object.is_removed() && !is_held_by_spec(core, response)? {
            OwnWrite::Deleted {
                after: Some(version),
                since: Instant::now(),
            }
        } else if core.scope.contains(&object) {
            OwnWrite::Written(object.clone())
        } else {
            OwnWrite::Left(version)
        };
        self.put(core, uid, entry);
        Ok(object)
    }

    /// Records a delete that the server acknowledged with a Status or with the object.
    ///
    /// After a graceful delete the object stays visible, with its deletion timestamp. Otherwise it is hidden until the
    /// reflector sees the deletion. `before` is the object as the plugin read it before the delete. If the reflector
    /// saw the deletion before the response arrived, only the version of `before` shows that.
    ///
    /// # Errors
    /// The response is neither, or is protobuf that can't be decoded: see [`Informer::catches_up`].
    pub fn deleted(
        &self,
        informer: &Informer,
        (namespace, name): (&str, &str),
        before: Option<&Object>,
        response: &ApiResponse,
    ) -> Result<(), DecodeError> {
        let core = informer.core();
        let (uid, version) = if response.is_status() {
            (status_uid(response)?, None)
        } else {
            let object = core.decode(response)?;
            if object.is_deleting() && (!object.is_removed() || is_held_by_spec(core, response)?) {
                return self.written(informer, response).map(drop);
            }
            (Some(object.uid.clone()), Some(object.resource_version))
        };
        let known = self.newest_known(core, namespace, name, uid.as_ref());
        let Some(uid) = uid.or(known.as_ref().map(|(uid, _)| uid.clone())) else {
            return Ok(());
        };
        let before = before
            .filter(|object| object.uid == uid)
            .map(|object| object.resource_version);
        let after = version.max(before).max(
            known
                .filter(|(own, _)| *own == uid)
                .map(|(_, version)| version),
        );
        self.put(
            core,
            uid,
            OwnWrite::Deleted {
                after,
                since: Instant::now(),
            },
        );
        Ok(())
    }

    /// The newest known version of an object, by its UID or else its name, in the overlay or in the cache.
    fn newest_known(
        &self,
        core: &Core,
        namespace: &str,
        name: &str,
        uid: Option<&Uid>,
    ) -> Option<(Uid, u64)> {
        self.overlay.with(core, |entries, state| {
            let is_it =
                |object: &&Arc<Object>| object.name() == name && object.namespace() == namespace;
            let of = |object: &Arc<Object>| (object.uid.clone(), object.resource_version);
            let (own, cached) = match uid {
                Some(uid) => {
                    let own = entries
                        .all
                        .get(uid)
                        .filter(|entry| !matches!(entry, OwnWrite::Deleted { .. }));
                    (
                        own.map(|entry| (uid.clone(), entry.version())),
                        state.indexer.by_uid(uid),
                    )
                }
                None => {
                    let own = entries
                        .written(state)
                        .filter(is_it)
                        .map(of)
                        .max_by_key(|(_, version)| *version);
                    (own, state.indexer.get(namespace, name))
                }
            };
            own.into_iter()
                .chain(cached.map(of))
                .max_by_key(|(_, version)| *version)
        })
    }

    /// Adds an entry, unless the cache has passed it or the overlay has a newer one for the UID. A deletion is never
    /// replaced.
    fn put(&self, core: &Arc<Core>, uid: Uid, entry: OwnWrite) {
        if !entry.is_ahead(&uid, &core.state()) {
            return;
        }
        let mut informers = self.overlay.informers.write();
        let (_, entries) = informers
            .entries
            .entry(core.id)
            .or_insert_with(|| (Arc::clone(core), Entries::default()));
        let is_new = match entries.all.get(&uid) {
            Some(own) if own.version() >= entry.version() => return,
            own => own.is_none(),
        };
        entries.insert(uid, entry);
        informers.count += usize::from(is_new);
        if informers.count > informers.tidy_at {
            informers.tidy();
        }
    }

    /// Removes the entries that the reflector has passed, and returns the number of entries left. This only frees
    /// memory: reads ignore such entries.
    pub fn tidy(&self) -> usize {
        let mut informers = self.overlay.informers.write();
        informers.tidy();
        informers.count
    }
}

impl Informers {
    fn tidy(&mut self) {
        self.entries.retain(|_, (core, entries)| {
            entries.tidy(&core.state());
            !entries.all.is_empty()
        });
        self.count = self
            .entries
            .values()
            .map(|(_, entries)| entries.all.len())
            .sum();
        self.tidy_at = 64.max(2 * self.count);
    }
}

/// Whether finalizers in the object's spec delay its deletion, as a namespace's do. Also true for a namespace whose
/// response has no spec. Only the reflector then sees when the object is deleted.
fn is_held_by_spec(core: &Core, response: &ApiResponse) -> Result<bool, DecodeError> {
    if response.is_metadata() {
        return Ok(core.resource.kind.kind == "Namespace");
    }
    let finalizers = FieldPath::of_fields(&["spec", "finalizers"]);
    let json = response.json(&Mask::from(&finalizers))?;
    Ok(!finalizers.strings(&json).is_empty())
}

/// The UID in a Status, if it has one.
fn status_uid(status: &ApiResponse) -> Result<Option<Uid>, DecodeError> {
    let uid = FieldPath::of_fields(&["details", "uid"]);
    let json = status.json(&Mask::from(&uid))?;
    Ok(uid
        .strings(&json)
        .first()
        .filter(|uid| !uid.is_empty())
        .map(|uid| Uid::new(uid)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tests::core;

    fn empty() -> (OverlayWriter, Arc<Core>) {
        (OverlayWriter::new(), Arc::new(core(false)))
    }

    fn left(writer: &OverlayWriter, core: &Arc<Core>, uid: u64, version: u64) {
        writer.put(core, Uid::new(&uid.to_string()), OwnWrite::Left(version));
    }

    /// The number of entries, and the number at which obsolete ones are removed.
    fn counts(writer: &OverlayWriter) -> (usize, usize) {
        let informers = writer.overlay.informers.read();
        (informers.count, informers.tidy_at)
    }

    #[test]
    fn obsolete_entries_are_removed_when_their_number_has_doubled() {
        let (writer, core) = empty();
        left(&writer, &core, 1, 1);
        assert_eq!(counts(&writer), (1, 64));
        for version in 2..=64 {
            left(&writer, &core, version, version);
            // A newer entry of the same object replaces it.
            left(&writer, &core, version, 100 + version);
        }
        assert_eq!(counts(&writer), (64, 64));
        left(&writer, &core, 65, 165);
        assert_eq!(counts(&writer), (65, 130));
        core.replace(Vec::new(), 150, Arc::new(Mask::whole()), false);
        for uid in 66..=130 {
            left(&writer, &core, uid, 200);
        }
        assert_eq!(counts(&writer), (130, 130));
        left(&writer, &core, 131, 200);
        let kept = 131 - 50;
        assert_eq!(counts(&writer), (kept, 2 * kept));
        assert_eq!(writer.tidy(), kept);
    }

    #[test]
    fn an_older_entry_does_not_replace_a_newer_one() {
        let (writer, core) = empty();
        for (version, expected) in [(5, 5), (4, 5), (6, 6)] {
            left(&writer, &core, 1, version);
            let informers = writer.overlay.informers.read();
            let (_, entries) = &informers.entries[&core.id];
            assert_eq!(entries.all[&Uid::new("1")].version(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_without_a_known_version_is_kept_for_a_while() {
        let (writer, core) = empty();
        let deleted = OwnWrite::Deleted {
            after: None,
            since: Instant::now(),
        };
        writer.put(&core, Uid::new("1"), deleted);
        let just_before = HIDDEN_FOR - Duration::from_millis(1);
        for (pause, kept) in [(just_before, 1), (Duration::from_millis(1), 0)] {
            tokio::time::advance(pause).await;
            assert_eq!(writer.tidy(), kept);
        }
    }
}
