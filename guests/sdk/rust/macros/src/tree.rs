//! Merges the paths of a view into one tree, which mirrors the object.

use flyball_types::{Filter, Step};
use syn::{Error, LitStr, Result};

/// How a value in an object is read.
#[derive(Debug, PartialEq)]
pub(crate) enum Tree {
    /// The value fills the field with this index.
    Slot { slot: usize, path: String },
    /// The value is an object with these fields.
    Object(Vec<(Box<str>, Tree)>),
    /// The value is a list. Each filter reads the first element that it matches.
    List(Vec<(Filter, Tree)>),
    /// The value is a list or a map. Each element, or each value of the map, is read.
    Each(Box<Tree>),
}

impl Default for Tree {
    fn default() -> Self {
        Self::Object(Vec::new())
    }
}

impl Tree {
    /// Adds a path. No path may be below another one, because each part of an object fills at most
    /// one field.
    pub(crate) fn insert(&mut self, literal: &LitStr, steps: &[Step], slot: usize) -> Result<()> {
        let fail = |message: String| Err(Error::new(literal.span(), message));
        let text = literal.value();
        let Some((first, rest)) = steps.split_first() else {
            return match self.any_path() {
                None => {
                    *self = Self::Slot { slot, path: text };
                    Ok(())
                }
                Some(other) if matches!(self, Self::Slot { .. }) => {
                    fail(format!("another field reads `{other}` already"))
                }
                Some(other) => fail(format!(
                    "`{other}`, which another field reads, lies below this path"
                )),
            };
        };
        if let Self::Slot { path, .. } = self {
            return fail(format!(
                "this path lies below `{path}`, which another field reads"
            ));
        }
        if matches!(&*self, Self::Object(fields) if fields.is_empty()) {
            match first {
                Step::Field(_) => {}
                Step::Where(_) => *self = Self::List(Vec::new()),
                Step::Each => *self = Self::Each(Box::default()),
            }
        }
        let other = self.any_path().unwrap_or_default();
        let below = match (self, first) {
            (Self::Object(fields), Step::Field(name)) => child(fields, name),
            (Self::List(elements), Step::Where(filter)) => child(elements, filter),
            (Self::Each(below), Step::Each) => below,
            (Self::List(_), Step::Field(_)) => {
                return fail(format!(
                    "`{other}` reads a list where this path reads an object"
                ));
            }
            (Self::Object(_), Step::Where(_)) => {
                return fail(format!(
                    "`{other}` reads an object where this path reads a list"
                ));
            }
            (Self::Each(_), _) => {
                return fail(format!(
                    "`{other}` reads each element where this path reads one: read all in one field, with \
                     `fields(...)` for what is read of each"
                ));
            }
            (_, Step::Each) => {
                return fail(format!(
                    "`{other}` reads one element where this path reads each: read all in one field, with \
                     `fields(...)` for what is read of each"
                ));
            }
            (Self::Slot { .. }, _) => unreachable!("a slot was rejected above"),
        };
        below.insert(literal, rest, slot)
    }

    /// Returns any path in this subtree.
    fn any_path(&self) -> Option<String> {
        match self {
            Self::Slot { path, .. } => Some(path.clone()),
            Self::Object(fields) => fields.first()?.1.any_path(),
            Self::List(elements) => elements.first()?.1.any_path(),
            Self::Each(below) => below.any_path(),
        }
    }

    pub(crate) fn has_filters(&self) -> bool {
        match self {
            Self::Slot { .. } => false,
            Self::Object(fields) => fields.iter().any(|(_, tree)| tree.has_filters()),
            Self::List(_) => true,
            Self::Each(below) => below.has_filters(),
        }
    }

    /// Whether a path has a `[*]`.
    pub(crate) fn has_many(&self) -> bool {
        match self {
            Self::Slot { .. } => false,
            Self::Object(fields) => fields.iter().any(|(_, tree)| tree.has_many()),
            Self::List(elements) => elements.iter().any(|(_, tree)| tree.has_many()),
            Self::Each(_) => true,
        }
    }
}

/// Returns the subtree of a step, and creates it if needed.
fn child<'a, K: PartialEq + Clone>(children: &'a mut Vec<(K, Tree)>, key: &K) -> &'a mut Tree {
    let known = children.iter().position(|(known, _)| known == key);
    let at = known.unwrap_or_else(|| {
        children.push((key.clone(), Tree::default()));
        children.len() - 1
    });
    &mut children[at].1
}
