//! What one plugin wrote and the server acknowledged, until the reflector has seen it: so the plugin's next read sees its
//! writes, without waiting. The writer fills it, listers read it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::core::{Core, State};
use crate::{DecodeError, Informer, Object, Uid};

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

/// The entries of each informer, by its number and the object's UID.
#[derive(Default)]
struct Informers {
    entries: HashMap<u64, (Arc<Core>, HashMap<Uid, Entry>)>,
    count: usize,
    /// At how many entries it is tidied by itself.
    tidy_at: usize,
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
    fn read(&self) -> RwLockReadGuard<'_, Informers> {
        self.informers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Informers> {
        self.informers.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entries of an informer, some of which the cache may have passed. To be asked before the cache is: what is
    /// missing here because it was passed is then there.
    pub(crate) fn entries(&self, core: &Core) -> Vec<(Uid, Entry)> {
        let informers = self.read();
        let entries = informers.entries.get(&core.id);
        entries.into_iter().flat_map(|(_, entries)| entries).map(|(uid, entry)| (uid.clone(), entry.clone())).collect()
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
        Self { overlay: Overlay { informers: Arc::default() } }
    }

    /// The end that listers read.
    pub fn reader(&self) -> Overlay {
        self.overlay.clone()
    }

    /// The server acknowledged a create, an update or a patch with this object, whole. To be called for each informer of
    /// the plugin that watches the object's kind, before the plugin is told; a version that the reflector has passed is
    /// left out. Only for answers that are the object itself, not those of `scale`, `eviction`, `binding` or `token`.
    ///
    /// # Errors
    /// The answer is not an object of the API.
    pub fn written(&self, informer: &Informer, answer: &[u8]) -> Result<(), DecodeError> {
        let core = informer.core();
        let object = core.decode(answer)?;
        let uid = object.uid.clone();
        let version = object.resource_version;
        let entry = if object.is_gone() && !is_held_by_spec(answer)? {
            Entry::Gone { after: Some(version), since: Instant::now() }
        } else if core.scope.contains(&object) {
            Entry::Written(object)
        } else {
            Entry::Left(version)
        };
        self.put(core, uid, entry);
        Ok(())
    }

    /// The server acknowledged a delete with this answer: a Status, or the object as it was or is now. Of a graceful
    /// delete the object stays, with its deletion timestamp; else it is hidden until the reflector sees it go.
    ///
    /// # Errors
    /// The answer is neither.
    pub fn deleted(&self, informer: &Informer, namespace: &str, name: &str, answer: &[u8]) -> Result<(), DecodeError> {
        let core = informer.core();
        let (uid, version) = match status_uid(answer)? {
            Some(uid) => (uid, None),
            None => {
                let object = core.decode(answer)?;
                if object.is_deleting() && (!object.is_gone() || is_held_by_spec(answer)?) {
                    return self.written(informer, answer);
                }
                (Some(object.uid.clone()), Some(object.resource_version))
            }
        };
        let known = self.known(core, namespace, name, uid.as_ref());
        let Some(uid) = uid.or(known.as_ref().map(|(uid, _)| uid.clone())) else { return Ok(()) };
        let after = version.max(known.filter(|(own, _)| *own == uid).map(|(_, version)| version));
        self.put(core, uid, Entry::Gone { after, since: Instant::now() });
        Ok(())
    }

    /// The newest version known of an object by its UID or else its name, here or in the cache.
    fn known(&self, core: &Core, namespace: &str, name: &str, uid: Option<&Uid>) -> Option<(Uid, u64)> {
        let mut known = Vec::new();
        for (own, entry) in self.overlay.entries(core) {
            let is_it = match (uid, &entry) {
                (Some(uid), _) => own == *uid,
                (None, Entry::Written(object)) => object.name() == name && object.namespace() == namespace,
                (None, _) => false,
            };
            if is_it && !matches!(entry, Entry::Gone { .. }) {
                known.push((own, entry.version()));
            }
        }
        let state = core.state();
        let cached = match uid {
            Some(uid) => state.indexer.by_uid(uid),
            None => state.indexer.get(namespace, name),
        };
        known.extend(cached.map(|object| (object.uid.clone(), object.resource_version)));
        known.into_iter().max_by_key(|(_, version)| *version)
    }

    /// Puts an entry in, unless the cache or the overlay knows better. What is gone stays gone.
    fn put(&self, core: &Arc<Core>, uid: Uid, entry: Entry) {
        if !entry.is_ahead(&uid, &core.state()) {
            return;
        }
        let mut informers = self.overlay.write();
        let (_, entries) = informers.entries.entry(core.id).or_insert_with(|| (Arc::clone(core), HashMap::new()));
        let is_new = match entries.get(&uid) {
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
        let mut informers = self.overlay.write();
        informers.tidy();
        informers.count
    }
}

impl Informers {
    fn tidy(&mut self) {
        self.entries.retain(|_, (core, entries)| {
            let state = core.state();
            entries.retain(|uid, entry| entry.is_ahead(uid, &state));
            !entries.is_empty()
        });
        self.count = self.entries.values().map(|(_, entries)| entries.len()).sum();
        self.tidy_at = 64.max(2 * self.count);
    }
}

/// Whether an object has finalizers in its spec, as namespaces have besides those of their metadata.
fn is_held_by_spec(answer: &[u8]) -> Result<bool, DecodeError> {
    let object: serde_json::Value = serde_json::from_slice(answer).map_err(|error| DecodeError(error.to_string()))?;
    Ok(object["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()))
}

/// The UID in a Status, which may have none; none of this if the answer is something else.
fn status_uid(answer: &[u8]) -> Result<Option<Option<Uid>>, DecodeError> {
    #[derive(Deserialize)]
    struct Answer {
        kind: Option<String>,
        details: Option<serde_json::Value>,
    }
    let Answer { kind, details } = serde_json::from_slice(answer).map_err(|error| DecodeError(error.to_string()))?;
    if kind.as_deref() != Some("Status") {
        return Ok(None);
    }
    let uid = details.as_ref().and_then(|details| details.get("uid")?.as_str());
    Ok(Some(uid.filter(|uid| !uid.is_empty()).map(Uid::new)))
}
