//! What the API server answers to a write: an object or a Status, in JSON or in protobuf.

mod type_meta;

use bytes::Bytes;
use flyball_types::Mask;
use kube::core::Status;
use serde::Deserialize;

use self::type_meta::TypeMeta;
use crate::protobuf::{self, Envelope, Transcoder};
use crate::{DecodeError, Uid};

/// An answer of which only what it is was read yet.
#[derive(Clone, Debug)]
pub struct Answer {
    body: Bytes,
    kind: String,
}

/// What of an object tells which one it is, in which version. Empty is what is not there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Head {
    /// Its name.
    pub name: String,
    /// The namespace that it is in.
    pub namespace: String,
    /// Its version.
    pub resource_version: String,
}

impl Answer {
    /// Of the body that came.
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

    /// What it says that it is, as in `apps/v1/Deployment`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether it is no more of an object than its metadata.
    pub fn is_metadata(&self) -> bool {
        self.kind.ends_with("/PartialObjectMetadata")
    }

    /// Whether it is not the object that was written, but says how that went.
    pub fn is_status(&self) -> bool {
        self.kind == "v1/Status"
    }

    /// The answer read as the Status that the server refuses with; none if it can't be, as where a proxy answers with a page.
    /// Of another object, its fields are empty.
    pub fn status(&self) -> Option<Status> {
        serde_json::from_slice(&self.json(&Mask::whole()).ok()?).ok()
    }

    /// Which object it is.
    ///
    /// # Errors
    /// It is no object, nor a Status.
    pub fn head(&self) -> Result<Head, DecodeError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Object {
            metadata: Head,
        }
        if protobuf::is_object(&self.body) {
            return Ok(Envelope::open(&self.body)?.head()?);
        }
        Ok(flyball_types::read::<Object>(&self.body)?.metadata)
    }

    /// Which version of which object it is, where that can be seen without reading the rest.
    pub(crate) fn version(&self) -> Option<(Uid, u64)> {
        if !protobuf::is_object(&self.body) {
            return None;
        }
        let envelope = Envelope::open(&self.body).ok()?;
        let (uid, version) = envelope.version().ok()?;
        Some((Uid::new(uid), version.parse().ok()?))
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The answer as JSON: at least what a mask keeps of it.
    ///
    /// # Errors
    /// It is protobuf of a later release, or none. What came as JSON is handed on unread.
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
        // One object of both.
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
    fn it_says_what_it_is_in_both_forms() {
        let json = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"reason":"Conflict"}"#;
        let protobuf = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x0c\x0a\x00\x22\x08Conflict";
        for body in [json.as_bytes(), protobuf] {
            let answer = Answer::new(Bytes::copy_from_slice(body));
            assert!(answer.is_status() && !answer.is_metadata(), "{answer:?}");
            assert_eq!(answer.json(&Mask::whole()).unwrap(), json);
            assert!(answer.status().unwrap().is_conflict());
        }
        assert_eq!(Answer::new(Bytes::from_static(b"<html>")).status(), None);
        assert_eq!(Answer::new(Bytes::from_static(b"<html>")).kind(), "/");
        assert!(
            Answer::new(Bytes::from_static(b"k8s\0x"))
                .json(&Mask::whole())
                .is_err()
        );
    }
}
