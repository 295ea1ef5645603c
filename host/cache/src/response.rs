//! A response of the API server: an object or a Status, in JSON or in protobuf.

mod type_meta;

use bytes::Bytes;
use flyball_types::Mask;
use kube::core::Status;
use serde::Deserialize;

use self::type_meta::TypeMeta;
use crate::Uid;
use crate::object::ObjectVersion;
use crate::protobuf::{self, Envelope, ProtobufError, Transcoder};

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
    pub(crate) fn into_protobuf(self) -> Self {
        let (Self::Json(text) | Self::Protobuf(text)) = self;
        Self::Protobuf(text)
    }
}

/// A response body whose kind is known. The rest is decoded on demand.
#[derive(Clone, Debug)]
pub struct ApiResponse {
    body: Bytes,
    kind: String,
}

impl ApiResponse {
    pub fn new(body: Bytes) -> Self {
        let kind = if protobuf::is_object(&body) {
            Envelope::open(&body)
                .map(|envelope| envelope.kind)
                .unwrap_or_default()
        } else {
            let TypeMeta { api_version, kind } = TypeMeta::of(&body);
            format!("{api_version}/{kind}")
        };
        Self { body, kind }
    }

    /// The kind in the body, as in `apps/v1/Deployment`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether the body is only the metadata of an object.
    pub fn is_metadata(&self) -> bool {
        self.kind.ends_with("/PartialObjectMetadata")
    }

    /// Whether the body is a Status instead of an object.
    pub fn is_status(&self) -> bool {
        self.kind == "v1/Status"
    }

    /// The body as a Status; `None` if it can't be parsed, such as a proxy's error page. For any other object, the
    /// Status is empty.
    pub fn status(&self) -> Option<Status> {
        serde_json::from_slice(&self.json(&Mask::whole()).ok()?).ok()
    }

    /// The identity and the version of the object.
    ///
    /// # Errors
    /// The body is not an object.
    pub fn object_version(&self) -> Result<ObjectVersion, DecodeError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Object {
            metadata: ObjectVersion,
        }
        if protobuf::is_object(&self.body) {
            return Ok(Envelope::open(&self.body)?.object_version()?);
        }
        Ok(flyball_types::read::<Object>(&self.body)?.metadata)
    }

    /// The UID and the resource version, if they can be read without decoding the rest.
    pub(crate) fn uid_and_version(&self) -> Option<(Uid, u64)> {
        if !protobuf::is_object(&self.body) {
            return None;
        }
        let envelope = Envelope::open(&self.body).ok()?;
        let (uid, version) = envelope.uid_and_version().ok()?;
        Some((Uid::new(uid), version.parse().ok()?))
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body as JSON, with at least the fields that a mask keeps. A JSON body is returned unchanged.
    ///
    /// # Errors
    /// The body is protobuf that can't be decoded, such as that of a later release.
    pub fn json(&self, mask: &Mask) -> Result<Bytes, DecodeError> {
        if !protobuf::is_object(&self.body) {
            return Ok(self.body.clone());
        }
        let Envelope { kind: typed, raw } = Envelope::open(&self.body)?;
        let (api_version, kind) = typed.rsplit_once('/').unwrap_or(("", &typed));
        let mut json = Vec::with_capacity(self.body.len());
        json.extend_from_slice(
            format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}""#).as_bytes(),
        );
        let types = json.len();
        Transcoder::default().object(&typed, raw, mask.root(), None, &mut json)?;
        // Join the type and the fields into one JSON object.
        if json[types..] == *b"{}" {
            json.remove(types);
        } else {
            json[types] = b',';
        }
        Ok(json.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_and_the_status_are_read_in_both_forms() {
        let json = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"reason":"Conflict"}"#;
        let protobuf = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x0c\x0a\x00\x22\x08Conflict";
        for body in [json.as_bytes(), protobuf] {
            let response = ApiResponse::new(Bytes::copy_from_slice(body));
            assert!(
                response.is_status() && !response.is_metadata(),
                "{response:?}"
            );
            assert_eq!(response.json(&Mask::whole()).unwrap(), json);
            assert!(response.status().unwrap().is_conflict());
        }
        assert_eq!(
            ApiResponse::new(Bytes::from_static(b"<html>")).status(),
            None
        );
        assert_eq!(ApiResponse::new(Bytes::from_static(b"<html>")).kind(), "/");
        assert!(
            ApiResponse::new(Bytes::from_static(b"k8s\0x"))
                .json(&Mask::whole())
                .is_err()
        );
    }
}
