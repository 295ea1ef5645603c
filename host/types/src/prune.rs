//! Prunes JSON by a mask while it is decoded: what is kept is copied as it stands, what is not is skipped, and no tree of
//! values is built. One pass serves both the bytes that the cache keeps and the metadata that it indexes.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use crate::mask::{Mask, Node};
use crate::text::{Text, reader};

/// Sees the fields of an object's `metadata` while it is pruned, whether the mask keeps them or not.
pub trait MetadataSink<'de> {
    /// Whether it wants to see the field of this name.
    fn wants(&self, field: &str) -> bool;

    /// A field that it wants.
    ///
    /// # Errors
    /// What it says is wrong with the field ends the decoding.
    fn take(&mut self, field: &str, value: &'de RawValue) -> Result<(), String>;
}

/// Wants nothing.
impl MetadataSink<'_> for () {
    fn wants(&self, _: &str) -> bool {
        false
    }

    fn take(&mut self, _: &str, _: &RawValue) -> Result<(), String> {
        Ok(())
    }
}

/// What was to be pruned is not a JSON object. No retry can help.
#[derive(Debug, thiserror::Error)]
#[error("can't decode an object of the API")]
pub struct PruneError(#[from] serde_json::Error);

impl Mask {
    /// Appends to `out` what this mask keeps of an object. What was appended before an error is to be thrown away.
    ///
    /// # Errors
    /// The bytes are not one JSON object.
    pub fn prune(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), PruneError> {
        let mut input = reader(json)?;
        Prune::new(self, out, &mut ()).deserialize(&mut input)?;
        Ok(input.end()?)
    }

    /// Appends to `out` a list object of the API with each of its `items` pruned, and all else as it is.
    ///
    /// # Errors
    /// The bytes are not one JSON object.
    pub fn prune_list(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), PruneError> {
        let mut input = reader(json)?;
        (&mut input).deserialize_map(PruneList { mask: self, out })?;
        Ok(input.end()?)
    }
}

impl Node {
    /// Appends what is kept of a value that lies here, and answers whether anything is.
    ///
    /// # Errors
    /// The value is no JSON.
    pub fn prune(&self, value: &RawValue, out: &mut Vec<u8>) -> Result<bool, PruneError> {
        Ok(Value { node: self, out }.deserialize(value)?)
    }

    /// Appends what is kept of an element of a list that lies here, with the comma before it, unless nothing is. Of an
    /// element, a filter reads on to what it looks for; then the element is decoded once more.
    ///
    /// # Errors
    /// The element is no JSON.
    pub fn prune_element(&self, element: &RawValue, out: &mut Vec<u8>) -> Result<(), PruneError> {
        let Some(node) = self.element_like(element) else {
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

/// Decodes an object, appends what a mask keeps of it to `out` and shows its metadata to a sink.
pub struct Prune<'p, S> {
    mask: &'p Mask,
    out: &'p mut Vec<u8>,
    sink: &'p mut S,
}

impl<'p, S> Prune<'p, S> {
    /// A seed for one object.
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

/// What is kept of the value that follows a key; the key is written already, from that length of the output on.
enum Kept<'p> {
    Nothing,
    Metadata(&'p Node, usize),
    Node(&'p Node, usize),
}

/// Reads a key and, where its value is kept, writes it.
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

    /// A borrowed key holds nothing escaped.
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

/// Writes the comma before a key or an element, but for the first.
pub fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{' | b'[')) {
        out.push(b',');
    }
}

/// Decodes the value of a key that was written from `start` on, and unwrites the key if nothing of the value is kept.
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

/// Decodes a value of which at least something may be kept; answers whether anything was written.
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

    /// A scalar where the mask names something below it: there is nothing below it.
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
    /// A list of whose elements what is kept depends on what they hold.
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
mod tests {
    use super::*;

    fn prune(paths: &[&str], json: &str) -> String {
        let mut out = Vec::new();
        Mask::parse(paths)
            .unwrap()
            .prune(json.as_bytes(), &mut out)
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","managedFields":[{"x":1}],"labels":{"l":"1","m":"2"},"uid":"u"},"spec":{"containers":[{"name":"c","image":"i"},{"image":"j"}],"nodeName":"n","x":[[{"y":1,"z":2}]]},"status":{"phase":"Running"}}"#;

    #[test]
    fn only_what_is_masked_is_kept() {
        assert_eq!(prune(&[], POD), r#"{"metadata":{"name":"a","uid":"u"}}"#);
        assert_eq!(
            prune(
                &[
                    "metadata.labels.l",
                    "spec.containers[*].name",
                    "spec.x[*][*].y",
                    "status"
                ],
                POD
            ),
            r#"{"metadata":{"name":"a","labels":{"l":"1"},"uid":"u"},"spec":{"containers":[{"name":"c"},{}],"x":[[{"y":1}]]},"status":{"phase":"Running"}}"#
        );
        assert_eq!(
            prune(
                &["spec.nodeName.below", "spec.containers.name", "status"],
                POD
            ),
            r#"{"metadata":{"name":"a","uid":"u"},"spec":{},"status":{"phase":"Running"}}"#
        );
    }

    #[test]
    fn the_whole_is_all_but_managed_fields_and_the_kind() {
        let whole = prune(&["."], POD);
        let expected = POD
            .replace(r#""kind":"Pod","apiVersion":"v1","#, "")
            .replace(r#""managedFields":[{"x":1}],"#, "");
        assert_eq!(whole, expected);
        assert_eq!(
            prune(&["metadata"], POD),
            r#"{"metadata":{"name":"a","labels":{"l":"1","m":"2"},"uid":"u"}}"#
        );
    }

    #[test]
    fn keys_that_need_escapes_keep_them() {
        assert_eq!(
            prune(&["data"], r#"{"da\u0074a":{"a\"b":1}}"#),
            r#"{"data":{"a\"b":1}}"#
        );
        assert_eq!(
            prune(&["data[*].x"], r#"{"data":{"a\"b":{"x":1,"y":2}}}"#),
            r#"{"data":{"a\"b":{"x":1}}}"#
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for json in ["", "[]", "1", "{", "{}{}", r#"{"metadata":[]}"#] {
            assert!(
                Mask::default()
                    .prune(json.as_bytes(), &mut Vec::new())
                    .is_err(),
                "{json}"
            );
        }
    }

    #[test]
    fn a_list_keeps_its_own_metadata_and_prunes_each_item() {
        let mut out = Vec::new();
        let list = format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"7"}},"items":[{POD},{POD}]}}"#
        );
        Mask::default()
            .prune_list(list.as_bytes(), &mut out)
            .unwrap();
        let item = r#"{"metadata":{"name":"a","uid":"u"}}"#;
        let expected = format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"7"}},"items":[{item},{item}]}}"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn of_a_list_only_the_elements_that_are_meant_are_kept() {
        let pod = r#"{"status":{"conditions":[{"status":"True","reason":"r","type":"Ready"},{"type":"Other","status":"x"},3]}}"#;
        assert_eq!(
            prune(&["status.conditions[type=Ready].status"], pod),
            r#"{"status":{"conditions":[{"status":"True","type":"Ready"}]}}"#
        );
        assert_eq!(
            prune(
                &["status.conditions[type=Ready]", "status.conditions[*].type"],
                pod
            ),
            r#"{"status":{"conditions":[{"status":"True","reason":"r","type":"Ready"},{"type":"Other"}]}}"#
        );
        let both = [
            "status.conditions[type=Ready].status",
            "status.conditions[reason=r].reason",
        ];
        assert_eq!(
            prune(&both, pod),
            r#"{"status":{"conditions":[{"status":"True","reason":"r","type":"Ready"}]}}"#
        );
    }
}
