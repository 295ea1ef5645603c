//! The values of an object that a router reads: each path is a column, with a number.

use flyball_types::{FieldPath, PathSet};

/// The number of a column of a router.
pub(super) type Column = usize;

/// The columns of a router while it is made.
#[derive(Default)]
pub(super) struct ColumnsOf(Vec<FieldPath>);

impl ColumnsOf {
    /// The column of a path; none if it does not parse.
    pub(super) fn add(&mut self, path: &str) -> Option<Column> {
        let path: FieldPath = path.parse().ok()?;
        let known = self.0.iter().position(|own| *own == path);
        Some(known.unwrap_or_else(|| {
            self.0.push(path);
            self.0.len() - 1
        }))
    }

    /// The paths of the columns, and the same paths for the search of an object.
    pub(super) fn into_paths(self) -> (Vec<FieldPath>, PathSet) {
        let set = PathSet::new(self.0.iter().cloned());
        (self.0, set)
    }
}
