//! Field masks: the fields of an object that are kept. The cache keeps the union of the masks of its readers, and each
//! reader gets its own part. `prune.rs` prunes JSON bytes by a mask.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use crate::path::Filter;
use crate::{FieldPath, PathError, Step};

/// The maximum number of nodes of a mask. A plugin's paths need a few dozen.
const MAX_NODES: usize = 4096;

/// The maximum number of node visits while a mask is built. The part of `[*]` is merged into every named part beside
/// it, which doubles the mask with each path of `a.z`, `[*].b.z`, `[*][*].c.z`, …
const MAX_VISITS: usize = 16 * MAX_NODES;

/// The maximum number of filters of one list. Pruning compares each element with all of them...
const MAX_FILTERS: usize = 32;

/// ...and unites the parts of the filters that select it, with at most this many node visits.
const MAX_FILTERED_VISITS: usize = 1024;

/// Field paths that can't be made into a mask. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    #[error(transparent)]
    Path(#[from] PathError),
    /// The paths together are too complex.
    #[error(
        "the field paths are too complex: they need more than {MAX_NODES} nodes or {MAX_FILTERS} filters of one list; use \
         fewer paths, or fewer with `[*]` and `[key=value]`"
    )]
    TooComplex,
}

/// A set of field paths, as a tree.
///
/// A mask always contains `metadata.name`, `metadata.namespace`, `metadata.uid` and `metadata.resourceVersion`. It
/// never contains `metadata.managedFields`, which are large and unused, nor the top-level `apiVersion` and `kind`,
/// which the items of a list lack and every reader knows.
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
        let field = |name: &str| (Box::from(name), Node::All);
        let metadata = Node::Some {
            fields: IDENTITY.into_iter().map(field).collect(),
            each: None,
            filtered: Vec::new(),
        };
        let root = Node::Some {
            fields: vec![("metadata".into(), metadata)],
            each: None,
            filtered: Vec::new(),
        };
        Self { root }
    }
}

/// The node visits that are left while masks are united.
struct Visits(usize);

impl Visits {
    fn at_most(count: usize) -> Self {
        Self(count)
    }

    /// Counts one. Fails if none is left.
    fn count(&mut self) -> Result<(), MaskError> {
        self.0 = self.0.checked_sub(1).ok_or(MaskError::TooComplex)?;
        Ok(())
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
            LazyLock::new(|| Mask::from(&FieldPath::of_fields(&["metadata"])));
        &METADATA
    }

    /// The mask of paths in text form.
    ///
    /// # Errors
    /// A path does not parse, or the paths together are too complex.
    pub fn parse<T: AsRef<str>>(paths: impl IntoIterator<Item = T>) -> Result<Self, MaskError> {
        let paths = paths.into_iter().map(|path| path.as_ref().parse());
        let paths: Vec<FieldPath> = paths.collect::<Result<_, _>>()?;
        Self::of(&paths)
    }

    /// The mask of everything at these paths, except fields that no mask contains.
    ///
    /// # Errors
    /// The paths together are too complex.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a FieldPath>) -> Result<Self, MaskError> {
        let (mut mask, mut visits) = (Self::default(), Visits::at_most(MAX_VISITS));
        for path in paths {
            mask.add(path, &mut visits)?;
        }
        mask.checked()
    }

    fn add(&mut self, path: &FieldPath, visits: &mut Visits) -> Result<(), MaskError> {
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
            ["apiVersion" | "kind", ..] | ["metadata", "managedFields", ..] => Ok(()),
            _ => self.root.add(path.steps(), visits),
        }
    }

    /// The union of both masks.
    ///
    /// # Errors
    /// Both together are too complex.
    pub fn union(&self, other: &Self) -> Result<Self, MaskError> {
        let mut mask = self.clone();
        mask.root
            .unite(&other.root, &mut Visits::at_most(MAX_VISITS))?;
        mask.checked()
    }

    fn checked(self) -> Result<Self, MaskError> {
        let nodes = self.root.check()?;
        match nodes <= MAX_NODES {
            true => Ok(self),
            false => Err(MaskError::TooComplex),
        }
    }

    /// Whether this mask contains the other one.
    pub fn covers(&self, other: &Self) -> bool {
        self.root.covers(&other.root)
    }

    /// Estimates the bytes that it holds.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.root.size()
    }

    /// Whether the mask contains all fields that a mask may contain.
    pub fn is_whole(&self) -> bool {
        self.root == Node::All
    }

    /// The paths, sorted, including the paths of the identity.
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

/// The mask of one path, which is never too complex.
impl From<&FieldPath> for Mask {
    fn from(path: &FieldPath) -> Self {
        Self::of([path]).expect("one path is a mask")
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
            // There are only a few fields, so that a linear search is fastest.
            Self::Some { fields, each, .. } => {
                match fields.iter().find(|(field, _)| **field == *name) {
                    Some((_, node)) => Some(node),
                    None => each.as_deref(),
                }
            }
        }
    }

    /// The part of each element of a list, whether filters select it or not.
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
    pub(crate) fn element_like(&self, element: &str) -> Option<Cow<'_, Node>> {
        let Self::Some { filtered, .. } = self else {
            return Some(Cow::Borrowed(self));
        };
        let meant = filtered
            .iter()
            .filter(|(filter, _)| filter.matches(element))
            .map(|(_, node)| Cow::Borrowed(node));
        let both = |mut one: Cow<'_, Node>, other: Cow<'_, Node>| {
            // It can't fail: `Node::check` has united all of them.
            let _ = one.to_mut().unite(&other, &mut Visits::at_most(MAX_VISITS));
            Cow::Owned(one.into_owned())
        };
        meant
            .reduce(both)
            .or_else(|| self.element().map(Cow::Borrowed))
    }

    fn add(&mut self, steps: &[Step], visits: &mut Visits) -> Result<(), MaskError> {
        visits.count()?;
        let Some((step, rest)) = steps.split_first() else {
            *self = Self::All;
            return Ok(());
        };
        let Self::Some {
            fields,
            each,
            filtered,
        } = self
        else {
            return Ok(());
        };
        match step {
            Step::Each => each
                .get_or_insert_with(|| Box::new(Self::none()))
                .add(rest, visits)?,
            Step::Where(filter) => {
                let node = entry(filtered, filter);
                // Keep the field of the filter, so that the result can be filtered again.
                node.add(&[Step::Field(filter.field.clone())], visits)?;
                node.add(rest, visits)?;
            }
            Step::Field(name) => entry(fields, name).add(rest, visits)?,
        }
        self.spread(visits)
    }

    fn unite(&mut self, other: &Self, visits: &mut Visits) -> Result<(), MaskError> {
        visits.count()?;
        let (fields, each, filtered) = match other {
            Self::All => {
                *self = Self::All;
                return Ok(());
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
            return Ok(());
        };
        for (name, node) in fields {
            entry(own, name).unite(node, visits)?;
        }
        for (filter, node) in filtered {
            entry(own_filtered, filter).unite(node, visits)?;
        }
        if let Some(each) = each {
            own_each
                .get_or_insert_with(|| Box::new(Self::none()))
                .unite(each, visits)?;
        }
        self.spread(visits)
    }

    /// Merges the part of every value into the named and the filtered parts, so that one node describes a value
    /// completely.
    fn spread(&mut self, visits: &mut Visits) -> Result<(), MaskError> {
        let Self::Some {
            fields,
            each,
            filtered,
        } = self
        else {
            return Ok(());
        };
        if let Some(each) = each {
            for (_, node) in fields.iter_mut() {
                node.unite(each, visits)?;
            }
            for (_, node) in filtered.iter_mut() {
                node.unite(each, visits)?;
            }
        }
        Ok(())
    }

    /// The bytes behind it.
    fn size(&self) -> usize {
        let Self::Some {
            fields,
            each,
            filtered,
        } = self
        else {
            return 0;
        };
        let field = |(name, node): &(Box<str>, Self)| {
            size_of::<(Box<str>, Self)>() + name.len() + node.size()
        };
        let filtered_part = |(filter, node): &(Filter, Self)| {
            size_of::<(Filter, Self)>() + filter.size() + node.size()
        };
        fields.iter().map(field).sum::<usize>()
            + each
                .iter()
                .map(|node| size_of::<Self>() + node.size())
                .sum::<usize>()
            + filtered.iter().map(filtered_part).sum::<usize>()
    }

    /// Counts the nodes. Fails if pruning an element of a list could cost too much.
    fn check(&self) -> Result<usize, MaskError> {
        let Self::Some {
            fields,
            each,
            filtered,
        } = self
        else {
            return Ok(1);
        };
        if filtered.len() > MAX_FILTERS {
            return Err(MaskError::TooComplex);
        }
        let (mut all, mut visits) = (Self::none(), Visits::at_most(MAX_FILTERED_VISITS));
        for (_, node) in filtered {
            all.unite(node, &mut visits)?;
        }
        let fields = fields.iter().map(|(_, node)| node);
        let filtered = filtered.iter().map(|(_, node)| node);
        let parts = fields.chain(filtered).chain(each.as_deref());
        parts
            .map(Self::check)
            .try_fold(1, |sum, part| Ok(sum + part?))
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
    entry_or(nodes, key, Node::none)
}

/// The value of a key in a sorted list. If there is none, `empty` is inserted.
pub(crate) fn entry_or<'a, K: Ord + Clone, V>(
    nodes: &'a mut Vec<(K, V)>,
    key: &K,
    empty: impl FnOnce() -> V,
) -> &'a mut V {
    let at = nodes
        .binary_search_by(|(own, _)| own.cmp(key))
        .unwrap_or_else(|at| {
            nodes.insert(at, (key.clone(), empty()));
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
        let both = a.union(&b).unwrap();
        assert!(both.covers(&a) && both.covers(&b) && !a.covers(&b) && !b.covers(&a));
        assert_eq!(both, mask(&["spec.a", "spec.list[*].x", "status"]));
        assert_eq!(both.union(&Mask::whole()), Ok(Mask::whole()));
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
        let both = each
            .union(&mask(&["status.conditions[type=Ready].reason"]))
            .unwrap();
        assert!(both.covers(&mask(&[
            "status.conditions[type=Ready].reason",
            "status.conditions[type=Other].status"
        ])));
        assert_eq!(
            Mask::parse(both.paths().iter().map(FieldPath::to_string)).unwrap(),
            both
        );
    }

    #[test]
    fn paths_that_would_double_the_mask_each_are_refused() {
        let paths = |count: usize| {
            (0..count).map(|n| match n {
                0 => "a0.z".to_owned(),
                n => format!("{}.a{n}.z", "[*]".repeat(n)),
            })
        };
        assert!(Mask::parse(paths(5)).is_ok());
        for count in [16, 23, 100] {
            assert_eq!(Mask::parse(paths(count)), Err(MaskError::TooComplex));
        }
        // Masks that are accepted one by one, united.
        let union = paths(60).try_fold(Mask::default(), |union, path| {
            union.union(&Mask::parse([path]).unwrap())
        });
        assert_eq!(union, Err(MaskError::TooComplex));
    }

    #[test]
    fn the_size_of_a_mask_grows_with_all_of_its_parts() {
        let size = |paths: &[&str]| mask(paths).size();
        let least = size(&[]);
        let long = "x".repeat(1000);
        // The field of a filter is kept, too.
        for path in [
            long.as_str(),
            &format!("a[*].{long}"),
            &format!("a[{long}=b].c"),
        ] {
            let added = size(&[path]) - least;
            assert!((1000..3000).contains(&added), "{path}: {added}");
        }
        assert!(size(&["a.b", "c.d"]) > size(&["a.b"]));
    }

    #[test]
    fn the_longest_path_is_a_mask() {
        for step in ["a", "[*]", "a[b=c]", "[b=c]", "[*][b=c]"] {
            let path = |count: usize| vec![step; count].join(if step == "a" { "." } else { "" });
            let mut paths = (1..=128).filter_map(|count| {
                let text = path(count).replace("]a", "].a");
                text.parse::<FieldPath>().ok()
            });
            let longest = paths.next_back().expect("some are paths");
            assert!(longest.steps().len() > 120, "{step}");
            assert!(Mask::from(&longest).covers(&Mask::default()));
        }
    }

    #[test]
    fn many_fields_and_many_filters_of_one_list_are_refused() {
        let fields = |count: usize| Mask::parse((0..count).map(|n| format!("spec.f{n}")));
        assert!(fields(1000).is_ok());
        assert_eq!(fields(MAX_NODES), Err(MaskError::TooComplex));
        let filters = |count: usize| Mask::parse((0..count).map(|n| format!("list[name=f{n}].x")));
        assert!(filters(MAX_FILTERS).is_ok());
        assert_eq!(filters(MAX_FILTERS + 1), Err(MaskError::TooComplex));
    }
}
