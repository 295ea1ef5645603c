//! Decodes the server's responses into objects: pages of lists, events of watches, and responses to
//! writes.
//!
//! JSON is decoded in one pass, which prunes an object to the mask and collects the metadata that
//! indexes need. Protobuf is transcoded to JSON first, without the fields that the mask drops
//! (`protobuf.rs`).

use std::fmt;
use std::sync::Arc;

use flyball_types::{Mask, MetadataSink, Node, Prune, Text, reader};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::acknowledged::Acknowledged;
use crate::intern::Interner;
use crate::protobuf::{self, Envelope, Frame, List, ProtobufError, Transcoder};
use crate::{Object, SourceError, Uid};

/// Bytes that are not a valid response of the API server. A retry can't help.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The body is not valid JSON of the expected shape.
    #[error("can't decode the JSON that the API server sent: {0}")]
    Json(String),
    /// The body is not valid protobuf, or is protobuf of a later release. JSON may be decodable.
    #[error("can't decode the protobuf that the API server sent: {0}")]
    Protobuf(String),
}

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

impl From<ProtobufError> for DecodeError {
    fn from(error: ProtobufError) -> Self {
        Self::Protobuf(error.to_string())
    }
}

impl DecodeError {
    /// The error for JSON that was transcoded from protobuf.
    fn into_protobuf(self) -> Self {
        let (Self::Json(text) | Self::Protobuf(text)) = self;
        Self::Protobuf(text)
    }
}

/// A page of a list.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) resource_version: u64,
    /// The token of the next page; empty for the last page.
    pub(crate) next: String,
}

/// An event of a watch.
#[derive(Debug)]
pub(crate) enum Event {
    /// ADDED or MODIFIED.
    Upsert(Arc<Object>),
    /// DELETED, with the final state of the object.
    Delete(Arc<Object>),
    Bookmark {
        resource_version: u64,
        /// Whether the initial objects of a streamed list are complete.
        initial_end: bool,
    },
    Error(SourceError),
}

/// Decodes the responses for one informer.
pub(crate) struct Decoder<'a> {
    pub(crate) mask: &'a Arc<Mask>,
    pub(crate) interner: &'a Mutex<Interner>,
    pub(crate) acknowledged: &'a Acknowledged,
    /// A buffer for pruned objects, whose size is not known in advance.
    pub(crate) scratch: &'a mut Vec<u8>,
}

impl Decoder<'_> {
    pub(crate) fn page(&mut self, body: &[u8]) -> Result<Page, DecodeError> {
        if protobuf::is_object(body) {
            return self
                .list(&List::open(body)?)
                .map_err(DecodeError::into_protobuf);
        }
        let mut input = reader(body)?;
        let page = (&mut input).deserialize_map(PageVisitor(self))?;
        input.end()?;
        Ok(page)
    }

    /// Decodes the whole events of a watch.
    pub(crate) fn events(&mut self, stream: &[u8]) -> Result<Vec<Event>, DecodeError> {
        if protobuf::is_frame(stream) {
            return self.frames(stream).map_err(DecodeError::into_protobuf);
        }
        let mut events = Vec::new();
        let mut input = reader(stream)?;
        while input.end().is_err() {
            events.push((&mut input).deserialize_map(EventVisitor(self))?);
        }
        Ok(events)
    }

    /// Decodes the object in the response to a write.
    pub(crate) fn response(&mut self, body: &[u8]) -> Result<Arc<Object>, DecodeError> {
        if !protobuf::is_object(body) {
            return self.object(body);
        }
        self.enveloped(&mut Transcoder::default(), body)
            .map_err(DecodeError::into_protobuf)
    }

    pub(crate) fn object(&mut self, json: &[u8]) -> Result<Arc<Object>, DecodeError> {
        let mut input = reader(json)?;
        let object = ObjectSeed(self).deserialize(&mut input)?;
        input.end()?;
        Ok(object)
    }
}

/// Protobuf.
impl Decoder<'_> {
    fn list(&mut self, list: &List<'_>) -> Result<Page, DecodeError> {
        let mut transcoder = Transcoder::default();
        let mut page = Page {
            next: list.next.into(),
            ..Page::default()
        };
        page.resource_version = version(list.resource_version).map_err(DecodeError::Protobuf)?;
        for raw in &list.items {
            page.objects
                .push(self.message(&mut transcoder, &list.kind, raw)?);
        }
        Ok(page)
    }

    fn frames(&mut self, mut stream: &[u8]) -> Result<Vec<Event>, DecodeError> {
        let mut transcoder = Transcoder::default();
        let mut events = Vec::new();
        let has_acknowledged = !self.acknowledged.is_empty();
        while !stream.is_empty() {
            let (Frame { event_type, object }, rest) = Frame::open(stream)?;
            stream = rest;
            events.push(match event_type {
                "ADDED" | "MODIFIED" => {
                    let envelope = Envelope::open(object)?;
                    let known = if has_acknowledged {
                        self.acknowledged(&envelope)?
                    } else {
                        None
                    };
                    Event::Upsert(match known {
                        Some(known) => known,
                        None => self.message(&mut transcoder, &envelope.kind, envelope.raw)?,
                    })
                }
                // Not taken from the acknowledged versions: an object that left the scope has its
                // state from before, with the version at which it left.
                "DELETED" => Event::Delete(self.enveloped(&mut transcoder, object)?),
                "ERROR" => Event::Error(SourceError::from_status(0, object, None)),
                _ => {
                    let json = protobuf::to_json(object, &Node::All)?;
                    self.event(event_type, &json)
                        .map_err(DecodeError::Protobuf)?
                }
            });
        }
        Ok(events)
    }

    /// The object, if it was decoded already from the response to a write.
    fn acknowledged(&self, envelope: &Envelope<'_>) -> Result<Option<Arc<Object>>, ProtobufError> {
        let (uid, version) = envelope.uid_and_version()?;
        Ok(self.acknowledged.get(uid, version, self.mask))
    }

    fn enveloped<'a>(
        &mut self,
        transcoder: &mut Transcoder<'a>,
        object: &'a [u8],
    ) -> Result<Arc<Object>, DecodeError> {
        let Envelope { kind, raw } = Envelope::open(object)?;
        self.message(transcoder, &kind, raw)
    }

    fn message<'a>(
        &mut self,
        transcoder: &mut Transcoder<'a>,
        kind: &str,
        raw: &'a [u8],
    ) -> Result<Arc<Object>, DecodeError> {
        self.scratch.clear();
        transcoder.object(
            kind,
            raw,
            self.mask.root(),
            Some(Metadata::collects),
            self.scratch,
        )?;
        let mut metadata = Metadata::default();
        for (field, json) in transcoder.collected(self.scratch) {
            metadata
                .take(field, flyball_types::read(json)?)
                .map_err(DecodeError::Protobuf)?;
        }
        let object = metadata.into_object(self.interner, self.mask, self.scratch);
        object.map(Arc::new).map_err(DecodeError::Protobuf)
    }
}

/// The fields of `metadata` that an [`Object`] has, as JSON.
#[derive(Default)]
struct Metadata<'a> {
    name: Option<&'a RawValue>,
    namespace: Option<&'a RawValue>,
    uid: Option<&'a RawValue>,
    resource_version: Option<&'a RawValue>,
    generation: Option<&'a RawValue>,
    labels: Option<&'a RawValue>,
    owners: Option<&'a RawValue>,
    finalizers: Option<&'a RawValue>,
    deletion: Option<&'a RawValue>,
    grace: Option<&'a RawValue>,
}

impl<'a> Metadata<'a> {
    /// Whether a field of `metadata` is collected.
    fn collects(field: &str) -> bool {
        Self::default().slot(field).is_some()
    }

    fn slot(&mut self, field: &str) -> Option<&mut Option<&'a RawValue>> {
        Some(match field {
            "name" => &mut self.name,
            "namespace" => &mut self.namespace,
            "uid" => &mut self.uid,
            "resourceVersion" => &mut self.resource_version,
            "generation" => &mut self.generation,
            "labels" => &mut self.labels,
            "ownerReferences" => &mut self.owners,
            "finalizers" => &mut self.finalizers,
            "deletionTimestamp" => &mut self.deletion,
            "deletionGracePeriodSeconds" => &mut self.grace,
            _ => return None,
        })
    }

    fn into_object(
        self,
        interner: &Mutex<Interner>,
        mask: &Arc<Mask>,
        json: &[u8],
    ) -> Result<Object, String> {
        let text = |raw: Option<&'a RawValue>| raw.and_then(Text::of_raw);
        let name = text(self.name)
            .filter(|name| !name.is_empty())
            .ok_or("metadata.name is missing")?;
        let namespace = text(self.namespace);
        let namespace = namespace.as_deref().unwrap_or("");
        let uid = match text(self.uid) {
            Some(uid) if !uid.is_empty() => Uid::new(&uid),
            // Some aggregated servers assign no UIDs: then the name is the identity.
            _ => Uid::new(&format!("{namespace}/{}", &*name)),
        };
        let version = text(self.resource_version).ok_or("metadata.resourceVersion is missing")?;
        let resource_version = version
            .parse()
            .map_err(|_| format!("the resource version {:?} is not a number", &*version))?;
        let finalizers = match self.finalizers {
            None => 0,
            Some(raw) => serde_json::from_str::<Option<Vec<IgnoredAny>>>(raw.get())
                .map_err(|error| format!("finalizers: {error}"))?
                .map_or(0, |list| u16::try_from(list.len()).unwrap_or(u16::MAX)),
        };
        let number = |raw: Option<&RawValue>| {
            raw.and_then(|raw| raw.get().parse::<i64>().ok())
                .unwrap_or(0)
        };
        let mut interner = interner.lock();
        Ok(Object {
            namespace: interner.text(namespace),
            name: (&*name).into(),
            uid,
            resource_version,
            generation: number(self.generation),
            labels: interner.labels(self.labels)?,
            owners: interner.owners(self.owners)?,
            finalizers,
            deleting: self.deletion.is_some_and(|raw| raw.get() != "null"),
            grace: number(self.grace) > 0,
            mask: Arc::clone(mask),
            json: json.into(),
            row: Mutex::default(),
        })
    }
}

impl<'a> MetadataSink<'a> for Metadata<'a> {
    fn wants(&self, field: &str) -> bool {
        Metadata::collects(field)
    }

    fn take(&mut self, field: &str, value: &'a RawValue) -> Result<(), String> {
        if let Some(slot) = self.slot(field) {
            *slot = Some(value);
        }
        Ok(())
    }
}

/// Prunes one object.
struct ObjectSeed<'s, 'a>(&'s mut Decoder<'a>);

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

fn version(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("the resource version {text:?} is not a number"))
}

struct PageVisitor<'s, 'a>(&'s mut Decoder<'a>);

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

struct EventVisitor<'s, 'a>(&'s mut Decoder<'a>);

impl<'de> Visitor<'de> for EventVisitor<'_, '_> {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event of a watch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
        let decoder = self.0;
        let mut event_type = None;
        let mut event = None;
        // The object, if its type comes after it or is not a change.
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
    fn event(&mut self, event_type: &str, json: &[u8]) -> Result<Event, String> {
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

#[cfg(test)]
mod tests {
    use flyball_types::Labels;

    use super::*;
    use crate::protobuf::samples::{field, frame, object};

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"01234567-89ab-cdef-0123-456789abcdef","resourceVersion":"7","generation":3,"labels":{"app":"web"},"finalizers":["x"],"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30,"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u","controller":true}]},"spec":{"nodeName":"m"}}"#;

    fn with<T>(mask: &[&str], decode: impl FnOnce(&mut Decoder<'_>) -> T) -> T {
        let mask = Arc::new(Mask::parse(mask).unwrap());
        let (interner, acknowledged) = (&Mutex::new(Interner::new()), &Acknowledged::default());
        decode(&mut Decoder {
            mask: &mask,
            interner,
            acknowledged,
            scratch: &mut Vec::new(),
        })
    }

    fn event_of(decoder: &mut Decoder<'_>, json: &[u8]) -> Result<Event, DecodeError> {
        decoder.events(json).map(|mut events| events.pop().unwrap())
    }

    #[test]
    fn metadata_is_collected_even_if_the_mask_drops_it() {
        let object = with(&["spec"], |decoder| decoder.object(POD.as_bytes())).unwrap();
        assert_eq!(
            (
                object.namespace(),
                object.name(),
                object.resource_version(),
                object.generation()
            ),
            ("n", "a", 7, 3)
        );
        assert_eq!(object.labels().label("app"), Some("web"));
        let owner = object.controller().unwrap();
        assert_eq!(
            (&*owner.name, owner.kind.to_string(), &owner.uid),
            ("r", "apps/v1/ReplicaSet".into(), &Uid::new("u"))
        );
        assert!(object.is_deleting() && !object.is_removed() && object.finalizers() == 1);
        let json = r#"{"metadata":{"name":"a","namespace":"n","uid":"01234567-89ab-cdef-0123-456789abcdef","resourceVersion":"7"},"spec":{"nodeName":"m"}}"#;
        assert_eq!(std::str::from_utf8(object.json()), Ok(json));
    }

    #[test]
    fn an_acknowledged_version_is_not_decoded_again() {
        let of = |version: &[u8]| {
            let metadata = [field(1, b"a"), field(5, b"u"), field(6, version)].concat();
            object("v1", "Pod", &field(1, &metadata))
        };
        with(&["spec"], |decoder| {
            let written = decoder.response(&of(b"7")).unwrap();
            decoder.acknowledged.put(written.clone());
            let stream = [
                frame("ADDED", &of(b"7")),
                frame("MODIFIED", &of(b"8")),
                frame("DELETED", &of(b"7")),
            ]
            .concat();
            let events = decoder.events(&stream).unwrap();
            let [
                Event::Upsert(same),
                Event::Upsert(later),
                Event::Delete(deleted),
            ] = &events[..]
            else {
                panic!("{events:?}");
            };
            assert!(Arc::ptr_eq(same, &written) && !Arc::ptr_eq(deleted, &written));
            assert_eq!((later.resource_version(), later.name()), (8, "a"));
        });
    }

    #[test]
    fn pages_and_events_are_decoded() {
        with(&[], |decoder| {
            let list = format!(
                r#"{{"items":[{POD},{POD}],"metadata":{{"resourceVersion":"9","continue":"t"}}}}"#
            );
            let page = decoder.page(list.as_bytes()).unwrap();
            assert_eq!(
                (page.objects.len(), page.resource_version, &*page.next),
                (2, 9, "t")
            );
            let empty = decoder
                .page(br#"{"metadata":{"resourceVersion":"9"},"items":null}"#)
                .unwrap();
            assert!(empty.objects.is_empty());
            for (event, upsert) in [
                (format!(r#"{{"type":"ADDED","object":{POD}}}"#), true),
                (format!(r#"{{"object":{POD},"type":"MODIFIED"}}"#), true),
                (format!(r#"{{"type":"DELETED","object":{POD}}}"#), false),
            ] {
                match event_of(decoder, event.as_bytes()).unwrap() {
                    Event::Upsert(object) => assert!(upsert && object.name() == "a"),
                    Event::Delete(object) => assert!(!upsert && object.name() == "a"),
                    other => panic!("{other:?}"),
                }
            }
            let bookmark = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
            assert!(matches!(
                event_of(decoder, bookmark),
                Ok(Event::Bookmark {
                    resource_version: 12,
                    initial_end: true
                })
            ));
            let two = decoder
                .events(&[&bookmark[..], b"\n", bookmark, b"\n"].concat())
                .unwrap();
            assert_eq!(two.len(), 2);
            let error = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}"#;
            assert!(
                matches!(event_of(decoder, error), Ok(Event::Error(error)) if error.is_expired())
            );
        });
    }

    #[test]
    fn an_object_without_a_name_or_a_version_is_refused() {
        with(&[], |decoder| {
            for json in [
                r#"{"metadata":{"name":"a","resourceVersion":"x"}}"#,
                r#"{"metadata":{"resourceVersion":"1"}}"#,
                "[]",
            ] {
                assert!(decoder.object(json.as_bytes()).is_err());
            }
            assert!(event_of(decoder, br#"{"type":"NEW","object":{}}"#).is_err());
            assert!(decoder.page(br#"{"items":[]}"#).is_err());
        });
    }

    #[test]
    fn equal_labels_and_owners_are_shared() {
        with(&[], |decoder| {
            let (one, two) = (
                decoder.object(POD.as_bytes()).unwrap(),
                decoder.object(POD.as_bytes()).unwrap(),
            );
            assert!(
                Arc::ptr_eq(&one.labels.0, &two.labels.0) && Arc::ptr_eq(&one.owners, &two.owners)
            );
        });
    }
}
