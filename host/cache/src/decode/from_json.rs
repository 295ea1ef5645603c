//! Pages, events and objects in JSON.

use std::fmt;
use std::sync::Arc;

use flyball_types::{Prune, Text};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::metadata::Metadata;
use super::{Decoder, Event, Page, version};
use crate::{Object, SourceError};

/// Prunes one object.
pub(super) struct ObjectSeed<'s, 'a>(pub(super) &'s mut Decoder<'a>);

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_, '_> {
    type Value = Arc<Object>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        let mut metadata = Metadata::default();
        self.0.scratch.clear();
        Prune::new(self.0.mask, self.0.scratch, &mut metadata).deserialize(input)?;
        metadata
            .into_object(self.0.interner, self.0.mask, self.0.scratch)
            .map(Arc::new)
            .map_err(serde::de::Error::custom)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata<'a> {
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    #[serde(borrow, rename = "continue")]
    next: Option<Text<'a>>,
}

pub(super) struct PageVisitor<'s, 'a>(pub(super) &'s mut Decoder<'a>);

impl<'de> Visitor<'de> for PageVisitor<'_, '_> {
    type Value = Page;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of the API")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Page, A::Error> {
        let mut page = Page::default();
        let mut has_version = false;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key {
                "metadata" => {
                    let metadata: ListMetadata<'de> = map.next_value()?;
                    let text = metadata.resource_version.as_deref().unwrap_or_default();
                    page.resource_version = version(text).map_err(serde::de::Error::custom)?;
                    page.next = metadata
                        .next
                        .map(|next| next.0.into_owned())
                        .unwrap_or_default();
                    has_version = true;
                }
                "items" => page.objects = map.next_value_seed(Items(self.0))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if has_version {
            Ok(page)
        } else {
            Err(serde::de::Error::custom("the list has no metadata"))
        }
    }
}

struct Items<'s, 'a>(&'s mut Decoder<'a>);

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = Vec<Arc<Object>>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = Vec<Arc<Object>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list's items")
    }

    /// Go writes a nil slice as `null`.
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut objects = Vec::new();
        while let Some(object) = seq.next_element_seed(ObjectSeed(self.0))? {
            objects.push(object);
        }
        Ok(objects)
    }
}

pub(super) struct EventVisitor<'s, 'a>(pub(super) &'s mut Decoder<'a>);

impl<'de> Visitor<'de> for EventVisitor<'_, '_> {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event of a watch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
        let decoder = self.0;
        let mut event_type = None;
        let mut event = None;
        // An object that precedes its type, or whose type is neither ADDED nor MODIFIED.
        let mut deferred = None;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match (&*key, event_type.as_deref()) {
                ("type", _) => event_type = Some(map.next_value::<Text<'de>>()?),
                ("object", Some("ADDED" | "MODIFIED")) => {
                    event = Some(Event::Upsert(map.next_value_seed(ObjectSeed(decoder))?));
                }
                ("object", Some("DELETED")) => {
                    event = Some(Event::Delete(map.next_value_seed(ObjectSeed(decoder))?))
                }
                ("object", _) => deferred = Some(map.next_value::<&'de RawValue>()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if let Some(event) = event {
            return Ok(event);
        }
        let (Some(event_type), Some(object)) = (event_type, deferred) else {
            return Err(serde::de::Error::custom(
                "the event has no type or no object",
            ));
        };
        decoder
            .event(&event_type, object.get().as_bytes())
            .map_err(serde::de::Error::custom)
    }
}

impl Decoder<'_> {
    /// Decodes an event whose type and object are known.
    pub(super) fn event(&mut self, event_type: &str, json: &[u8]) -> Result<Event, String> {
        match event_type {
            "ADDED" | "MODIFIED" => self
                .object(json)
                .map(Event::Upsert)
                .map_err(|error| error.to_string()),
            "DELETED" => self
                .object(json)
                .map(Event::Delete)
                .map_err(|error| error.to_string()),
            "BOOKMARK" => bookmark(json),
            "ERROR" => Ok(Event::Error(SourceError::from_status(0, json, None))),
            _ => Err(format!("unknown type of event {event_type:?}")),
        }
    }
}

fn bookmark(json: &[u8]) -> Result<Event, String> {
    #[derive(Deserialize)]
    struct Bookmark<'a> {
        #[serde(borrow)]
        metadata: BookmarkMetadata<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BookmarkMetadata<'a> {
        #[serde(borrow)]
        resource_version: Option<Text<'a>>,
        #[serde(borrow, default)]
        annotations: Option<std::collections::BTreeMap<Text<'a>, Text<'a>>>,
    }
    let Bookmark { metadata } = flyball_types::read(json).map_err(|error| error.to_string())?;
    let mut annotations = metadata.annotations.iter().flatten();
    let initial_end =
        annotations.any(|(key, value)| &**key == "k8s.io/initial-events-end" && &**value == "true");
    let resource_version = version(metadata.resource_version.as_deref().unwrap_or_default())?;
    Ok(Event::Bookmark {
        resource_version,
        initial_end,
    })
}
