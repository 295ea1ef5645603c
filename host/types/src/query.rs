//! Queries to the cache, and projections of the objects that they return. Guests and the host share these types.

use crate::error::ApiError;

/// Stands for all kinds of the plugin's watch of discovered kinds.
pub const ALL_KINDS: &str = "*";

/// Selects objects of one kind. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// A kind such as `v1/Pod`, or [`ALL_KINDS`].
    pub kind: String,
    /// All namespaces if empty.
    pub namespace: String,
    /// A label selector; empty selects all objects.
    pub labels: String,
    /// Pairs of the name of an index and the required value.
    pub indexes: Vec<(String, String)>,
    pub uid: Option<String>,
    /// The UID of one of the object's owners.
    pub owner: Option<String>,
    /// The UID of the object's controller.
    pub controller: Option<String>,
    /// Only objects without a controller.
    pub orphans: bool,
}

/// The part of each object that is returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Projection {
    /// All fields that the plugin declared for the kind.
    #[default]
    All,
    /// An object with the fields at these paths.
    Fields(Vec<String>),
    /// A row: an array with the value at each of these paths.
    Columns(Vec<String>),
}

const LABELS: &str = "labels";
const INDEX: &str = "index/";
const UID: &str = "uid";
const OWNER: &str = "owner";
const CONTROLLER: &str = "controller";
const ORPHAN: &str = "orphan";

/// The maximum number of conditions of a query. Each is compared with each object.
const MAX_CONDITIONS: usize = 32;

impl Query {
    /// Parses the conditions of `query` in `wit/`: pairs of a name and a value. Label selectors are not parsed here.
    ///
    /// # Errors
    /// Fails if a name is unknown, if a condition that may occur once occurs twice, or if there are more than 32.
    pub fn parse(
        kind: String,
        namespace: String,
        conditions: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ApiError> {
        let mut query = Self {
            kind,
            namespace,
            ..Self::default()
        };
        for (number, (name, value)) in conditions.into_iter().enumerate() {
            if number >= MAX_CONDITIONS {
                return Err(ApiError::full(format!(
                    "a query has at most {MAX_CONDITIONS} conditions"
                )));
            }
            match name.as_str() {
                LABELS => query.add_labels(&value),
                UID => set(&mut query.uid, &name, value)?,
                OWNER => set(&mut query.owner, &name, value)?,
                CONTROLLER => set(&mut query.controller, &name, value)?,
                ORPHAN if value.is_empty() => query.orphans = true,
                ORPHAN => {
                    return Err(ApiError::invalid(format!(
                        "the condition `{ORPHAN}` of a query takes no value, but has `{value}`"
                    )));
                }
                other => match other.strip_prefix(INDEX) {
                    Some(index) => query.indexes.push((index.to_owned(), value)),
                    None => {
                        return Err(ApiError::invalid(format!(
                            "a query has no condition `{name}`: use `{LABELS}`, `{INDEX}NAME`, `{UID}`, `{OWNER}`, \
                             `{CONTROLLER}` or `{ORPHAN}`"
                        )));
                    }
                },
            }
        }
        Ok(query)
    }

    /// Adds a label selector, which must match as well.
    pub fn add_labels(&mut self, selector: &str) {
        if !self.labels.is_empty() && !selector.is_empty() {
            self.labels.push(',');
        }
        self.labels.push_str(selector);
    }

    /// Returns the conditions as in `query` in `wit/`: pairs of a name and a value.
    pub fn conditions(&self) -> Vec<(String, String)> {
        let mut conditions = Vec::new();
        let mut add =
            |name: &str, value: &str| conditions.push((name.to_owned(), value.to_owned()));
        if !self.labels.is_empty() {
            add(LABELS, &self.labels);
        }
        for (name, value) in [
            (UID, &self.uid),
            (OWNER, &self.owner),
            (CONTROLLER, &self.controller),
        ] {
            if let Some(value) = value {
                add(name, value);
            }
        }
        if self.orphans {
            add(ORPHAN, "");
        }
        for (index, value) in &self.indexes {
            conditions.push(([INDEX, index].concat(), value.clone()));
        }
        conditions
    }
}

/// Sets a condition that may occur once.
fn set(condition: &mut Option<String>, name: &str, value: String) -> Result<(), ApiError> {
    match condition.replace(value) {
        None => Ok(()),
        Some(_) => Err(ApiError::invalid(format!(
            "a query can't have the condition `{name}` twice"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(conditions: &[(&str, &str)]) -> Result<Query, ApiError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Query::parse("v1/Pod".into(), "a".into(), conditions.iter().map(owned))
    }

    #[test]
    fn parse_reverses_conditions() {
        let query = Query {
            kind: "v1/Pod".into(),
            namespace: "a".into(),
            labels: "app=web".into(),
            indexes: vec![("by/node".into(), "n".into())],
            uid: Some("1".into()),
            owner: Some("2".into()),
            controller: Some("3".into()),
            orphans: true,
        };
        let read = Query::parse(query.kind.clone(), "a".into(), query.conditions());
        assert_eq!(read, Ok(query));
        assert_eq!(parse(&[]).unwrap().conditions(), []);
    }

    #[test]
    fn a_query_has_a_limited_number_of_conditions() {
        assert!(parse(&[("index/a", "1"); MAX_CONDITIONS]).is_ok());
        let error = parse(&[("index/a", "1"); MAX_CONDITIONS + 1]).unwrap_err();
        assert_eq!(error.reason, "Full");
    }

    #[test]
    fn a_query_may_have_several_label_selectors_and_indexes() {
        let query = parse(&[
            ("labels", "app=web"),
            ("index/a", "1"),
            ("labels", "!canary"),
            ("index/a", "2"),
        ]);
        let query = query.unwrap();
        assert_eq!(query.labels, "app=web,!canary");
        assert_eq!(query.indexes.len(), 2);
    }

    #[test]
    fn an_unknown_or_repeated_condition_is_invalid() {
        for (conditions, part) in [
            (vec![("label", "app=web")], "no condition `label`"),
            (vec![("index", "a")], "no condition `index`"),
            (
                vec![("uid", "1"), ("uid", "1")],
                "the condition `uid` twice",
            ),
            (vec![("orphan", "true")], "takes no value"),
        ] {
            let error = parse(&conditions).unwrap_err();
            assert_eq!(error.reason, "Invalid");
            assert!(error.message.contains(part), "{error}");
        }
    }
}
