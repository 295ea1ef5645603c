//! Merges the paths of a view into one tree, which is walked beside the object that is read.

use flyball_types::{Filter, Step};
use syn::{Error, LitStr, Result};

/// What is read at a place of an object.
#[derive(Debug, PartialEq)]
pub(crate) enum Tree {
    /// The value fills the field of this number.
    Slot { slot: usize, path: String },
    /// The value is an object, of which these fields are read.
    Object(Vec<(Box<str>, Tree)>),
    /// The value is a list, of which the first element that each filter matches is read.
    List(Vec<(Filter, Tree)>),
}

impl Default for Tree {
    fn default() -> Self {
        Self::Object(Vec::new())
    }
}

impl Tree {
    /// Adds a path. No path may lie below another one, since each part of an object fills one
    /// field.
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
        if matches!((&*self, first), (Self::Object(fields), Step::Where(_)) if fields.is_empty()) {
            *self = Self::List(Vec::new());
        }
        let below = match (self, first) {
            (Self::Object(fields), Step::Field(name)) => child(fields, name),
            (Self::List(elements), Step::Where(filter)) => child(elements, filter),
            (_, Step::Each) => {
                return fail(
                    "`[*]` stands for many values, and the field holds one: end the path before \
                     it, and name what is read of each element in `fields(\"[*].name\")`"
                        .into(),
                );
            }
            (Self::List(elements), Step::Field(_)) => {
                let other = elements.first().and_then(|(_, below)| below.any_path());
                return fail(format!(
                    "`{}` reads a list where this path reads an object",
                    other.unwrap_or_default()
                ));
            }
            (Self::Object(fields), Step::Where(_)) => {
                let other = fields.first().and_then(|(_, below)| below.any_path());
                return fail(format!(
                    "`{}` reads an object where this path reads a list",
                    other.unwrap_or_default()
                ));
            }
            (Self::Slot { .. }, _) => unreachable!("a slot was refused above"),
        };
        below.insert(literal, rest, slot)
    }

    /// One of the paths that lead here or below.
    fn any_path(&self) -> Option<String> {
        match self {
            Self::Slot { path, .. } => Some(path.clone()),
            Self::Object(fields) => fields.first()?.1.any_path(),
            Self::List(elements) => elements.first()?.1.any_path(),
        }
    }

    pub(crate) fn has_filters(&self) -> bool {
        match self {
            Self::Slot { .. } => false,
            Self::Object(fields) => fields.iter().any(|(_, tree)| tree.has_filters()),
            Self::List(_) => true,
        }
    }
}

/// The subtree of a step; a new one if there is none.
fn child<'a, K: PartialEq + Clone>(children: &'a mut Vec<(K, Tree)>, key: &K) -> &'a mut Tree {
    let known = children.iter().position(|(known, _)| known == key);
    let at = known.unwrap_or_else(|| {
        children.push((key.clone(), Tree::default()));
        children.len() - 1
    });
    &mut children[at].1
}
