//! The kind of a JSON body. It is mostly at the start, so the rest need not be parsed.

use std::borrow::Cow;
use std::fmt;

use flyball_types::Text;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// The `apiVersion` and the `kind` of an object; empty if they are missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TypeMeta<'a> {
    pub(super) api_version: Cow<'a, str>,
    pub(super) kind: Cow<'a, str>,
}

impl<'a> TypeMeta<'a> {
    /// Parses a body up to the point where both are known, or where it is not JSON.
    pub(super) fn of(body: &'a [u8]) -> Self {
        let mut found = Self::default();
        let _ = serde_json::Deserializer::from_slice(body).deserialize_map(Seek(&mut found));
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
                return Err(A::Error::custom("both are known"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_found_anywhere_and_nothing_after_it_is_parsed() {
        for body in [
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#,
            r#"{"metadata":{"kind":"x"},"apiVersion":"v1","kind":"Pod"}"#,
            r#"{"kind":"Pod","apiVersion":"v1", and no JSON"#,
        ] {
            let found = TypeMeta::of(body.as_bytes());
            assert_eq!((&*found.api_version, &*found.kind), ("v1", "Pod"), "{body}");
        }
        assert_eq!(TypeMeta::of(br#"{"items":[]}"#), TypeMeta::default());
        assert_eq!(TypeMeta::of(b"x"), TypeMeta::default());
    }
}
