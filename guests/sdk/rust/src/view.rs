//! Views: structs with the fields of a kind that a controller reads.
//!
//! A view names each field's path once. The paths determine the fields that `describe` declares, the projection of each
//! read and the parsing, so that the host sends only the fields that the controller reads.

use std::fmt;
use std::marker::PhantomData;

#[doc(inline)]
pub use flyball_sdk_macros::View;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde_json::Value;

use derive::{Node, Slots};

/// The fields of a kind that a controller reads. Usually derived; any struct that implements
/// `Deserialize` can implement it.
///
/// The derive macro fills each field of the struct from its path. A field that is absent or null
/// gets its type's default. The struct must implement `Default`; the macro implements
/// `Deserialize`.
///
/// - `#[view(kind = "apps/v1/ReplicaSet")]` on the struct names the kind. `until(36, "apps/v1beta1/ReplicaSet")` after it
///   names the kind that Kubernetes 1.36 and earlier releases have, for controllers of Kubernetes that emulate these.
/// - `#[view(path = "spec.replicas")]` on a field names its path.
/// - `#[view(path = "metadata", fields("labels"))]` reads only these fields below the path. Without
///   `fields`, everything below the path is read. `metadata` with `fields()` reads only the fields
///   that are always read: name, namespace, UID and resource version.
/// - `#[view(path = "spec.containers[*].image")]` reads the value of each element, or of each value of a map, into a
///   `Vec` or a `BTreeSet`. Elements without the value are left out.
///
/// Paths are checked at compile time. No path may be below another one.
///
/// Views without `fields` are listed as rows, which contain only the values. Use such a view to
/// count or compare many objects.
///
/// ```
/// use flyball_sdk::prelude::*;
///
/// #[derive(View, Clone, Debug, Default)]
/// #[view(kind = "apps/v1/ReplicaSet")]
/// struct ReplicaSet {
///     #[view(path = "metadata", fields("generation", "labels"))]
///     meta: Meta,
///     #[view(path = "spec.replicas")]
///     replicas: Option<i32>,
///     /// Copied into pods as it is.
///     #[view(path = "spec.template")]
///     template: Raw,
///     #[view(path = "status.conditions[*].type")]
///     conditions: Vec<String>,
/// }
///
/// assert_eq!(
///     ReplicaSet::FIELDS,
///     ["metadata.generation", "metadata.labels", "spec.replicas", "spec.template", "status.conditions[*].type"],
/// );
/// let object = r#"{
///     "metadata": {"name": "web"},
///     "spec": {"replicas": 3, "minReadySeconds": 10, "template": {"a": 1}},
///     "status": {"conditions": [{"type": "ReplicaFailure"}]}
/// }"#;
/// let web: ReplicaSet = serde_json::from_str(object).unwrap();
/// assert_eq!(web.meta.name, "web");
/// assert_eq!(web.replicas, Some(3));
/// assert_eq!(web.template.text(), r#"{"a": 1}"#);
/// assert_eq!(web.conditions, ["ReplicaFailure"]);
/// ```
///
/// A misspelt path does not compile:
///
/// ```compile_fail
/// # use flyball_sdk::prelude::*;
/// #[derive(View, Default)]
/// #[view(kind = "apps/v1/ReplicaSet")]
/// struct ReplicaSet {
///     #[view(path = "spec..replicas")]
///     replicas: Option<i32>,
/// }
/// ```
///
/// Neither does a path with many values for a field that holds one:
///
/// ```compile_fail
/// # use flyball_sdk::prelude::*;
/// #[derive(View, Default)]
/// #[view(kind = "v1/Pod")]
/// struct Pod {
///     #[view(path = "spec.containers[*].image")]
///     image: String,
/// }
/// ```
pub trait View: DeserializeOwned {
    /// The kind, as in `apps/v1/ReplicaSet`.
    const KIND: &'static str;
    /// The kind in earlier releases of Kubernetes: each with the minor number of the last release that has it. Reads take
    /// the kind of the emulated release; see [`Host::kind`](crate::Host::kind).
    const FORMER: &'static [(u32, &'static str)] = &[];
    /// The paths of the fields to read.
    const FIELDS: &'static [&'static str];
    /// The paths whose values form a row from which the view can be deserialized; empty if it can
    /// only be deserialized from objects.
    const COLUMNS: &'static [&'static str] = &[];
    /// The paths that cached reads ask for; if empty, they ask for all fields that the watch declares.
    const READS: &'static [&'static str] = Self::FIELDS;
}

/// Items used by the derive macro's code.
#[doc(hidden)]
pub mod derive {
    use std::collections::BTreeSet;

    pub use serde::{Deserialize, Deserializer};

    pub use super::collect;

    /// A struct whose fields are filled one by one.
    pub trait Slots: Default {
        /// The number of fields.
        const COUNT: usize;
        /// The paths of the fields, for errors.
        const PATHS: &'static [&'static str];
        /// Whether the tree has a [`Node::List`]. Views without one don't include the code for it.
        const HAS_FILTERS: bool;
        /// Whether the tree has a [`Node::Each`]. Views without one don't include the code for it.
        const HAS_MANY: bool;
        /// The positions of the fields' values in an object.
        const TREE: Node;
        /// Fills a field.
        fn fill<'de, D: Deserializer<'de>>(
            &mut self,
            slot: usize,
            value: D,
        ) -> Result<(), D::Error>;
        /// Adds a value to a field whose path has a `[*]`.
        fn push<'de, D: Deserializer<'de>>(
            &mut self,
            slot: usize,
            value: D,
        ) -> Result<(), D::Error> {
            drop(value);
            unreachable!("no path of slot {slot} has a `[*]`")
        }
    }

    /// How a value in an object is read.
    #[derive(Clone, Copy)]
    pub enum Node {
        /// The value fills the field with this index.
        Slot(usize),
        /// The value is an object with these fields.
        Object(&'static [(&'static str, Node)]),
        /// The value is a list. Each entry has a field name and a value; it reads the first element
        /// whose field has that value.
        List(&'static [(&'static str, &'static str, Node)]),
        /// The value is a list or a map. Each element, or each value of the map, is read.
        Each(&'static Node),
        /// The value is added to the field with this index.
        Element(usize),
    }

    /// The type of a field whose path has a `[*]`.
    #[diagnostic::on_unimplemented(
        message = "a path with `[*]` has many values, and `{Self}` holds one",
        label = "use a `Vec` or a `BTreeSet`"
    )]
    pub trait Many: Default {
        type Value;

        fn add(&mut self, value: Self::Value);
    }

    impl<T> Many for Vec<T> {
        type Value = T;

        fn add(&mut self, value: T) {
            self.push(value);
        }
    }

    impl<T: Ord> Many for BTreeSet<T> {
        type Value = T;

        fn add(&mut self, value: T) {
            self.insert(value);
        }
    }

    /// Adds a value, unless it is null.
    pub fn push<'de, M: Many<Value: Deserialize<'de>>, D: Deserializer<'de>>(
        many: &mut M,
        value: D,
    ) -> Result<(), D::Error> {
        let value = Option::<M::Value>::deserialize(value)?;
        value.into_iter().for_each(|value| many.add(value));
        Ok(())
    }

    /// Reads the values of a row, without nulls.
    pub fn values<'de, M: Many<Value: Deserialize<'de>>, D: Deserializer<'de>>(
        value: D,
    ) -> Result<M, D::Error> {
        let values = Option::<Vec<Option<M::Value>>>::deserialize(value)?;
        let mut many = M::default();
        let present = values.into_iter().flatten().flatten();
        present.for_each(|value| many.add(value));
        Ok(many)
    }

    pub fn value_or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
        value: D,
    ) -> Result<T, D::Error> {
        Ok(Option::<T>::deserialize(value)?.unwrap_or_default())
    }
}

/// Deserializes an object or a row into a view's fields in one pass, without an intermediate tree.
#[doc(hidden)]
pub fn collect<'de, S: Slots, D: Deserializer<'de>>(deserializer: D) -> Result<S, D::Error> {
    let mut view = S::default();
    deserializer.deserialize_any(Whole(&mut view))?;
    Ok(view)
}

/// An object or a row.
struct Whole<'a, S>(&'a mut S);

impl<'de, S: Slots> Visitor<'de> for Whole<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let node = S::TREE;
        Below { view: self.0, node }.visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<(), A::Error> {
        let mut slot = 0;
        while slot < S::COUNT {
            let node = Node::Slot(slot);
            if row
                .next_element_seed(Below { view: self.0, node })?
                .is_none()
            {
                break;
            }
            slot += 1;
        }
        if slot < S::COUNT || row.next_element::<IgnoredAny>()?.is_some() {
            return Err(A::Error::invalid_length(
                slot,
                &"a row with a value for each column",
            ));
        }
        Ok(())
    }
}

/// Adds the path of a field to an error about its value.
#[cold]
fn at<E: serde::de::Error>(path: &str, error: E) -> E {
    E::custom(format_args!("{path}: {error}"))
}

/// A value in an object and how it is read.
struct Below<'a, S> {
    view: &'a mut S,
    node: Node,
}

impl<'de, S: Slots> DeserializeSeed<'de> for Below<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.node {
            Node::Slot(slot) => {
                let filled = self.view.fill(slot, deserializer);
                filled.map_err(|error| at(S::PATHS[slot], error))
            }
            Node::Element(slot) if const { S::HAS_MANY } => {
                let added = self.view.push(slot, deserializer);
                added.map_err(|error| at(S::PATHS[slot], error))
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de, S: Slots> Visitor<'de> for Below<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if let (Node::Each(&node), true) = (self.node, const { S::HAS_MANY }) {
            while map.next_key::<IgnoredAny>()?.is_some() {
                map.next_value_seed(Below {
                    view: self.view,
                    node,
                })?;
            }
            return Ok(());
        }
        let Node::Object(fields) = self.node else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        while let Some(below) = map.next_key_seed(Key {
            fields,
            lifetime: PhantomData,
        })? {
            match below {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(node) => map.next_value_seed(Below {
                    view: self.view,
                    node,
                })?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        match self.node {
            Node::Each(&node) if const { S::HAS_MANY } => {
                let mut next = || {
                    let view = &mut *self.view;
                    list.next_element_seed(Below { view, node })
                };
                while next()?.is_some() {}
                Ok(())
            }
            Node::List(elements) if const { S::HAS_FILTERS } => self.view_elements(elements, list),
            _ => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
        }
    }
}

impl<S: Slots> Below<'_, S> {
    /// Reads the first element that matches each filter.
    fn view_elements<'de, A: SeqAccess<'de>>(
        self,
        elements: &'static [(&'static str, &'static str, Node)],
        mut list: A,
    ) -> Result<(), A::Error> {
        let mut wanted: Vec<_> = elements.iter().collect();
        while let Some(element) = list.next_element::<Value>()? {
            let selects = |&(field, value, _): &(&str, &str, Node)| element[field] == value;
            while let Some(at) = wanted.iter().copied().position(selects) {
                let &(_, _, node) = wanted.swap_remove(at);
                let below = Below {
                    view: self.view,
                    node,
                };
                below.deserialize(&element).map_err(A::Error::custom)?;
            }
        }
        Ok(())
    }
}

/// Deserializes a key and returns how the value is read.
struct Key<'a> {
    fields: &'static [(&'static str, Node)],
    lifetime: PhantomData<&'a ()>,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<Node>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<Node>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let found = self.fields.iter().find(|(name, _)| *name == key);
        Ok(found.map(|&(_, node)| node))
    }
}

#[cfg(test)]
mod tests {
    use crate::meta::Meta;
    use crate::view::View;

    #[derive(View, Debug, Default, PartialEq)]
    #[view(kind = "example.com/v1/Sample")]
    struct Sample {
        #[view(path = "metadata", fields("labels"))]
        meta: Meta,
        #[view(path = "metadata2.annotations['example.com/note']")]
        note: Option<String>,
        #[view(path = "spec.replicas")]
        replicas: i32,
        #[view(path = "spec.deep.names")]
        names: Vec<String>,
    }

    fn read(text: &str) -> Sample {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn fields_are_found_at_their_paths_in_any_order() {
        let sample = read(
            r#"{"spec": {"other": [1, {}], "deep": {"names": ["a"], "x": 1}, "replicas": 2},
                "metadata2": {"annotations": {"example.com/note": "hi", "example.com": "no"}}, "metadata": {"name": "n"}}"#,
        );
        assert_eq!((sample.replicas, sample.note.as_deref()), (2, Some("hi")));
        assert_eq!(
            (sample.names, sample.meta.name.as_str()),
            (vec!["a".to_owned()], "n")
        );
    }

    #[test]
    fn absent_or_null_fields_get_the_default() {
        assert_eq!(read("{}"), Sample::default());
        assert_eq!(
            read(r#"{"spec": null, "metadata": null}"#),
            Sample::default()
        );
        assert_eq!(
            read(r#"{"spec": {"deep": {"names": null}, "replicas": null}}"#),
            Sample::default()
        );
    }

    #[test]
    fn a_view_without_narrowed_paths_is_read_from_rows_and_objects() {
        #[derive(View, Debug, Default, PartialEq)]
        #[view(kind = "example.com/v1/Sample")]
        struct Flat {
            #[view(path = "metadata.name")]
            name: String,
            #[view(path = "status.conditions[type=Ready].status")]
            ready: Option<String>,
            #[view(path = "spec.replicas")]
            replicas: i32,
        }
        assert_eq!(
            Flat::COLUMNS,
            [
                "metadata.name",
                "status.conditions[type=Ready].status",
                "spec.replicas"
            ]
        );
        assert!(Sample::COLUMNS.is_empty());
        let object = r#"{"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Other", "status": "x"},
            {"status": "True", "type": "Ready"}]}, "spec": {"replicas": 2}}"#;
        let ready = Flat {
            name: "a".into(),
            ready: Some("True".into()),
            replicas: 2,
        };
        assert_eq!(serde_json::from_str::<Flat>(object).unwrap(), ready);
        let flat: Vec<Flat> =
            serde_json::from_str(r#"[["a", "True", 2], ["b", null, null]]"#).unwrap();
        assert_eq!(
            flat,
            [
                ready,
                Flat {
                    name: "b".into(),
                    ready: None,
                    replicas: 0
                }
            ]
        );
        for row in [r#"["a", "True"]"#, r#"["a", "True", 2, 3]"#] {
            assert!(
                serde_json::from_str::<Flat>(row)
                    .unwrap_err()
                    .to_string()
                    .contains("a value for each column"),
                "{row}"
            );
        }
    }

    #[test]
    fn a_wrong_type_is_an_error() {
        assert!(serde_json::from_str::<Sample>(r#"{"spec": 1}"#).is_err());
        assert!(serde_json::from_str::<Sample>(r#"{"spec": {"replicas": "two"}}"#).is_err());
    }

    #[test]
    fn an_error_names_the_object_the_field_what_it_has_and_what_was_expected() {
        for (object, error) in [
            (
                r#"{"spec": {"replicas": "two"}}"#,
                "spec.replicas: invalid type: string \"two\", expected i32",
            ),
            (
                r#"{"spec": {"deep": {"names": ["a", 1]}}}"#,
                "spec.deep.names: invalid type: integer `1`, expected a string",
            ),
        ] {
            let read =
                crate::malformed::parse::<Sample>(object.as_bytes(), Sample::KIND, "demo", "web");
            let expected = format!("example.com/v1/Sample demo/web is malformed: {error}");
            assert_eq!(read.unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_view_is_read_from_a_json_value() {
        let tree = serde_json::json!({"spec": {"replicas": 4}});
        assert_eq!(serde_json::from_value::<Sample>(tree).unwrap().replicas, 4);
    }

    #[test]
    fn filters_of_one_list_read_the_first_element_that_each_selects() {
        #[derive(View, Debug, Default, PartialEq)]
        #[view(kind = "example.com/v1/Sample")]
        struct Conditions {
            #[view(path = "status.conditions[type=Ready].status")]
            ready: String,
            #[view(path = "status.conditions[type=Ready].reason")]
            reason: String,
            #[view(path = "status.conditions[type=Scheduled]")]
            scheduled: Option<crate::Condition>,
        }
        let read = |text| serde_json::from_str::<Conditions>(text).unwrap();
        let both = read(
            r#"{"status": {"conditions": [{"type": "Scheduled", "status": "True"}, {"type": 3}, 4,
                {"type": "Ready", "status": "False", "reason": "Slow"}, {"type": "Ready", "status": "True"}]}}"#,
        );
        assert_eq!([both.ready, both.reason], ["False", "Slow"]);
        assert!(both.scheduled.unwrap().is_true());
        for text in [
            r#"{"status": {"conditions": null}}"#,
            r#"{"status": {"conditions": {"type": "Ready", "status": "True"}}}"#,
        ] {
            assert_eq!(read(text), Conditions::default(), "{text}");
        }
    }

    #[test]
    fn a_path_to_each_element_reads_all_values_from_rows_and_objects() {
        #[derive(View, Debug, Default, PartialEq)]
        #[view(kind = "v1/Pod")]
        struct Pod {
            #[view(path = "metadata.name")]
            name: String,
            #[view(path = "spec.containers[*].image")]
            images: Vec<String>,
            #[view(path = "spec.containers[*].ports[*].containerPort")]
            ports: std::collections::BTreeSet<i32>,
            #[view(path = "metadata.labels[*]")]
            labels: Vec<String>,
        }
        let object = r#"{"metadata": {"name": "web", "labels": {"app": "web", "tier": null}}, "spec": {"containers": [
            {"image": "a", "ports": [{"containerPort": 2}, {"containerPort": 1}]}, {"image": null},
            {"name": "none", "ports": null}, {"image": "b", "ports": [{"containerPort": 2}]}]}}"#;
        let web = Pod {
            name: "web".into(),
            images: vec!["a".into(), "b".into()],
            ports: [1, 2].into(),
            labels: vec!["web".into()],
        };
        assert_eq!(serde_json::from_str::<Pod>(object).unwrap(), web);
        let columns = flyball_types::Columns::parse(Pod::COLUMNS).unwrap();
        let mut row = Vec::new();
        columns.row(object.as_bytes(), &mut row, 1000).unwrap();
        assert_eq!(serde_json::from_slice::<Pod>(&row).unwrap(), web);
        for none in [
            "{}",
            r#"{"spec": {"containers": null}}"#,
            "[null, [], [], []]",
        ] {
            assert_eq!(serde_json::from_str::<Pod>(none).unwrap(), Pod::default());
        }
        let error = serde_json::from_str::<Pod>(r#"{"spec": {"containers": [{"image": 1}]}}"#);
        let error = error.unwrap_err().to_string();
        let expected = "spec.containers[*].image: invalid type: integer `1`, expected a string";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn a_path_to_each_element_can_be_narrowed() {
        #[derive(serde::Deserialize, Debug, Default, PartialEq)]
        struct Container {
            image: String,
        }
        #[derive(View, Debug, Default, PartialEq)]
        #[view(kind = "v1/Pod")]
        struct Pod {
            #[view(path = "spec.containers[*]", fields("image"))]
            containers: Vec<Container>,
        }
        assert_eq!(Pod::FIELDS, ["spec.containers[*].image"]);
        let pod: Pod =
            serde_json::from_str(r#"{"spec": {"containers": [{"image": "a"}]}}"#).unwrap();
        assert_eq!(pod.containers[0].image, "a");
    }

    #[test]
    fn a_list_where_an_object_is_read_is_an_error() {
        assert!(serde_json::from_str::<Sample>(r#"{"spec": []}"#).is_err());
    }

    #[test]
    fn the_fields_are_the_paths_or_the_narrowed_paths() {
        let expected = [
            "metadata.labels",
            "metadata2.annotations['example.com/note']",
            "spec.replicas",
            "spec.deep.names",
        ];
        assert_eq!(Sample::FIELDS, expected);
    }
}
