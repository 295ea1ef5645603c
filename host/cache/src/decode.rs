//! Decodes the server's responses into objects: pages of lists, events of watches, and responses to writes.
//!
//! JSON is decoded in one pass, which prunes an object to the mask (`decode/from_json.rs`) and collects the metadata
//! that indexes need (`decode/metadata.rs`). Protobuf is transcoded to JSON first, without the fields that the mask
//! drops (`decode/from_protobuf.rs`).

mod from_json;
mod from_protobuf;
mod metadata;

use std::sync::Arc;

use flyball_types::{Mask, reader};
use parking_lot::Mutex;
use serde::de::{DeserializeSeed, Deserializer};

use crate::acknowledged::Acknowledged;
use crate::intern::Interner;
use crate::protobuf::{self, List, Transcoder};
use crate::{DecodeError, Object, SourceError};
use from_json::{EventVisitor, ObjectSeed, PageVisitor};

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
        /// Whether the bookmark ends the initial objects of a streamed list.
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

impl Object {
    /// Parses one object with all its fields, outside a cache. For tests and tools.
    ///
    /// # Errors
    /// The text is not the JSON of an API object.
    pub fn parse(json: &[u8]) -> Result<Arc<Self>, DecodeError> {
        let (mask, interner) = (Arc::new(Mask::whole()), Mutex::new(Interner::new()));
        let acknowledged = &Acknowledged::default();
        Decoder {
            mask: &mask,
            interner: &interner,
            acknowledged,
            scratch: &mut Vec::new(),
        }
        .object(json)
    }
}

fn version(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("the resource version {text:?} is not a number"))
}

#[cfg(test)]
mod tests {
    use flyball_types::Labels;

    use super::*;
    use crate::Uid;
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
