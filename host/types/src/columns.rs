//! Columns: the values at some paths of an object. A row holds only these values, without field names, so that reading
//! many objects costs few bytes.

use crate::search::{NotJson, search};
use crate::tree::Tree;
use crate::{FieldPath, Mask, MaskError, Step};

/// The maximum number of columns of a row.
const MAX_COLUMNS: usize = 256;

/// A row that can't be made. A retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    #[error("can't decode an object of the API")]
    Json(#[from] NotJson),
    /// The values have more bytes than this limit.
    #[error("the values of a row have more than {0} bytes: ask for fewer or smaller fields")]
    TooLarge(usize),
}

/// The paths of a row's values.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    paths: Vec<FieldPath>,
    tree: Tree,
    /// The mask of the paths.
    mask: Mask,
}

/// Why a search for a row's values ended.
enum Stop {
    NotJson(NotJson),
    /// The values are too large.
    Full,
}

impl From<NotJson> for Stop {
    fn from(error: NotJson) -> Self {
        Self::NotJson(error)
    }
}

impl PartialEq for Columns {
    fn eq(&self, other: &Self) -> bool {
        self.paths == other.paths
    }
}

impl Eq for Columns {}

impl Columns {
    /// The columns of paths in text form.
    ///
    /// # Errors
    /// One is not a field path, there are more than [`MAX_COLUMNS`], or they are too complex for a mask.
    pub fn parse<T: AsRef<str>>(paths: impl IntoIterator<Item = T>) -> Result<Self, MaskError> {
        let paths = paths.into_iter().map(|path| path.as_ref().parse());
        Self::new(paths.collect::<Result<Vec<_>, _>>()?)
    }

    /// The columns of these paths.
    ///
    /// # Errors
    /// There are more than [`MAX_COLUMNS`], or they are too complex for a mask.
    pub fn new(paths: impl IntoIterator<Item = FieldPath>) -> Result<Self, MaskError> {
        let paths: Vec<FieldPath> = paths.into_iter().collect();
        if paths.len() > MAX_COLUMNS {
            return Err(MaskError::TooComplex);
        }
        let mut tree = Tree::default();
        for (column, path) in paths.iter().enumerate() {
            tree.add(column, path.steps());
        }
        Ok(Self {
            mask: Mask::of(&paths)?,
            tree,
            paths,
        })
    }

    /// The number of columns.
    pub fn count(&self) -> usize {
        self.paths.len()
    }

    /// Estimates the bytes that they hold.
    pub fn size(&self) -> usize {
        self.mask.size() + self.tree.size() + self.paths.iter().map(FieldPath::size).sum::<usize>()
    }

    /// The mask of the fields that the columns read.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Appends the row of an object that was parsed before: a JSON array with one value per column. The value is `null` if
    /// the path has none, and an array of all values if the path has a `[*]`. If a filter selects several elements, the
    /// first counts.
    ///
    /// # Errors
    /// The bytes are not JSON, which isn't always noticed, or the values have more than `at_most` bytes. Nothing is appended
    /// then.
    pub fn row(&self, json: &[u8], out: &mut Vec<u8>, at_most: usize) -> Result<(), RowError> {
        let values = self.values(json, at_most)?;
        let mut values = values.into_iter().peekable();
        out.push(b'[');
        for (column, path) in self.paths.iter().enumerate() {
            if column > 0 {
                out.push(b',');
            }
            let mut own = std::iter::from_fn(|| values.next_if(|(of, _)| *of == column));
            if path.steps().contains(&Step::Each) {
                out.push(b'[');
                for (at, (_, value)) in own.enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(value.as_bytes());
                }
                out.push(b']');
            } else {
                let first = own.next().map_or("null", |(_, value)| value);
                out.extend_from_slice(first.as_bytes());
                own.for_each(drop);
            }
        }
        out.push(b']');
        Ok(())
    }

    /// The values at the columns, in the order of the columns, each with its column.
    fn values<'a>(
        &self,
        json: &'a [u8],
        at_most: usize,
    ) -> Result<Vec<(usize, &'a str)>, RowError> {
        let mut values = Vec::with_capacity(self.paths.len());
        let mut left = at_most;
        let json = std::str::from_utf8(json).map_err(|error| NotJson::at(error.valid_up_to()))?;
        let searched = search(json, &self.tree, &mut |column, value: &'a str| {
            // Plus one byte for the comma.
            left = left.checked_sub(value.len() + 1).ok_or(Stop::Full)?;
            values.push((column, value));
            Ok(())
        });
        match searched {
            Ok(()) => {
                values.sort_by_key(|(column, _)| *column);
                Ok(values)
            }
            Err(Stop::NotJson(error)) => Err(error.into()),
            Err(Stop::Full) => Err(RowError::TooLarge(at_most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"name":"a","labels":{"app":"web","x/y":"\"z\""}},"spec":{"containers":[{"name":"c"},
        {"name":"d","ports":[1,2]}]},"status":{"conditions":[{"type":"Ready","status":"True"},{"status":"False",
        "type":"Other"},{"type":"Ready","status":"second"}],"phase":null}}"#;

    fn row(paths: &[&str]) -> String {
        let mut out = Vec::new();
        Columns::parse(paths)
            .unwrap()
            .row(POD.as_bytes(), &mut out, usize::MAX)
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_has_a_value_for_each_column_in_their_order() {
        assert_eq!(
            row(&[
                "metadata.labels['x/y']",
                "metadata.name",
                "spec.nodeName",
                "status.phase",
                "metadata.labels"
            ]),
            r#"["\"z\"","a",null,null,{"app":"web","x/y":"\"z\""}]"#
        );
        assert_eq!(row(&[]), "[]");
    }

    #[test]
    fn a_path_to_each_element_makes_an_array_and_one_to_a_filtered_element_a_value() {
        assert_eq!(
            row(&[
                "spec.containers[*].name",
                "spec.containers[*].ports",
                "spec.containers[name=d].ports",
                "spec.none[*]"
            ]),
            r#"[["c","d"],[[1,2]],[1,2],[]]"#
        );
        assert_eq!(
            row(&[
                "status.conditions[type=Ready].status",
                "status.conditions[type=Other].status"
            ]),
            r#"["True","False"]"#
        );
        assert_eq!(row(&["metadata.labels[*]"]), r#"[["web","\"z\""]]"#);
    }

    #[test]
    fn a_field_can_be_in_several_columns_and_below_another_one() {
        assert_eq!(
            row(&[
                "metadata.labels.app",
                "metadata.name",
                "metadata.labels",
                "metadata.name"
            ]),
            r#"["web","a",{"app":"web","x/y":"\"z\""},"a"]"#
        );
        assert_eq!(
            row(&["metadata.labels[*]", "metadata.labels.app"]),
            r#"[["web","\"z\""],"web"]"#
        );
    }

    #[test]
    fn what_is_read_is_what_a_mask_of_the_paths_keeps() {
        let paths = [
            "spec.containers[name=d].ports",
            "metadata.name",
            "status.conditions[type=Ready].status",
        ];
        let columns = Columns::parse(paths).unwrap();
        assert_eq!(columns.mask(), &Mask::parse(paths).unwrap());
        let (mut pruned, mut of_pruned, mut of_whole) = (Vec::new(), Vec::new(), Vec::new());
        columns.mask().prune(POD.as_bytes(), &mut pruned).unwrap();
        columns.row(&pruned, &mut of_pruned, 1000).unwrap();
        columns.row(POD.as_bytes(), &mut of_whole, 1000).unwrap();
        assert_eq!(of_pruned, of_whole);
    }

    #[test]
    fn what_is_no_path_or_no_json_is_refused() {
        assert!(Columns::parse(["a..b"]).is_err());
        for json in [&b""[..], b"{", b"{\"b\":\xff}"] {
            assert!(
                Columns::parse(["a"])
                    .unwrap()
                    .row(json, &mut Vec::new(), 1000)
                    .is_err(),
                "{json:?}"
            );
        }
    }

    #[test]
    fn a_row_that_is_too_large_is_refused_before_it_is_written() {
        let columns = Columns::parse(vec!["."; MAX_COLUMNS]).unwrap();
        let mut out = Vec::new();
        let error = columns
            .row(POD.as_bytes(), &mut out, 10 * POD.len())
            .unwrap_err();
        assert!(matches!(error, RowError::TooLarge(_)), "{error}");
        assert_eq!((out.len(), out.capacity()), (0, 0));
        assert!(Columns::parse(vec!["."; MAX_COLUMNS + 1]).is_err());
    }
}
