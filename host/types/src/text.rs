//! Strings in JSON, borrowed unless they contain escape sequences. (serde's own `Cow` always copies.)

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::de::StrRead;
use serde_json::value::RawValue;

use crate::search::unescaped;

/// A deserializer of JSON bytes. It checks once that they are UTF-8, and not again for each string. Fails if they are
/// not.
pub fn reader(json: &[u8]) -> serde_json::Result<serde_json::Deserializer<StrRead<'_>>> {
    Ok(serde_json::Deserializer::from_str(text(json)?))
}

/// Deserializes JSON bytes, as [`reader`] does.
pub fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    serde_json::from_str(text(json)?)
}

fn text(json: &[u8]) -> serde_json::Result<&str> {
    std::str::from_utf8(json).map_err(serde::de::Error::custom)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(pub Cow<'a, str>);

impl<'a> Text<'a> {
    /// The string in a raw value, or none if the value is not a string.
    pub fn of_raw(value: &'a RawValue) -> Option<Self> {
        unescaped(value.get()).map(Self)
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.into()))
            }
        }
        input.deserialize_str(Borrow).map(Text)
    }
}
