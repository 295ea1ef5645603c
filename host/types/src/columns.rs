//! Columns: the values at some paths of an object. A row holds only these values, without field names, so that reading
//! many objects costs few bytes.

use serde::de::DeserializeSeed;

use crate::path::{Found, Select};
use crate::text::reader;
use crate::{FieldPath, Mask, MaskError, Step};

/// The maximum number of columns of a row. Each is searched for in the whole object.
const MAX_COLUMNS: usize = 256;

/// A row that can't be made. A retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    #[error("can't decode an object of the API")]
    Json(#[from] serde_json::Error),
    /// The values have more bytes than this limit.
    #[error("the values of a row have more than {0} bytes: ask for fewer or smaller fields")]
    TooLarge(usize),
}

/// The paths of a row's values.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    paths: Vec<FieldPath>,
    /// The mask of the paths.
    mask: Mask,
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
        Ok(Self {
            mask: Mask::of(&paths)?,
            paths,
        })
    }

    /// The number of columns.
    pub fn count(&self) -> usize {
        self.paths.len()
    }

    /// Estimates the bytes that they hold.
    pub fn size(&self) -> usize {
        self.mask.size() + self.paths.iter().map(FieldPath::size).sum::<usize>()
    }

    /// The mask of the fields that the columns read.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Appends an object's row: a JSON array with one value per column. The value is `null` if the path has none, and
    /// an array of all values if the path has a `[*]`. If a filter selects several elements, the first counts.
    ///
    /// # Errors
    /// The bytes are not one JSON value, or the values have more than `at_most` bytes. Nothing is appended then.
    pub fn row(&self, json: &[u8], out: &mut Vec<u8>, at_most: usize) -> Result<(), RowError> {
        let wanted: Vec<_> = self
            .paths
            .iter()
            .map(FieldPath::steps)
            .enumerate()
            .collect();
        let mut found = Found::at_most(at_most);
        let mut input = reader(json)?;
        let selected = Select {
            wanted: &wanted,
            found: &mut found,
        }
        .deserialize(&mut input);
        if found.is_full {
            return Err(RowError::TooLarge(at_most));
        }
        selected?;
        input.end()?;
        let found = found.values;
        out.push(b'[');
        for (column, steps) in wanted {
            if column > 0 {
                out.push(b',');
            }
            let mut values = found
                .iter()
                .filter(|(of, _)| *of == column)
                .map(|(_, value)| value.get().as_bytes());
            if steps.contains(&Step::Each) {
                out.push(b'[');
                for (at, value) in values.enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(value);
                }
                out.push(b']');
            } else {
                out.extend_from_slice(values.next().unwrap_or(b"null"));
            }
        }
        out.push(b']');
        Ok(())
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
        for json in ["", "{", "{}{}"] {
            assert!(
                Columns::parse(["a"])
                    .unwrap()
                    .row(json.as_bytes(), &mut Vec::new(), 1000)
                    .is_err(),
                "{json}"
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
