//! Prunes JSON by a mask while decoding it. Kept parts are copied unchanged, other parts are skipped, and no tree of
//! values is built. The same pass produces the bytes that the cache keeps and the metadata that it indexes.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use crate::mask::{Mask, Node};
use crate::text::{Text, reader};

/// Receives fields of an object's `metadata` during pruning, whether the mask keeps them or not.
pub trait MetadataSink<'de> {
    /// Whether the sink receives the field with this name.
    fn wants(&self, field: &str) -> bool;

    /// Receives a field. An error ends the decoding.
    fn take(&mut self, field: &str, value: &'de RawValue) -> Result<(), String>;
}

/// A sink that receives nothing.
impl MetadataSink<'_> for () {
    fn wants(&self, _: &str) -> bool {
        false
    }

    fn take(&mut self, _: &str, _: &RawValue) -> Result<(), String> {
        Ok(())
    }
}

/// The input is not a JSON object. A retry does not help.
#[derive(Debug, thiserror::Error)]
#[error("can't decode an object of the API")]
pub struct PruneError(#[from] serde_json::Error);

impl Mask {
    /// Appends the kept part of an object to `out`. Fails if the bytes are not one JSON object; the caller must then
    /// discard what was appended.
    pub fn prune(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), PruneError> {
        let mut input = reader(json)?;
        Prune::new(self, out, &mut ()).deserialize(&mut input)?;
        Ok(input.end()?)
    }

    /// Appends an API list to `out`, with each of its `items` pruned and everything else unchanged. Fails if the bytes
    /// are not one JSON object, or with the error of `before_item`, which is called before each item.
    pub fn prune_list(
        &self,
        json: &[u8],
        out: &mut Vec<u8>,
        before_item: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), PruneError> {
        let mut input = reader(json)?;
        (&mut input).deserialize_map(PruneList {
            mask: self,
            out,
            before_item,
        })?;
        Ok(input.end()?)
    }
}

impl Node {
    /// Appends the kept part of a value, and returns whether there is any. Fails if the value is not JSON.
    pub fn prune(&self, value: &RawValue, out: &mut Vec<u8>) -> Result<bool, PruneError> {
        Ok(Value { node: self, out }.deserialize(value)?)
    }

    /// Appends the kept part of a list element, after a comma if it is needed. A filter first reads the element up to
    /// the field that it compares; then the element is decoded once more. Fails if the element is not JSON.
    pub fn prune_element(&self, element: &RawValue, out: &mut Vec<u8>) -> Result<(), PruneError> {
        let Some(node) = self.element_like(element.get()) else {
            return Ok(());
        };
        let start = out.len();
        separate(out);
        if !node.prune(element, out)? {
            out.truncate(start);
        }
        Ok(())
    }
}

/// Decodes an object, appends the kept part to `out` and passes metadata to a sink.
pub struct Prune<'p, S> {
    mask: &'p Mask,
    out: &'p mut Vec<u8>,
    sink: &'p mut S,
}

impl<'p, S> Prune<'p, S> {
    pub fn new(mask: &'p Mask, out: &'p mut Vec<u8>, sink: &'p mut S) -> Self {
        Self { mask, out, sink }
    }
}

impl<'de, S: MetadataSink<'de>> DeserializeSeed<'de> for Prune<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de, S: MetadataSink<'de>> Visitor<'de> for Prune<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of the API")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let root = self.mask.root();
        self.out.push(b'{');
        while let Some(key) = map.next_key_seed(Key {
            node: root,
            out: self.out,
            top: true,
        })? {
            match key {
                Kept::Nothing => drop(map.next_value::<IgnoredAny>()?),
                Kept::Metadata(node, start) => {
                    let seed = Metadata {
                        node,
                        out: self.out,
                        sink: self.sink,
                    };
                    if !map.next_value_seed(seed)? {
                        self.out.truncate(start);
                    }
                }
                Kept::Node(node, start) => keep(&mut map, node, self.out, start)?,
            }
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// Decodes the value of a key. The key is already written, from this length of the output on.
enum Kept<'p> {
    Nothing,
    Metadata(&'p Node, usize),
    Node(&'p Node, usize),
}

/// Reads a key, and writes it if its value may be kept.
struct Key<'p, 'o> {
    node: &'p Node,
    out: &'o mut Vec<u8>,
    top: bool,
}

impl<'de, 'p> DeserializeSeed<'de> for Key<'p, '_> {
    type Value = Kept<'p>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_str(self)
    }
}

impl<'p> Key<'p, '_> {
    fn find(&self, key: &str) -> Option<&'p Node> {
        if self.top && matches!(key, "apiVersion" | "kind") {
            None
        } else {
            self.node.field(key)
        }
    }

    fn kept(&self, key: &str, node: &'p Node, start: usize) -> Kept<'p> {
        if self.top && key == "metadata" {
            Kept::Metadata(node, start)
        } else {
            Kept::Node(node, start)
        }
    }
}

impl<'de, 'p> Visitor<'de> for Key<'p, '_> {
    type Value = Kept<'p>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    /// A borrowed key contains no escape sequence.
    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        let Some(node) = self.find(key) else {
            return Ok(Kept::Nothing);
        };
        let start = self.out.len();
        separate(self.out);
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        Ok(self.kept(key, node, start))
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        let Some(node) = self.find(key) else {
            return Ok(Kept::Nothing);
        };
        let start = self.out.len();
        separate(self.out);
        serde_json::to_writer(&mut *self.out, key).map_err(E::custom)?;
        self.out.push(b':');
        Ok(self.kept(key, node, start))
    }
}

/// Writes the comma before every key or element except the first.
pub fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{' | b'[')) {
        out.push(b',');
    }
}

/// Decodes the value of a key that was written from `start` on. Removes the key again if no part of the value is kept.
fn keep<'de, A: MapAccess<'de>>(
    map: &mut A,
    node: &Node,
    out: &mut Vec<u8>,
    start: usize,
) -> Result<(), A::Error> {
    if !map.next_value_seed(Value { node, out })? {
        out.truncate(start);
    }
    Ok(())
}

/// Decodes `metadata`.
struct Metadata<'p, S> {
    node: &'p Node,
    out: &'p mut Vec<u8>,
    sink: &'p mut S,
}

impl<'de, S: MetadataSink<'de>> DeserializeSeed<'de> for Metadata<'_, S> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<bool, D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de, S: MetadataSink<'de>> Visitor<'de> for Metadata<'_, S> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object's metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        self.out.push(b'{');
        while let Some(field) = map.next_key::<Text<'de>>()? {
            if &*field == "managedFields" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let start = self.out.len();
            let key = Key {
                node: self.node,
                out: self.out,
                top: false,
            };
            let kept = key.visit_str(&field)?;
            if self.sink.wants(&field) {
                let value: &'de RawValue = map.next_value()?;
                self.sink
                    .take(&field, value)
                    .map_err(serde::de::Error::custom)?;
                if let Kept::Node(node, start) = kept {
                    let seed = Value {
                        node,
                        out: self.out,
                    };
                    if !seed.deserialize(value).map_err(serde::de::Error::custom)? {
                        self.out.truncate(start);
                    }
                }
            } else if let Kept::Node(node, _) = kept {
                keep(&mut map, node, self.out, start)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        self.out.push(b'}');
        Ok(true)
    }
}

/// Decodes a value and keeps a part of it, if any. Returns whether anything was written.
struct Value<'p> {
    node: &'p Node,
    out: &'p mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<bool, D::Error> {
        if matches!(self.node, Node::All) {
            let raw = <&RawValue>::deserialize(input)?;
            self.out.extend_from_slice(raw.get().as_bytes());
            Ok(true)
        } else {
            input.deserialize_any(self)
        }
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        self.out.push(b'{');
        while let Some(kept) = map.next_key_seed(Key {
            node: self.node,
            out: self.out,
            top: false,
        })? {
            match kept {
                Kept::Node(node, start) | Kept::Metadata(node, start) => {
                    keep(&mut map, node, self.out, start)?
                }
                Kept::Nothing => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        self.out.push(b'}');
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        if self.node.is_filtered() {
            return self.visit_filtered(seq);
        }
        let Some(node) = self.node.element() else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(false);
        };
        self.out.push(b'[');
        loop {
            let start = self.out.len();
            separate(self.out);
            match seq.next_element_seed(Value {
                node,
                out: self.out,
            })? {
                Some(true) => {}
                Some(false) => self.out.truncate(start),
                None => {
                    self.out.truncate(start);
                    break;
                }
            }
        }
        self.out.push(b']');
        Ok(true)
    }

    /// A scalar has no parts, so that nothing is kept where the mask names fields below it.
    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }
}

impl Value<'_> {
    /// Decodes a list whose elements are filtered.
    fn visit_filtered<'de, A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        self.out.push(b'[');
        while let Some(element) = seq.next_element::<&'de RawValue>()? {
            self.node
                .prune_element(element, self.out)
                .map_err(serde::de::Error::custom)?;
        }
        self.out.push(b']');
        Ok(true)
    }
}

struct PruneList<'p> {
    mask: &'p Mask,
    out: &'p mut Vec<u8>,
    before_item: &'p mut dyn FnMut() -> Result<(), String>,
}

impl<'de> Visitor<'de> for PruneList<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of the API")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.out.push(b'{');
        while let Some(key) = map.next_key::<Text<'de>>()? {
            separate(self.out);
            serde_json::to_writer(&mut *self.out, &*key).map_err(serde::de::Error::custom)?;
            self.out.push(b':');
            if &*key == "items" {
                map.next_value_seed(Items {
                    mask: self.mask,
                    out: self.out,
                    before_item: self.before_item,
                })?;
            } else {
                let raw: &'de RawValue = map.next_value()?;
                self.out.extend_from_slice(raw.get().as_bytes());
            }
        }
        self.out.push(b'}');
        Ok(())
    }
}

struct Items<'p> {
    mask: &'p Mask,
    out: &'p mut Vec<u8>,
    before_item: &'p mut dyn FnMut() -> Result<(), String>,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list's items")
    }

    /// Go writes a nil slice as `null`.
    fn visit_unit<E>(self) -> Result<(), E> {
        self.out.extend_from_slice(b"[]");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.out.push(b'[');
        loop {
            (self.before_item)().map_err(serde::de::Error::custom)?;
            let start = self.out.len();
            separate(self.out);
            if seq
                .next_element_seed(Prune::new(self.mask, self.out, &mut ()))?
                .is_none()
            {
                self.out.truncate(start);
                break;
            }
        }
        self.out.push(b']');
        Ok(())
    }
}

#[cfg(test)]
mod tests;
