//! Shares one copy of the values that many objects have in common: namespaces, label sets and owners.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use flyball_types::{Kind, Text};
use foldhash::fast::RandomState;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::object::{LabelSet, OwnerReference, Uid};

/// The shared copies of one informer.
pub(crate) struct Interner {
    texts: Shared<str>,
    kinds: Shared<Kind>,
    owners: Shared<[OwnerReference]>,
    /// The `ownerReferences` that were parsed last, by a hash of their JSON. Changes of one owner's dependents arrive
    /// together, so most need not be parsed again.
    recent_owners: Vec<Option<(Box<str>, Owners)>>,
}

type Owners = Arc<[OwnerReference]>;

/// The size of `Interner::recent_owners`.
const RECENT_OWNERS: usize = 64;

/// A set of shared values. Values that nobody else holds are removed each time that the set has doubled.
struct Shared<T: ?Sized> {
    values: HashSet<Arc<T>, RandomState>,
    sweep_at: usize,
}

impl<T: ?Sized + Hash + Eq> Shared<T> {
    fn new() -> Self {
        Self {
            values: HashSet::default(),
            sweep_at: 256,
        }
    }

    fn get<Q: AsRef<T> + Into<Arc<T>>>(&mut self, value: Q) -> Arc<T> {
        if let Some(known) = self.values.get(value.as_ref()) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.values.shrink_to(self.sweep_at);
            self.sweep_at = 256.max(2 * self.values.len());
        }
        let value = value.into();
        self.values.insert(Arc::clone(&value));
        value
    }
}

/// An owned kind. An `Arc` is allocated for it only if the set doesn't have it yet.
struct Own(Kind);

impl AsRef<Kind> for Own {
    fn as_ref(&self) -> &Kind {
        &self.0
    }
}

impl From<Own> for Arc<Kind> {
    fn from(own: Own) -> Self {
        Arc::new(own.0)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    #[serde(borrow)]
    api_version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(default)]
    controller: Option<bool>,
    #[serde(default)]
    block_owner_deletion: Option<bool>,
}

impl Interner {
    pub(crate) fn new() -> Self {
        let recent_owners = std::iter::repeat_n(None, RECENT_OWNERS).collect();
        Self {
            texts: Shared::new(),
            kinds: Shared::new(),
            owners: Shared::new(),
            recent_owners,
        }
    }

    /// The shared copy of a text.
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.get(text)
    }

    /// The label set of the JSON of `metadata.labels`.
    pub(crate) fn labels(&mut self, raw: Option<&RawValue>) -> Result<LabelSet, String> {
        let text = raw.map_or("{}", RawValue::get);
        if let Some(known) = self.texts.values.get(text) {
            return Ok(LabelSet(Arc::clone(known)));
        }
        // Namespaces aside, only texts in the form of `LabelSet::new` are kept here, so a known text is a valid set.
        let labels: Option<BTreeMap<Text<'_>, Text<'_>>> =
            serde_json::from_str(text).map_err(|error| format!("labels: {error}"))?;
        let labels = LabelSet::new(
            labels
                .iter()
                .flatten()
                .map(|(key, value)| (&**key, &**value)),
        );
        Ok(LabelSet(self.texts.get(&*labels.0)))
    }

    /// The owners of the JSON of `metadata.ownerReferences`.
    pub(crate) fn owners(&mut self, raw: Option<&RawValue>) -> Result<Owners, String> {
        let text = raw.map_or("null", RawValue::get);
        let place = self.texts.values.hasher().hash_one(text) as usize % RECENT_OWNERS;
        if let Some((known, owners)) = &self.recent_owners[place]
            && **known == *text
        {
            return Ok(Arc::clone(owners));
        }
        let owners = self.parse_owners(text)?;
        self.recent_owners[place] = Some((text.into(), Arc::clone(&owners)));
        Ok(owners)
    }

    fn parse_owners(&mut self, text: &str) -> Result<Owners, String> {
        let references: Option<Vec<Reference<'_>>> =
            serde_json::from_str(text).map_err(|error| format!("ownerReferences: {error}"))?;
        let owners: Vec<OwnerReference> = references
            .into_iter()
            .flatten()
            .map(|own| OwnerReference {
                uid: Uid::new(&own.uid),
                kind: self
                    .kinds
                    .get(Own(Kind::of_object(&own.api_version, &own.kind))),
                name: (&*own.name).into(),
                controller: own.controller.unwrap_or(false),
                block_owner_deletion: own.block_owner_deletion.unwrap_or(false),
            })
            .collect();
        Ok(self.owners.get(owners))
    }
}
