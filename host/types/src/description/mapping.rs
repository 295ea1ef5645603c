//! Deserialization of mappings.
//!
//! serde can't refuse unknown fields of a struct with a flattened enum. So a mapping is read as one flat object first.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::{DeltaType, Having, Mapping, Owners, To, Unless};
use crate::Kind;

/// The values of `to`.
const TARGETS: &[&str] = &[
    "itself",
    "controller",
    "owner",
    "named",
    "selecting",
    "inNamespace",
    "all",
    "namespace",
    "constant",
    "reference",
    "dependents",
    "ownerReferences",
    "route",
];

/// All fields that a mapping of any target may have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fields {
    to: String,
    kind: Option<Kind>,
    path: Option<String>,
    namespaced: Option<bool>,
    missing: Option<bool>,
    #[serde(default, deserialize_with = "read_one_or_more")]
    whose: Option<Vec<Having>>,
    key: Option<String>,
    which: Option<Owners>,
    #[serde(default)]
    on: Vec<DeltaType>,
    #[serde(default)]
    queue: String,
    #[serde(default)]
    delay_ms: u32,
    #[serde(default)]
    orphans: bool,
    #[serde(default)]
    deleting: bool,
    #[serde(default, deserialize_with = "read_one_or_more")]
    having: Option<Vec<Having>>,
    #[serde(default)]
    having_any: Vec<String>,
    #[serde(default)]
    unless: Vec<Unless>,
    #[serde(default)]
    while_any: Vec<Kind>,
}

impl Fields {
    /// Takes the fields that belong to the target.
    fn take_target<E: Error>(&mut self) -> Result<To, E> {
        Ok(match self.to.as_str() {
            "itself" => To::Itself,
            "controller" => To::Controller {
                kind: required("kind", &mut self.kind)?,
            },
            "owner" => To::Owner {
                kind: required("kind", &mut self.kind)?,
            },
            "named" => To::Named {
                path: required("path", &mut self.path)?,
                namespaced: required("namespaced", &mut self.namespaced)?,
                kind: self.kind.take(),
                whose: self.whose.take().unwrap_or_default(),
                missing: self.missing.take().unwrap_or_default(),
            },
            "selecting" => To::Selecting {
                kind: required("kind", &mut self.kind)?,
                path: required("path", &mut self.path)?,
                whose: self.whose.take().unwrap_or_default(),
            },
            "inNamespace" => To::InNamespace {
                kind: required("kind", &mut self.kind)?,
            },
            "all" => To::All {
                kind: required("kind", &mut self.kind)?,
            },
            "namespace" => To::Namespace,
            "constant" => To::Constant {
                key: required("key", &mut self.key)?,
            },
            "reference" => To::Reference,
            "dependents" => To::Dependents,
            "ownerReferences" => To::OwnerReferences {
                which: required("which", &mut self.which)?,
            },
            "route" => To::Route,
            unknown => return Err(E::unknown_variant(unknown, TARGETS)),
        })
    }

    /// The name of a field that belongs to another target and was not taken.
    fn left_over(&self) -> Option<&'static str> {
        let fields = [
            ("kind", self.kind.is_some()),
            ("path", self.path.is_some()),
            ("namespaced", self.namespaced.is_some()),
            ("missing", self.missing.is_some()),
            ("whose", self.whose.is_some()),
            ("key", self.key.is_some()),
            ("which", self.which.is_some()),
        ];
        fields
            .into_iter()
            .find_map(|(name, is_present)| is_present.then_some(name))
    }
}

fn required<T, E: Error>(name: &'static str, field: &mut Option<T>) -> Result<T, E> {
    field.take().ok_or_else(|| E::missing_field(name))
}

impl<'de> Deserialize<'de> for Mapping {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut fields = Fields::deserialize(input)?;
        let to = fields.take_target()?;
        if let Some(name) = fields.left_over() {
            return Err(D::Error::custom(format!(
                "the field `{name}` does not apply to a mapping to `{}`",
                fields.to
            )));
        }
        Ok(Self {
            to,
            on: fields.on,
            queue: fields.queue,
            delay_ms: fields.delay_ms,
            orphans: fields.orphans,
            deleting: fields.deleting,
            having: fields.having.unwrap_or_default(),
            having_any: fields.having_any,
            unless: fields.unless,
            while_any: fields.while_any,
        })
    }
}

/// Writes one value as an object and several as a list.
pub(super) fn one_or_more<S: Serializer>(having: &[Having], output: S) -> Result<S::Ok, S::Error> {
    match having {
        [one] => one.serialize(output),
        more => more.serialize(output),
    }
}

fn read_one_or_more<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<Having>>, D::Error> {
    struct OneOrMore;

    impl<'de> Visitor<'de> for OneOrMore {
        type Value = Vec<Having>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with `path` and `value`, or a list of them")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Having>, A::Error> {
            Having::deserialize(MapAccessDeserializer::new(map)).map(|one| vec![one])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<Having>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(items))
        }
    }

    input.deserialize_any(OneOrMore).map(Some)
}
