//! Field masks: the fields of an object that are kept. The cache keeps the union of the masks of
//! its readers, and each reader gets its own part. `prune.rs` prunes JSON bytes by a mask.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use serde_json::value::RawValue;

use crate::path::Filter;
use crate::{FieldPath, PathError, Step};

/// A set of field paths, as a tree.
///
/// A mask always contains `metadata.name`, `metadata.namespace`, `metadata.uid` and
/// `metadata.resourceVersion`. It never contains `metadata.managedFields`, which are large and
/// unused, nor the top-level `apiVersion` and `kind`, which the items of a list lack and every
/// reader knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mask {
    root: Node,
}

/// The part of a mask at one place of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// The whole value is kept.
    All,
    /// Parts of the value are kept.
    Some {
        /// Parts of fields, sorted by name.
        fields: Vec<(Box<str>, Node)>,
        /// Part of each element of a list, or of each value of a map.
        each: Option<Box<Node>>,
        /// Parts of the elements that a filter selects.
        filtered: Vec<(Filter, Node)>,
    },
}

/// The fields of `metadata` that are always kept.
const IDENTITY: [&str; 4] = ["name", "namespace", "resourceVersion", "uid"];

impl Default for Mask {
    /// The mask of the identity fields.
    fn default() -> Self {
        let mut root = Node::none();
        for field in IDENTITY {
            root.add(FieldPath::of_fields(&["metadata", field]).steps());
        }
        Self { root }
    }
}

impl Mask {
    /// The mask of all fields that a mask may contain.
    pub fn whole() -> Self {
        Self { root: Node::All }
    }

    /// The mask of all metadata.
    pub fn metadata() -> &'static Self {
        static METADATA: LazyLock<Mask> =
            LazyLock::new(|| [FieldPath::of_fields(&["metadata"])].iter().collect());
        &METADATA
    }

    /// The mask of paths in text form.
    pub fn parse<T: AsRef<str>>(paths: impl IntoIterator<Item = T>) -> Result<Self, PathError> {
        let mut mask = Self::default();
        for path in paths {
            mask.add(&path.as_ref().parse()?);
        }
        Ok(mask)
    }

    /// Adds everything at a path, except fields that no mask contains.
    pub fn add(&mut self, path: &FieldPath) {
        let names: Vec<&str> = path
            .steps()
            .iter()
            .map_while(|step| {
                if let Step::Field(name) = step {
                    Some(&**name)
                } else {
                    None
                }
            })
            .collect();
        match names[..] {
            ["apiVersion" | "kind", ..] | ["metadata", "managedFields", ..] => {}
            _ => self.root.add(path.steps()),
        }
    }

    /// Adds another mask.
    pub fn unite(&mut self, other: &Self) {
        self.root.unite(&other.root);
    }

    /// The union of both masks.
    pub fn union(&self, other: &Self) -> Self {
        let mut mask = self.clone();
        mask.unite(other);
        mask
    }

    /// Whether this mask contains the other one.
    pub fn covers(&self, other: &Self) -> bool {
        self.root.covers(&other.root)
    }

    /// Whether the mask contains all fields that a mask may contain.
    pub fn is_whole(&self) -> bool {
        self.root == Node::All
    }

    /// The paths, sorted, including those of the identity.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut paths = Vec::new();
        self.root.paths(&mut Vec::new(), &mut paths);
        paths
    }

    /// The part at the top of an object.
    pub fn root(&self) -> &Node {
        &self.root
    }
}

impl<'a> FromIterator<&'a FieldPath> for Mask {
    fn from_iter<I: IntoIterator<Item = &'a FieldPath>>(paths: I) -> Self {
        let mut mask = Self::default();
        paths.into_iter().for_each(|path| mask.add(path));
        mask
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.paths().iter().map(FieldPath::to_string).collect();
        f.write_str(&paths.join(","))
    }
}

impl Node {
    fn none() -> Self {
        Self::Some {
            fields: Vec::new(),
            each: None,
            filtered: Vec::new(),
        }
    }

    /// The part of the field with this name.
    pub fn field(&self, name: &str) -> Option<&Node> {
        match self {
            Self::All => Some(self),
            // A few fields at most: looking at each is faster than searching.
            Self::Some { fields, each, .. } => {
                match fields.iter().find(|(field, _)| **field == *name) {
                    Some((_, node)) => Some(node),
                    None => each.as_deref(),
                }
            }
        }
    }

    /// The part of each element of a list, whatever filters select.
    pub fn element(&self) -> Option<&Node> {
        match self {
            Self::All => Some(self),
            Self::Some { each, .. } => each.as_deref(),
        }
    }

    /// Whether pruning must inspect list elements.
    pub fn is_filtered(&self) -> bool {
        matches!(self, Self::Some { filtered, .. } if !filtered.is_empty())
    }

    /// The part of this element of a list.
    pub(crate) fn element_like(&self, element: &RawValue) -> Option<Cow<'_, Node>> {
        let Self::Some { filtered, .. } = self else {
            return Some(Cow::Borrowed(self));
        };
        let meant = filtered
            .iter()
            .filter(|(filter, _)| filter.matches(element))
            .map(|(_, node)| Cow::Borrowed(node));
        let both = |mut one: Cow<'_, Node>, other: Cow<'_, Node>| {
            one.to_mut().unite(&other);
            Cow::Owned(one.into_owned())
        };
        meant
            .reduce(both)
            .or_else(|| self.element().map(Cow::Borrowed))
    }

    fn add(&mut self, steps: &[Step]) {
        let Some((step, rest)) = steps.split_first() else {
            *self = Self::All;
            return;
        };
        let Self::Some {
            fields,
            each,
            filtered,
        } = self
        else {
            return;
        };
        match step {
            Step::Each => each.get_or_insert_with(|| Box::new(Self::none())).add(rest),
            Step::Where(filter) => {
                let node = entry(filtered, filter);
                // What is kept can be filtered again.
                node.add(&[Step::Field(filter.field.clone())]);
                node.add(rest);
            }
            Step::Field(name) => entry(fields, name).add(rest),
        }
        self.spread();
    }

    fn unite(&mut self, other: &Self) {
        let (fields, each, filtered) = match other {
            Self::All => {
                *self = Self::All;
                return;
            }
            Self::Some {
                fields,
                each,
                filtered,
            } => (fields, each, filtered),
        };
        let Self::Some {
            fields: own,
            each: own_each,
            filtered: own_filtered,
        } = self
        else {
            return;
        };
        fields
            .iter()
            .for_each(|(name, node)| entry(own, name).unite(node));
        filtered
            .iter()
            .for_each(|(filter, node)| entry(own_filtered, filter).unite(node));
        match (own_each.as_deref_mut(), each) {
            (Some(own), Some(each)) => own.unite(each),
            (None, Some(each)) => *own_each = Some(each.clone()),
            (_, None) => {}
        }
        self.spread();
    }

    /// Merges the part of every value into the named and the filtered parts, so that one node
    /// describes a value completely.
    fn spread(&mut self) {
        if let Self::Some {
            fields,
            each: Some(each),
            filtered,
        } = self
        {
            fields.iter_mut().for_each(|(_, node)| node.unite(each));
            filtered.iter_mut().for_each(|(_, node)| node.unite(each));
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (_, Self::All) => false,
            (
                Self::Some { filtered: own, .. },
                Self::Some {
                    fields,
                    each,
                    filtered,
                },
            ) => {
                let meant = |wanted: &Filter| {
                    own.iter()
                        .find(|(filter, _)| filter == wanted)
                        .map(|(_, node)| node)
                };
                fields
                    .iter()
                    .all(|(name, node)| self.field(name).is_some_and(|own| own.covers(node)))
                    && filtered.iter().all(|(filter, node)| {
                        meant(filter)
                            .or(self.element())
                            .is_some_and(|own| own.covers(node))
                    })
                    && each
                        .as_ref()
                        .is_none_or(|each| self.element().is_some_and(|own| own.covers(each)))
            }
        }
    }

    fn paths(&self, steps: &mut Vec<Step>, paths: &mut Vec<FieldPath>) {
        let Self::Some {
            fields,
            each,
            filtered,
        } = self
        else {
            return paths.push(FieldPath::of_steps(steps.clone()));
        };
        for (step, node) in fields
            .iter()
            .map(|(name, node)| (Step::Field(name.clone()), node))
            .chain(each.iter().map(|node| (Step::Each, &**node)))
            .chain(
                filtered
                    .iter()
                    .map(|(filter, node)| (Step::Where(filter.clone()), node)),
            )
        {
            steps.push(step);
            node.paths(steps, paths);
            steps.pop();
        }
    }
}

/// The node of a name or filter in a sorted list. If there is none, an empty node is inserted.
fn entry<'a, K: Ord + Clone>(nodes: &'a mut Vec<(K, Node)>, key: &K) -> &'a mut Node {
    let at = nodes
        .binary_search_by(|(own, _)| own.cmp(key))
        .unwrap_or_else(|at| {
            nodes.insert(at, (key.clone(), Node::none()));
            at
        });
    &mut nodes[at].1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(paths: &[&str]) -> Mask {
        Mask::parse(paths).unwrap()
    }

    #[test]
    fn the_identity_is_always_there_and_managed_fields_never() {
        let identity = "metadata.name,metadata.namespace,metadata.resourceVersion,metadata.uid";
        assert_eq!(
            mask(&["metadata.managedFields", "kind", "apiVersion"]).to_string(),
            identity
        );
        assert!(mask(&["spec"]).covers(&Mask::default()));
    }

    #[test]
    fn a_union_covers_both_and_nothing_else() {
        let (a, b) = (
            mask(&["spec.a.b", "spec.list[*].x"]),
            mask(&["spec.a", "status"]),
        );
        let both = a.union(&b);
        assert!(both.covers(&a) && both.covers(&b) && !a.covers(&b) && !b.covers(&a));
        assert_eq!(both, mask(&["spec.a", "spec.list[*].x", "status"]));
        assert_eq!(both.union(&Mask::whole()), Mask::whole());
        assert!(Mask::whole().covers(&both) && !both.covers(&Mask::whole()));
        assert!(Mask::metadata().covers(&Mask::default()));
    }

    #[test]
    fn what_holds_for_each_value_holds_for_a_named_one() {
        let both = mask(&["data[*].x", "data.key.y"]);
        assert!(both.covers(&mask(&["data.key.x"])));
        assert!(both.covers(&mask(&["data.other.x"])));
        assert!(!both.covers(&mask(&["data.other.y"])));
    }

    #[test]
    fn what_is_filtered_is_covered_by_the_same_filter_and_by_all_elements() {
        let ready = mask(&["status.conditions[type=Ready].status"]);
        assert!(ready.covers(&mask(&["status.conditions[type=Ready].type"])));
        assert!(!ready.covers(&mask(&["status.conditions[type=Ready].reason"])));
        assert!(!ready.covers(&mask(&["status.conditions[type=Scheduled].status"])));
        assert!(!ready.covers(&mask(&["status.conditions[*].status"])));
        let each = mask(&["status.conditions[*].type", "status.conditions[*].status"]);
        assert!(each.covers(&ready));
        assert!(!mask(&["status.conditions[*].status"]).covers(&ready));
        let both = each.union(&mask(&["status.conditions[type=Ready].reason"]));
        assert!(both.covers(&mask(&[
            "status.conditions[type=Ready].reason",
            "status.conditions[type=Other].status"
        ])));
        assert_eq!(
            Mask::parse(both.paths().iter().map(FieldPath::to_string)).unwrap(),
            both
        );
    }
}
