//! The listers of a plugin's caches, for two uses that types keep apart. A guest reads through a [`Readable`], which
//! only [`Listers::readable`] makes, after the check in `access.rs`. The host's own work (mappings, the bases of
//! updates, acknowledged writes) uses the listers themselves.

mod snapshot;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::{Informer, ListQuery, Lister, Projection, Uid, View};
use flyball_plugin::{Allowance, Cursor};
use flyball_policy::PluginPolicy;
use flyball_policy::access::{Read, access};
use flyball_types::{ALL_KINDS, ApiError, FieldPath, Kind, Mask};
use parking_lot::RwLock;

use crate::cached::SharedReads;
use crate::cached::views::RouteView;

use self::snapshot::{Numbered, Part, Snapshot};

/// The listers of one plugin.
pub(super) struct Listers {
    /// The listers of the kinds that the description names.
    named: HashMap<Kind, Vec<Lister>>,
    /// The listers of the kinds that its watches currently discover.
    discovered: RwLock<Arc<BTreeMap<Kind, Lister>>>,
    policy: Arc<PluginPolicy>,
    shared: SharedReads,
}

/// Listers that a guest may read. Only [`Listers::readable`] makes one.
pub(super) struct Readable<'a>(Cow<'a, [Lister]>);

impl Listers {
    /// Listers of these informers, in the namespaces of the policy.
    pub(super) fn new<'a>(
        policy: Arc<PluginPolicy>,
        shared: SharedReads,
        informers: impl IntoIterator<Item = &'a Informer>,
    ) -> Self {
        let mut listers = Self {
            named: HashMap::new(),
            discovered: RwLock::default(),
            policy,
            shared,
        };
        for informer in informers {
            listers.add(informer);
        }
        listers
    }

    /// Adds a lister of an informer's objects. Watches of the same objects share one, which shows the fields of all of
    /// them.
    fn add(&mut self, informer: &Informer) {
        let new = self.lister(informer);
        let of_kind = self.named.entry(informer.resource().kind.clone());
        let of_kind = of_kind.or_default();
        let same = of_kind
            .iter_mut()
            .find(|lister| lister.informer().scope() == informer.scope());
        match same.and_then(|same| Some((same.with_fields_of(&new)?, same))) {
            Some((both, same)) => *same = both,
            None => of_kind.push(new),
        }
    }

    /// Returns the listers of a kind for a guest's read with conditions on the fields `uses`.
    ///
    /// # Errors
    /// `Denied` if the plugin may not read the kind so, `Invalid` if it is not a kind.
    pub(super) fn readable(
        &self,
        kind: &str,
        uses: &[FieldPath],
    ) -> Result<Readable<'_>, ApiError> {
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
            return Ok(Readable(discovered.values().cloned().collect()));
        }
        let kind = super::parse(kind)?;
        let listers = self.of(&kind);
        check(&kind, !listers.is_empty())?;
        Ok(Readable(listers))
    }

    /// Returns the part of a watch's objects that the plugin's `route` may see.
    ///
    /// # Errors
    /// `Denied` if the plugin may not see them.
    pub(super) fn route_view(&self, informer: &Informer) -> Result<RouteView, ApiError> {
        let read = Read::Cached {
            kind: &informer.resource().kind,
            is_watched: true,
            uses: &[],
        };
        let access = access(&self.policy, read)?;
        Ok(RouteView::new(self.lister(informer), access))
    }

    /// Returns a lister of an informer's objects, with the fields of its watch, in the namespaces of the policy.
    pub(super) fn lister(&self, informer: &Informer) -> Lister {
        let view = View {
            mask: informer.mask().clone(),
            namespaces: self.policy.watched_namespaces(&informer.resource().kind),
        };
        Lister::new(informer.clone(), self.shared.overlay.reader(), view)
    }

    /// Replaces the informers of the discovered kinds.
    pub(super) fn discover(&self, informers: impl IntoIterator<Item = Informer>) {
        let known = self.discovered();
        let keep = |informer: Informer| {
            let kind = informer.resource().kind.clone();
            let lister = known.get(&kind).cloned();
            (kind, lister.unwrap_or_else(|| self.lister(&informer)))
        };
        let new = informers.into_iter().map(keep).collect();
        *self.discovered.write() = Arc::new(new);
    }

    /// Returns the listers of a kind for the host's own work; none if the plugin does not watch it.
    pub(super) fn of(&self, kind: &Kind) -> Cow<'_, [Lister]> {
        match self.named.get(kind) {
            Some(listers) => Cow::Borrowed(listers),
            None => self.discovered().get(kind).cloned().into_iter().collect(),
        }
    }

    /// Like [`of`](Self::of), for a kind that the description names; none for other kinds.
    pub(super) fn of_named(&self, kind: &Kind) -> Option<&[Lister]> {
        self.named.get(kind).map(Vec::as_slice)
    }

    /// Returns the listers of the kinds that the description names, for the host's own work.
    pub(super) fn named(&self) -> impl Iterator<Item = (&Kind, &Lister)> {
        self.named
            .iter()
            .flat_map(|(kind, all)| all.iter().map(move |lister| (kind, lister)))
    }

    /// Returns the listers of the discovered kinds, for the host's own work.
    pub(super) fn discovered(&self) -> Arc<BTreeMap<Kind, Lister>> {
        self.discovered.read().clone()
    }
}

impl Readable<'_> {
    /// Returns the object of that name, reduced to the mask; whole, as far as the plugin sees it, without one.
    pub(super) fn get(
        &self,
        namespace: &str,
        name: &str,
        mask: Option<&Arc<Mask>>,
    ) -> Result<Option<Bytes>, ApiError> {
        let mut listers = self.0.iter();
        let found = listers.find_map(|lister| Some((lister, lister.get(namespace, name)?)));
        let Some((lister, object)) = found else {
            return Ok(None);
        };
        let mut json = Vec::with_capacity(object.json().len());
        lister
            .project(&object, mask, &mut json)
            .map_err(|error| ApiError::denied(error.to_string()))?;
        Ok(Some(json.into()))
    }

    /// Returns how many objects match.
    pub(super) fn count(
        &self,
        query: &ListQuery,
        allowance: &Allowance,
    ) -> Result<usize, ApiError> {
        match &*self.0 {
            [lister] => lister.count_while(query, || allowance.check()),
            listers => {
                let mut uids: HashSet<Uid> = HashSet::new();
                for lister in listers {
                    let objects = lister.list_while(query, || allowance.check())?;
                    for object in allowance.each(&objects) {
                        uids.insert(object?.uid().clone());
                    }
                }
                Ok(uids.len())
            }
        }
    }

    /// Returns a snapshot of the objects that match, reduced by the projections of their listers. If it `names_kinds`,
    /// each object names its kind. A page has at most `answer_bytes`.
    pub(super) fn snapshot(
        &self,
        query: &ListQuery,
        names_kinds: bool,
        projection: impl Fn(&Lister) -> Result<Projection, ApiError>,
        answer_bytes: usize,
        allowance: &Allowance,
    ) -> Result<Box<dyn Cursor>, ApiError> {
        let mut found: Vec<Numbered> = Vec::new();
        let mut parts = Vec::new();
        for lister in allowance.each(self.0.iter()) {
            let lister = lister?;
            let objects = lister.find_while(query, || allowance.check())?;
            // If there are many kinds, most have no matching object.
            if !objects.is_empty() {
                let kind = names_kinds.then(|| lister.informer().resource().kind.clone());
                found.extend(objects.into_iter().map(|object| (parts.len(), object)));
                parts.push(Part {
                    projection: projection(lister),
                    kind,
                });
            }
        }
        // Several watches may show the same object.
        if parts.len() > 1 {
            let mut shown: HashSet<Uid> = HashSet::new();
            found.retain(|(_, object)| shown.insert(object.uid().clone()));
        }
        Ok(Box::new(Snapshot::new(found, parts, answer_bytes)))
    }
}
