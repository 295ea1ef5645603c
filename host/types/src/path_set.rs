//! A set of paths that an object is searched for at once. Whoever reads many values of an object, for itself or for
//! others, then pays for one search, however many paths there are.
//!
//! The paths have numbers, which their owner assigns. The result of a search is [`Places`]: where in the JSON the values
//! begin and end. Places are small and borrow nothing, so they can be kept beside the object.
//!
//! ```
//! use flyball_types::PathSet;
//!
//! let paths = PathSet::new(["spec.nodeName", "status.phase"].map(|path| path.parse().unwrap()));
//! let pod = br#"{"spec":{"nodeName":"n1"},"status":{"phase":"Running"}}"#;
//! let later = br#"{"spec":{"nodeName":"n1"},"status":{"phase":"Failed"}}"#;
//! let (places, of_later) = (paths.find(pod), paths.find(later));
//! assert!(places.values(1, pod).eq([r#""Running""#]));
//! assert_eq!(*paths.differences((&places, pod), (&of_later, later)), [0b10]);
//! ```

use crate::search::{NotJson, search};
use crate::tree::Tree;
use crate::{FieldPath, Step};

/// The value of a path that has none.
const NONE: &str = "null";

/// Paths by their numbers.
#[derive(Clone, Debug, Default)]
pub struct PathSet {
    tree: Tree,
    /// For each number, whether all values at the path count. If not, the first one does.
    many: Vec<bool>,
}

/// The places of the values at the paths of a set, in the JSON of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Sorted by path, and by the order in the text.
    all: Box<[Place]>,
}

/// The bytes of a value at a path. Objects are much shorter than 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    path: u32,
    start: u32,
    end: u32,
}

impl PathSet {
    /// Numbers paths from 0 on.
    pub fn new(paths: impl IntoIterator<Item = FieldPath>) -> Self {
        Self::numbered(paths.into_iter().map(Some))
    }

    /// Numbers paths from 0 on. `None` leaves a number unused.
    pub fn numbered(paths: impl IntoIterator<Item = Option<FieldPath>>) -> Self {
        let mut set = Self::default();
        for (number, path) in paths.into_iter().enumerate() {
            set.many.push(false);
            if let Some(path) = path {
                set.many[number] = path.steps().contains(&Step::Each);
                set.tree.add(number, path.steps());
            }
        }
        set
    }

    /// The number of paths, unused numbers included.
    pub fn count(&self) -> usize {
        self.many.len()
    }

    /// Finds the values at all paths in the JSON of an object that was parsed before. The search ends at a syntax error.
    pub fn find(&self, json: &[u8]) -> Places {
        let mut all = Vec::with_capacity(self.many.len());
        if let Ok(text) = std::str::from_utf8(json)
            && !self.many.is_empty()
        {
            let begin = text.as_ptr().addr();
            let _ = search(text, &self.tree, &mut |path, value: &str| {
                let start = value.as_ptr().addr() - begin;
                // A number that doesn't fit would be of an object that no server stores.
                let number = |number: usize| u32::try_from(number).map_err(|_| NotJson::at(start));
                all.push(Place {
                    path: number(path)?,
                    start: number(start)?,
                    end: number(start + value.len())?,
                });
                Ok::<(), NotJson>(())
            });
        }
        all.sort_unstable();
        Places { all: all.into() }
    }

    /// The paths whose values differ between two objects: the bit of each path's number, in words of 64. Without a `[*]`
    /// in the path, the first value counts, and a missing one is `null`.
    pub fn differences(&self, one: (&Places, &[u8]), other: (&Places, &[u8])) -> Box<[u64]> {
        let mut words = vec![0; self.count().div_ceil(64)];
        let (mut left, mut other_left) = (&*one.0.all, &*other.0.all);
        for (path, many) in self.many.iter().enumerate() {
            let own = take_path(&mut left, path);
            let other_own = take_path(&mut other_left, path);
            let values = values_at(own, one.1);
            if differ(values, values_at(other_own, other.1), *many) {
                words[path / 64] |= 1 << (path % 64);
            }
        }
        words.into()
    }
}

impl Places {
    /// The values at a path, in the order of the text. `json` must be the object that was searched.
    pub fn values<'a>(
        &self,
        path: usize,
        json: &'a [u8],
    ) -> impl Iterator<Item = &'a str> + use<'a, '_> {
        let first = self
            .all
            .partition_point(|place| (place.path as usize) < path);
        values_at(take_path(&mut &self.all[first..], path), json)
    }
}

/// Takes the places of a path from the beginning of those that are left.
fn take_path<'p>(left: &mut &'p [Place], path: usize) -> &'p [Place] {
    let is_own = |place: &&Place| place.path as usize == path;
    let (own, rest) = left.split_at(left.iter().take_while(is_own).count());
    *left = rest;
    own
}

fn values_at<'a>(places: &[Place], json: &'a [u8]) -> impl Iterator<Item = &'a str> {
    places.iter().filter_map(|place| {
        let value = json.get(place.start as usize..place.end as usize)?;
        std::str::from_utf8(value).ok()
    })
}

/// Whether the values at a path differ. If not `many`, the first one counts.
fn differ<'a>(
    mut one: impl Iterator<Item = &'a str>,
    mut other: impl Iterator<Item = &'a str>,
    many: bool,
) -> bool {
    match many {
        true => !one.eq(other),
        false => one.next().unwrap_or(NONE) != other.next().unwrap_or(NONE),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::Columns;
    use crate::search::tests::{arb_json, arb_path};

    /// The values at a path, in a parsed object.
    fn reference<'a>(steps: &[Step], value: &'a Value, found: &mut Vec<&'a Value>) {
        let Some((step, rest)) = steps.split_first() else {
            return found.push(value);
        };
        let is_selected = |filter: &crate::Filter, element: &Value| {
            element.get(&*filter.field).and_then(Value::as_str) == Some(&*filter.value)
        };
        let below: Vec<&Value> = match (step, value) {
            (Step::Field(name), Value::Object(fields)) => fields.get(&**name).into_iter().collect(),
            (Step::Each, Value::Array(elements)) => elements.iter().collect(),
            (Step::Each, Value::Object(fields)) => fields.values().collect(),
            (Step::Where(filter), Value::Array(elements)) => elements
                .iter()
                .filter(|element| is_selected(filter, element))
                .collect(),
            _ => Vec::new(),
        };
        below
            .into_iter()
            .for_each(|value| reference(rest, value, found));
    }

    proptest! {
        #[test]
        fn one_search_finds_the_values_of_each_path(
            objects in [arb_json(), arb_json()],
            paths in proptest::collection::vec(proptest::option::of(arb_path()), 0..8),
        ) {
            let texts = objects.clone().map(|object| object.to_string());
            let set = PathSet::numbered(paths.iter().cloned());
            let places = [0, 1].map(|at| set.find(texts[at].as_bytes()));
            let seen = |at: usize| (&places[at], texts[at].as_bytes());
            let differences = set.differences(seen(0), seen(1));
            for (number, path) in paths.iter().enumerate() {
                let expected = [0, 1].map(|at| {
                    let mut found = Vec::new();
                    if let Some(path) = path {
                        reference(path.steps(), &objects[at], &mut found);
                    }
                    found
                });
                for at in [0, 1] {
                    let values = places[at].values(number, texts[at].as_bytes());
                    let values: Vec<Value> = values.map(|value| serde_json::from_str(value).unwrap()).collect();
                    prop_assert_eq!(values.iter().collect::<Vec<_>>(), expected[at].clone());
                }
                let differs = differences[number / 64] >> (number % 64) & 1 == 1;
                let is_many = path.as_ref().is_some_and(|path| path.steps().contains(&Step::Each));
                let [one, other] = expected;
                let first = |values: &[&Value]| values.first().map_or(Value::Null, |value| (*value).clone());
                prop_assert_eq!(differs, if is_many { one != other } else { first(&one) != first(&other) });
            }
        }

        #[test]
        fn a_path_differs_if_its_column_does(objects in [arb_json(), arb_json()], path in arb_path()) {
            let texts = objects.map(|object| object.to_string());
            let set = PathSet::new([path.clone()]);
            let columns = Columns::new([path]).unwrap();
            let row = |text: &str| {
                let mut row = Vec::new();
                columns.row(text.as_bytes(), &mut row, usize::MAX).unwrap();
                row
            };
            let places = [0, 1].map(|at| set.find(texts[at].as_bytes()));
            let seen = |at: usize| (&places[at], texts[at].as_bytes());
            let differs = *set.differences(seen(0), seen(1)) == [1];
            prop_assert_eq!(differs, row(&texts[0]) != row(&texts[1]));
        }
    }

    #[test]
    fn a_number_outside_the_set_has_no_values() {
        let set = PathSet::numbered([None, Some("a".parse().unwrap())]);
        let json = br#"{"a":1}"#;
        let places = set.find(json);
        assert_eq!(set.count(), 2);
        assert!(places.values(1, json).eq(["1"]));
        let nothing = Places::default();
        assert_eq!(*set.differences((&places, json), (&nothing, b"")), [0b10]);
        for number in [0, 2, 9] {
            assert_eq!(places.values(number, json).count(), 0);
        }
    }
}
