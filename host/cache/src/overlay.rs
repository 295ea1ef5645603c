//! What one plugin wrote and the server acknowledged, until the reflector has seen it: so the plugin's next read sees its
//! writes, without waiting. The writer fills it, listers read it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use flyball_types::FieldPath;
use foldhash::fast::RandomState;
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::core::{Core, State};
use crate::{Answer, DecodeError, Informer, Object, Uid};

/// How long a deleted object of which no version is known stays hidden: its addition may still be on its way.
const UNKNOWN_FOR: Duration = Duration::from_secs(600);

/// The readers' end of a plugin's overlay. Cheap to clone.
#[derive(Clone)]
pub struct Overlay {
    informers: Arc<RwLock<Informers>>,
}

/// The writer's end.
pub struct OverlayWriter {
    overlay: Overlay,
}

/// The entries of each informer, by its number.
#[derive(Default)]
struct Informers {
    entries: HashMap<u64, (Arc<Core>, Entries), RandomState>,
    count: usize,
    /// At how many entries it is tidied by itself.
    tidy_at: usize,
}

/// What the plugin's writes did to the objects of one informer, by UID. Some of it the cache may have passed.
#[derive(Default)]
pub(crate) struct Entries {
    all: BTreeMap<Uid, Entry>,
    /// Those that say what an object is: reads must look through them, and there are few.
    written: BTreeSet<Uid>,
}

static NONE: Entries = Entries {
    all: BTreeMap::new(),
    written: BTreeSet::new(),
};

impl Entries {
    /// Whether the cache may show an object that the plugin knows better of.
    pub(crate) fn hides(&self, object: &Object, state: &State) -> bool {
        self.all
            .get(&object.uid)
            .is_some_and(|entry| entry.is_ahead(&object.uid, state))
    }

    /// The objects as the plugin wrote them, where the cache does not show them so yet.
    pub(crate) fn written<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a Arc<Object>> {
        let entries = self
            .written
            .iter()
            .filter_map(|uid| Some((uid, self.all.get(uid)?)));
        entries.filter_map(|(uid, entry)| match entry {
            Entry::Written(object) if entry.is_ahead(uid, state) => Some(object),
            _ => None,
        })
    }

    fn insert(&mut self, uid: Uid, entry: Entry) {
        match entry {
            Entry::Written(_) => self.written.insert(uid.clone()),
            _ => self.written.remove(&uid),
        };
        self.all.insert(uid, entry);
    }

    fn tidy(&mut self, state: &State) {
        self.all.retain(|uid, entry| entry.is_ahead(uid, state));
        self.written.retain(|uid| self.all.contains_key(uid));
    }
}

/// What a write did to an object.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// It is now this version.
    Written(Arc<Object>),
    /// It left the informer's scope with this version.
    Left(u64),
    /// It is gone. Obsolete once the cache does not hold it and has passed `after`, the last version known.
    Gone { after: Option<u64>, since: Instant },
}

impl Entry {
    /// Whether the cache does not yet show what this entry says.
    pub(crate) fn is_ahead(&self, uid: &Uid, state: &State) -> bool {
        match self {
            Self::Written(object) => object.resource_version > state.position,
            Self::Left(version) => *version > state.position,
            Self::Gone { after, since } => {
                let may_still_come = match after {
                    Some(after) => *after > state.position,
                    None => since.elapsed() < UNKNOWN_FOR,
                };
                may_still_come || state.indexer.by_uid(uid).is_some()
            }
        }
    }

    fn version(&self) -> u64 {
        match self {
            Self::Written(object) => object.resource_version,
            Self::Left(version) => *version,
            Self::Gone { .. } => u64::MAX,
        }
    }
}

impl Overlay {
    /// Looks at the entries of an informer and at its cache together; without entries, at the cache alone. What is missing
    /// in the entries because the cache has passed it is in the cache.
    pub(crate) fn with<T>(&self, core: &Core, look: impl FnOnce(&Entries, &State) -> T) -> T {
        let informers = self.informers.read();
        let entries = informers
            .entries
            .get(&core.id)
            .map_or(&NONE, |(_, entries)| entries);
        look(entries, &core.state())
    }
}

impl Default for OverlayWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl OverlayWriter {
    /// An empty overlay for one plugin.
    pub fn new() -> Self {
        Self {
            overlay: Overlay {
                informers: Arc::default(),
            },
        }
    }

    /// The end that listers read.
    pub fn reader(&self) -> Overlay {
        self.overlay.clone()
    }

    /// The server acknowledged a create, an update or a patch with this object, whole. To be called for each informer of
    /// the plugin that watches the object's kind, before the plugin is told; a version that the reflector has passed is
    /// left out. Only for answers that are the object itself, not those of `scale`, `eviction`, `binding` or `token`.
    /// Returns the object, as the informer's cache would hold it.
    ///
    /// # Errors
    /// The answer is not an object of the API, or in protobuf that can't be read: see [`Informer::catches_up`].
    pub fn written(
        &self,
        informer: &Informer,
        answer: &Answer,
    ) -> Result<Arc<Object>, DecodeError> {
        let core = informer.core();
        let object = core.decode(answer)?;
        let uid = object.uid.clone();
        let version = object.resource_version;
        let entry = if object.is_gone() && !is_held_by_spec(core, answer)? {
            Entry::Gone {
                after: Some(version),
                since: Instant::now(),
            }
        } else if core.scope.contains(&object) {
            Entry::Written(object.clone())
        } else {
            Entry::Left(version)
        };
        self.put(core, uid, entry);
        Ok(object)
    }

    /// The server acknowledged a delete with this answer: a Status, or the object as it was or is now. Of a graceful
    /// delete the object stays, with its deletion timestamp; else it is hidden until the reflector sees it go. `before` is
    /// the object as the plugin saw it when it asked: where the reflector was quicker than the answer, nothing else says
    /// that it has seen the object go.
    ///
    /// # Errors
    /// The answer is neither, or in protobuf that can't be read: see [`Informer::catches_up`].
    pub fn deleted(
        &self,
        informer: &Informer,
        (namespace, name): (&str, &str),
        before: Option<&Object>,
        answer: &Answer,
    ) -> Result<(), DecodeError> {
        let core = informer.core();
        let (uid, version) = if answer.is_status() {
            (status_uid(answer)?, None)
        } else {
            let object = core.decode(answer)?;
            if object.is_deleting() && (!object.is_gone() || is_held_by_spec(core, answer)?) {
                return self.written(informer, answer).map(drop);
            }
            (Some(object.uid.clone()), Some(object.resource_version))
        };
        let known = self.known(core, namespace, name, uid.as_ref());
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
            Entry::Gone {
                after,
                since: Instant::now(),
            },
        );
        Ok(())
    }

    /// The newest version known of an object by its UID or else its name, here or in the cache.
    fn known(
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
                        .filter(|entry| !matches!(entry, Entry::Gone { .. }));
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

    /// Puts an entry in, unless the cache or the overlay knows better. What is gone stays gone.
    fn put(&self, core: &Arc<Core>, uid: Uid, entry: Entry) {
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

    /// Drops what the reflector has passed, and answers how many entries are left. Reads never need this; it frees memory.
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

/// Whether an object is held by finalizers of its spec, as namespaces are besides those of their metadata; or may be, where
/// the answer has no spec: then it is the reflector that tells when it goes.
fn is_held_by_spec(core: &Core, answer: &Answer) -> Result<bool, DecodeError> {
    if answer.is_metadata() {
        return Ok(core.resource.kind.kind == "Namespace");
    }
    let finalizers = FieldPath::of_fields(&["spec", "finalizers"]);
    let json = answer.json(&[finalizers.clone()].iter().collect())?;
    Ok(!finalizers.strings(&json).is_empty())
}

/// The UID that a Status names, if it does.
fn status_uid(status: &Answer) -> Result<Option<Uid>, DecodeError> {
    let uid = FieldPath::of_fields(&["details", "uid"]);
    let json = status.json(&[uid.clone()].iter().collect())?;
    Ok(uid
        .strings(&json)
        .first()
        .filter(|uid| !uid.is_empty())
        .map(|uid| Uid::new(uid)))
}
