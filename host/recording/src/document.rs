//! Documents in recordings. A document is JSON in its place, byte for byte, so that people can read it and a guest gets
//! the bytes that it got then. Other bytes are `{"$base64": "…"}`.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Malformed;

/// The only member of the object that stands for bytes which are not JSON.
pub(crate) const BASE64: &str = "$base64";

/// Bytes that crossed the boundary, most of them JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped<'a> {
    #[serde(rename = "$base64", borrow)]
    base64: Cow<'a, str>,
}

impl Document {
    /// Returns the document as it stands in a recording.
    pub fn embed(bytes: &[u8]) -> Box<RawValue> {
        let json = std::str::from_utf8(bytes).ok().filter(|text| {
            // A recording has one line for each call.
            text.trim() == *text && !text.contains(['\n', '\r']) && !is_wrapped(text)
        });
        json.and_then(|text| RawValue::from_string(text.to_owned()).ok())
            .unwrap_or_else(|| {
                let base64 = STANDARD.encode(bytes).into();
                serde_json::value::to_raw_value(&Wrapped { base64 }).expect("it is JSON")
            })
    }

    /// Returns the bytes of a document in a recording.
    ///
    /// # Errors
    /// It is an object with the member `$base64` that is not Base64.
    pub fn extract(embedded: &RawValue) -> Result<Vec<u8>, Malformed> {
        let text = embedded.get();
        if !is_wrapped(text) {
            return Ok(text.as_bytes().to_vec());
        }
        let wrapped: Wrapped<'_> = serde_json::from_str(text)?;
        let decoded = STANDARD.decode(&*wrapped.base64);
        decoded.map_err(|error| Malformed(format!("`{BASE64}` holds no Base64: {error}")))
    }

    /// Returns the document as a value that can be compared: two documents with the same content are equal, whatever
    /// their blanks and the order of their members.
    pub fn value(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap_or_else(|_| {
            Value::Object(
                [(BASE64.to_owned(), STANDARD.encode(bytes).into())]
                    .into_iter()
                    .collect(),
            )
        })
    }
}

/// Whether a JSON text is an object whose first member is `$base64`.
fn is_wrapped(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix('{').map(str::trim_start);
    inside.is_some_and(|inside| inside.starts_with("\"$base64\""))
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::embed(&self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let embedded = Box::<RawValue>::deserialize(deserializer)?;
        Self::extract(&embedded).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn back(bytes: &[u8]) -> Vec<u8> {
        let embedded = Document::embed(bytes);
        assert!(!embedded.get().contains('\n'), "{}", embedded.get());
        Document::extract(&embedded).unwrap()
    }

    #[test]
    fn json_stands_in_its_place_and_other_bytes_are_base64() {
        for json in ["{\"b\": 1,\"a\":[1.0, 1e2]}", "null", "\"a\\nb\"", "7"] {
            assert_eq!(Document::embed(json.as_bytes()).get(), json);
        }
        for other in [
            "",
            " 1",
            "1 ",
            "{\n}",
            "{",
            "{\"$base64\":\"AA==\"}",
            "{ \"$base64\": 1}",
        ] {
            let embedded = Document::embed(other.as_bytes());
            assert!(embedded.get().starts_with("{\"$base64\":"), "{other}");
            assert_eq!(back(other.as_bytes()), other.as_bytes());
        }
        assert_eq!(back(b"\xff\x00"), b"\xff\x00");
    }

    #[test]
    fn a_wrapper_that_a_person_wrote_is_read_and_one_without_base64_is_refused() {
        let read = |text: &str| Document::extract(&RawValue::from_string(text.into()).unwrap());
        assert_eq!(read("{ \"$base64\" : \"AQ==\" }").unwrap(), [1]);
        assert!(read("{\"$base64\":\"?\"}").is_err());
        assert!(read("{\"$base64\":\"AQ==\",\"more\":1}").is_err());
    }

    #[test]
    fn documents_of_the_same_content_have_the_same_value() {
        let value = |text: &str| Document::value(text.as_bytes());
        assert_eq!(value("{\"a\":1,\"b\":2}"), value("{ \"b\": 2, \"a\": 1 }"));
        assert_ne!(value("{"), value("{{"));
    }

    proptest! {
        #[test]
        fn all_bytes_come_back(bytes in any::<Vec<u8>>()) {
            prop_assert_eq!(back(&bytes), bytes);
        }
    }
}
