//! Pages, events and objects in protobuf.

use std::sync::Arc;

use flyball_types::{MetadataSink, Node};

use super::metadata::Metadata;
use super::{Decoder, Event, Page, version};
use crate::protobuf::{self, Envelope, Frame, List, ProtobufError, Transcoder};
use crate::{DecodeError, Object, SourceError};

impl Decoder<'_> {
    pub(super) fn list(&mut self, list: &List<'_>) -> Result<Page, DecodeError> {
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

    pub(super) fn frames(&mut self, mut stream: &[u8]) -> Result<Vec<Event>, DecodeError> {
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
                // Not taken from the acknowledged versions: an object that left the scope has its state from before,
                // with the version at which it left.
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

    pub(super) fn enveloped<'a>(
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
