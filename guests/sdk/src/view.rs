//! Views: structs that hold the few fields of a kind that a controller reads.
//!
//! A view names each field's path once. From there come the fields that `describe` declares, the projection of each read
//! and the parsing, so that no byte crosses the boundary that the controller does not look at.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde_json::Value;

/// The fields of a kind that a controller reads. [`view!`](crate::view!) makes one; any struct that serde reads can be one.
pub trait View: DeserializeOwned {
    /// The kind, as in `apps/v1/ReplicaSet`.
    const KIND: &'static str;
    /// The paths of the fields that are read.
    const FIELDS: &'static [&'static str];
    /// The paths whose values make a row that the view can be read from, as it can from an object; none if it can't.
    const COLUMNS: &'static [&'static str] = &[];
}

/// Declares views: flat structs whose fields lie anywhere in an object.
///
/// Each field is filled from its path; what is absent or null is the type's default. A list of suffixes behind the path
/// narrows what is read below it. No path may lie below another one.
///
/// A list of a view without suffixes is read row by row, with nothing but its values: what many objects are counted or
/// compared by should be such a view.
///
/// ```
/// use flyball_sdk::prelude::*;
///
/// view! {
///     /// What we read of a ReplicaSet.
///     pub struct ReplicaSet: "apps/v1/ReplicaSet" {
///         /// Its metadata, but not all of it.
///         pub meta: Meta = "metadata" [".generation", ".labels"],
///         /// How many pods it asks for.
///         pub replicas: Option<i32> = "spec.replicas",
///         /// What the pods look like: passed on as it is.
///         pub template: Raw = "spec.template",
///     }
/// }
///
/// assert_eq!(
///     ReplicaSet::FIELDS,
///     ["metadata.generation", "metadata.labels", "spec.replicas", "spec.template"],
/// );
/// let object = r#"{"metadata": {"name": "web"}, "spec": {"replicas": 3, "minReadySeconds": 10, "template": {"a": 1}}}"#;
/// let web: ReplicaSet = serde_json::from_str(object).unwrap();
/// assert_eq!((web.meta.name.as_str(), web.replicas, web.template.text()), ("web", Some(3), r#"{"a": 1}"#));
/// ```
#[macro_export]
macro_rules! view {
    (@fields [$($done:expr,)*]) => { &[$($done,)*] };
    (@fields [$($done:expr,)*] $path:literal [$($suffix:literal),* $(,)?]; $($rest:tt)*) => {
        $crate::view!(@fields [$($done,)* $(concat!($path, $suffix),)*] $($rest)*)
    };
    (@fields [$($done:expr,)*] $path:literal; $($rest:tt)*) => {
        $crate::view!(@fields [$($done,)* $path,] $($rest)*)
    };

    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident: $kind:literal {
            $(
                $(#[$field_attribute:meta])*
                $field_visibility:vis $field:ident: $type:ty = $path:literal $([$($suffix:literal),* $(,)?])?
            ),* $(,)?
        }
    )*) => { $(
        $(#[$attribute])*
        #[derive(Clone, Debug, Default)]
        $visibility struct $name {
            $( $(#[$field_attribute])* $field_visibility $field: $type, )*
        }

        impl $crate::view::View for $name {
            const KIND: &'static str = $kind;
            const FIELDS: &'static [&'static str] =
                $crate::view!(@fields [] $( $path $([$($suffix),*])?; )*);
            const COLUMNS: &'static [&'static str] =
                if $crate::view::are_same(Self::FIELDS, &[$($path),*]) { &[$($path),*] } else { &[] };
        }

        const _: () = assert!($crate::view::are_apart(&[$($path),*]), "one path of the view lies below another");

        impl $crate::view::Slots for $name {
            const PATHS: &'static [&'static str] = &[$($path),*];

            fn fill<'de, D: $crate::serde::Deserializer<'de>>(&mut self, slot: usize, value: D) -> Result<(), D::Error> {
                let mut at = 0;
                $(
                    if slot == at {
                        let value = <Option<$type> as $crate::serde::Deserialize>::deserialize(value)?;
                        self.$field = value.unwrap_or_default();
                        return Ok(());
                    }
                    at += 1;
                )*
                let _ = at;
                unreachable!("slot {slot} of {}", $kind)
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::view::collect(deserializer)
            }
        }
    )* };
}

/// A struct whose fields are filled one by one, each from its path.
#[doc(hidden)]
pub trait Slots: Default {
    /// The paths, in the order of the fields.
    const PATHS: &'static [&'static str];
    /// Fills a field.
    fn fill<'de, D: Deserializer<'de>>(&mut self, slot: usize, value: D) -> Result<(), D::Error>;
}

/// Whether no path lies below another one, as each part of an object fills one field. Paths that differ only in how they
/// are written (`a.b`, `a['b']`) are not seen through.
#[doc(hidden)]
pub const fn are_apart(paths: &[&str]) -> bool {
    let mut one = 0;
    while one < paths.len() {
        let mut other = 0;
        while other < paths.len() {
            if one != other && is_within(paths[one].as_bytes(), paths[other].as_bytes()) {
                return false;
            }
            other += 1;
        }
        one += 1;
    }
    true
}

/// Whether two lists of paths are the same: a view that narrows none of its paths can be read from rows.
#[doc(hidden)]
pub const fn are_same(one: &[&str], other: &[&str]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at].len() != other[at].len() || !is_within(one[at].as_bytes(), other[at].as_bytes())
        {
            return false;
        }
        at += 1;
    }
    true
}

/// Whether any path has a filter, such as `[type=Ready]`.
const fn has_filters(paths: &[&str]) -> bool {
    let mut one = 0;
    while one < paths.len() {
        let path = paths[one].as_bytes();
        let mut at = 0;
        while at < path.len() {
            if path[at] == b'=' {
                return true;
            }
            at += 1;
        }
        one += 1;
    }
    false
}

const fn is_within(path: &[u8], above: &[u8]) -> bool {
    let mut at = 0;
    while at < above.len() {
        if at >= path.len() || path[at] != above[at] {
            return false;
        }
        at += 1;
    }
    at == path.len() || path[at] == b'.' || path[at] == b'['
}

/// Reads an object, or a row of its columns, into a struct's fields, in one pass and without a tree.
#[doc(hidden)]
pub fn collect<'de, S: Slots, D: Deserializer<'de>>(deserializer: D) -> Result<S, D::Error> {
    let mut slots = S::default();
    deserializer.deserialize_any(Whole(&mut slots))?;
    Ok(slots)
}

/// An object or a row.
struct Whole<'a, S>(&'a mut S);

impl<'de, S: Slots> Visitor<'de> for Whole<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let wanted: Vec<_> = S::PATHS.iter().copied().enumerate().collect();
        Level {
            slots: self.0,
            wanted: &wanted,
        }
        .visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<(), A::Error> {
        let mut slot = 0;
        while slot < S::PATHS.len()
            && row
                .next_element_seed(Fill {
                    slots: self.0,
                    slot,
                })?
                .is_some()
        {
            slot += 1;
        }
        if slot < S::PATHS.len() || row.next_element::<IgnoredAny>()?.is_some() {
            return Err(A::Error::invalid_length(
                slot,
                &"a row with a value for each column",
            ));
        }
        Ok(())
    }
}

/// One level of an object: what is wanted of it, as slots and the paths that lead there from here.
struct Level<'a, S> {
    slots: &'a mut S,
    wanted: &'a [(usize, &'static str)],
}

impl<'de, S: Slots> DeserializeSeed<'de> for Level<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Slots> Visitor<'de> for Level<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        // Known when it is compiled, so that views without filters don't carry the code for them.
        if !const { has_filters(S::PATHS) }
            || self
                .wanted
                .iter()
                .any(|(_, path)| split_filter(path).is_none())
        {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        self.visit_filtered(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(here) = map.next_key_seed(Step {
            wanted: self.wanted,
            lifetime: PhantomData,
        })? {
            match here.as_slice() {
                [] => drop(map.next_value::<IgnoredAny>()?),
                [(slot, "")] => map.next_value_seed(Fill {
                    slots: self.slots,
                    slot: *slot,
                })?,
                below => map.next_value_seed(Level {
                    slots: self.slots,
                    wanted: below,
                })?,
            }
        }
        Ok(())
    }
}

impl<'a, S: Slots> Level<'a, S> {
    /// Goes on below those elements of a list that a filter means; of several, the first that has something there counts.
    fn visit_filtered<'de, A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut left: Vec<_> = self.wanted.to_vec();
        while let Some(element) = list.next_element::<Value>()? {
            let means = |&(_, path): &(usize, &'static str)| {
                split_filter(path)
                    .is_some_and(|(field, value, _)| element[field].as_str() == Some(value))
            };
            let (meant, others) = left.into_iter().partition::<Vec<_>, _>(means);
            left = others;
            if meant.is_empty() {
                continue;
            }
            let below = |(slot, path)| (slot, split_filter(path).map_or("", |(_, _, rest)| rest));
            let wanted: Vec<_> = meant.into_iter().map(below).collect();
            match wanted.as_slice() {
                [(slot, "")] => self.slots.fill(*slot, element).map_err(A::Error::custom)?,
                _ => Level {
                    slots: self.slots,
                    wanted: &wanted,
                }
                .deserialize(element)
                .map_err(A::Error::custom)?,
            }
        }
        Ok(())
    }
}

/// Reads a key and answers what is wanted below it.
struct Step<'a> {
    wanted: &'a [(usize, &'static str)],
    lifetime: PhantomData<&'a ()>,
}

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = Vec<(usize, &'static str)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Step<'_> {
    type Value = Vec<(usize, &'static str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self
            .wanted
            .iter()
            .filter_map(|&(slot, path)| Some((slot, below(path, key)?)))
            .collect())
    }
}

/// Fills a slot.
struct Fill<'a, S> {
    slots: &'a mut S,
    slot: usize,
}

impl<'de, S: Slots> DeserializeSeed<'de> for Fill<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.slots.fill(self.slot, deserializer)
    }
}

/// What a path says below a key, if it leads there: `a.b` below `a` is `b`, `['x/y'].b` below `x/y` is `b`, `a` below `a` is
/// empty.
fn below<'a>(path: &'a str, key: &str) -> Option<&'a str> {
    let rest = match path.strip_prefix("['") {
        Some(quoted) => quoted.strip_prefix(key)?.strip_prefix("']")?,
        // A key with a dot is none that a path can name like this.
        None => path
            .strip_prefix(key)
            .filter(|_| !key.contains(['.', '[']))?,
    };
    match rest.as_bytes().first() {
        Some(b'.') => Some(&rest[1..]),
        Some(b'[') | None => Some(rest),
        Some(_) => None,
    }
}

/// A filter's field and value, and what follows it: `[type=Ready].status` → `type`, `Ready`, `status`.
fn split_filter(path: &str) -> Option<(&str, &str, &str)> {
    let (filter, rest) = path.strip_prefix('[')?.split_once(']')?;
    let (field, value) = filter.split_once('=')?;
    Some((field, value, rest.strip_prefix('.').unwrap_or(rest)))
}

#[cfg(test)]
mod tests {
    use super::{are_apart, below};
    use crate::meta::Meta;
    use crate::view::View;

    view! {
        #[derive(PartialEq)]
        struct Sample: "example.com/v1/Sample" {
            meta: Meta = "metadata" [".labels"],
            note: Option<String> = "metadata2.annotations['example.com/note']",
            replicas: i32 = "spec.replicas",
            names: Vec<String> = "spec.deep.names",
        }
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
    fn what_is_absent_or_null_is_the_default() {
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
    fn a_view_that_narrows_no_path_is_read_from_rows_as_from_objects() {
        view! {
            #[derive(PartialEq)]
            struct Flat: "example.com/v1/Sample" {
                name: String = "metadata.name",
                ready: Option<String> = "status.conditions[type=Ready].status",
                replicas: i32 = "spec.replicas",
            }
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
    fn a_view_is_read_from_a_tree_as_well() {
        let tree = serde_json::json!({"spec": {"replicas": 4}});
        assert_eq!(serde_json::from_value::<Sample>(tree).unwrap().replicas, 4);
    }

    #[test]
    fn a_path_leads_below_its_first_key_alone() {
        for (path, key, rest) in [
            ("a.b", "a", Some("b")),
            ("a", "a", Some("")),
            ("ab", "a", None),
            ("a.b", "a.b", None),
            ("a[x=y].b", "a", Some("[x=y].b")),
            ("['x/y.z'].b", "x/y.z", Some("b")),
            ("['x/y.z']['w']", "x/y.z", Some("['w']")),
            ("['x/y.z']", "x/y", None),
        ] {
            assert_eq!(below(path, key), rest, "{path} below {key}");
        }
    }

    #[test]
    fn paths_below_one_another_are_seen() {
        assert!(are_apart(&[
            "metadata",
            "spec.replicas",
            "spec.replicasMax",
            "spec.a['b']",
            "spec.a['c']"
        ]));
        assert!(!are_apart(&["metadata", "metadata.annotations['a']"]));
        assert!(!are_apart(&["spec.a", "spec.a"]));
    }

    #[test]
    fn the_fields_come_from_the_paths_and_suffixes() {
        let expected = [
            "metadata.labels",
            "metadata2.annotations['example.com/note']",
            "spec.replicas",
            "spec.deep.names",
        ];
        assert_eq!(Sample::FIELDS, expected);
    }
}
