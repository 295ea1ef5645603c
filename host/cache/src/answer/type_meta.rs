//! What an answer says that it is. It does so at its beginning, so that the rest is not read for it.

use std::borrow::Cow;
use std::fmt;

use flyball_types::Text;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// The type of an object of the API; empty, where it does not say it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TypeMeta<'a> {
    pub(super) api_version: Cow<'a, str>,
    pub(super) kind: Cow<'a, str>,
}

impl<'a> TypeMeta<'a> {
    /// What these bytes say up to where they say both, or to where they are no JSON.
    pub(super) fn of(answer: &'a [u8]) -> Self {
        let mut found = Self::default();
        let _ = serde_json::Deserializer::from_slice(answer).deserialize_map(Seek(&mut found));
        found
    }
}

struct Seek<'f, 'a>(&'f mut TypeMeta<'a>);

impl<'a> Visitor<'a> for Seek<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'a>>()? {
            match &*key {
                "apiVersion" => self.0.api_version = map.next_value::<Text<'a>>()?.0,
                "kind" => self.0.kind = map.next_value::<Text<'a>>()?.0,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
            if !self.0.api_version.is_empty() && !self.0.kind.is_empty() {
                return Err(A::Error::custom("enough was read"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_wherever_it_stands_and_nothing_after_it() {
        for answer in [
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#,
            r#"{"metadata":{"kind":"x"},"apiVersion":"v1","kind":"Pod"}"#,
            r#"{"kind":"Pod","apiVersion":"v1", and no JSON"#,
        ] {
            let told = TypeMeta::of(answer.as_bytes());
            assert_eq!((&*told.api_version, &*told.kind), ("v1", "Pod"), "{answer}");
        }
        assert_eq!(TypeMeta::of(br#"{"items":[]}"#), TypeMeta::default());
        assert_eq!(TypeMeta::of(b"x"), TypeMeta::default());
    }
}
