//! The fields of a kind that a description reads: the fields that it names, and the fields that its selectors,
//! predicates and mappings need. The cache keeps them, and a policy must grant them.

use super::{Change, Description, Having, Mapping, Owners, To, Watch};
use crate::{FieldPath, FieldSelector, Kind, Mask, MaskError};

/// The fields that one watch reads of the objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedPaths {
    /// Paths that the cache keeps: the declared fields, and the fields of predicates and mappings.
    pub fields: Vec<FieldPath>,
    /// Paths of indexes over the kind.
    pub indexes: Vec<FieldPath>,
    /// Paths of label selectors that mappings match with the labels of other objects.
    pub selectors: Vec<FieldPath>,
    /// Metadata that selectors, predicates and mappings use without naming a path.
    pub implied: Vec<FieldPath>,
}

impl WatchedPaths {
    /// All paths of the watch. A plugin that may not read one of them may not have the watch, because the path's value
    /// shows in an object, in a key, or in the choice of objects.
    pub fn all(&self) -> impl Iterator<Item = &FieldPath> {
        let Self {
            fields,
            indexes,
            selectors,
            implied,
        } = self;
        fields.iter().chain(indexes).chain(selectors).chain(implied)
    }

    /// The mask of all paths.
    ///
    /// # Errors
    /// They are too complex together.
    pub fn mask(&self) -> Result<Mask, MaskError> {
        Mask::of(self.all())
    }
}

impl Description {
    /// The fields that a watch reads of this kind, which is the watch's own or one that it discovered. The description
    /// must have been checked: a path that does not parse is left out.
    pub fn watched_paths(&self, watch: &Watch, kind: &Kind) -> WatchedPaths {
        let mut paths = WatchedPaths {
            fields: parse(&watch.fields),
            ..WatchedPaths::default()
        };
        if !watch.label_selector.is_empty() {
            paths.imply("labels");
        }
        let selector: FieldSelector = watch.field_selector.parse().unwrap_or_default();
        paths.implied.extend(selector.paths().cloned());
        for change in &watch.changes {
            match change {
                Change::Generation => paths.imply("generation"),
                Change::Labels => paths.imply("labels"),
                Change::Path(path) => paths.fields.extend(parse([path])),
            }
        }
        for mapping in &watch.map {
            paths.add_mapping(mapping);
        }
        for mapping in self.watches.iter().flat_map(|watch| &watch.map) {
            match &mapping.to {
                To::Selecting {
                    kind: selecting,
                    path,
                    whose,
                } if selecting == kind => {
                    paths.selectors.extend(parse([path]));
                    paths.add_whose(whose);
                }
                To::Named {
                    kind: Some(named),
                    whose,
                    ..
                } if named == kind => paths.add_whose(whose),
                To::Dependents => paths.imply("ownerReferences"),
                // Any object that the plugin sees may be such an owner.
                To::OwnerReferences {
                    which: Owners::Deleting,
                } => paths.imply("deletionTimestamp"),
                _ => {}
            }
        }
        let indexes = self.indexes.iter().filter(|index| index.kind == *kind);
        paths.indexes = parse(indexes.map(|index| &index.path));
        paths
    }
}

impl WatchedPaths {
    /// Adds the fields of the changed object that a mapping reads.
    fn add_mapping(&mut self, mapping: &Mapping) {
        let having = mapping.having.iter().map(|having| &having.path);
        let unless = mapping.unless.iter().map(|unless| &unless.path);
        let paths = having.chain(&mapping.having_any).chain(unless);
        self.fields.extend(parse(paths));
        if mapping.orphans {
            self.imply("ownerReferences");
        }
        if mapping.deleting {
            self.imply("deletionTimestamp");
        }
        match &mapping.to {
            To::Named { path, .. } => self.fields.extend(parse([path])),
            To::Selecting { .. } => self.imply("labels"),
            To::Controller { .. } | To::Owner { .. } => self.imply("ownerReferences"),
            To::OwnerReferences { .. } => {
                self.imply("ownerReferences");
                self.imply("deletionTimestamp");
            }
            To::Itself
            | To::InNamespace { .. }
            | To::All { .. }
            | To::Namespace
            | To::Constant { .. }
            | To::Reference
            | To::Dependents
            | To::Route => {}
        }
    }

    /// Adds the fields of objects that a mapping of another watch looks up.
    fn add_whose(&mut self, whose: &[Having]) {
        self.fields
            .extend(parse(whose.iter().map(|whose| &whose.path)));
    }

    fn imply(&mut self, field: &str) {
        let path = FieldPath::of_fields(&["metadata", field]);
        if !self.implied.contains(&path) {
            self.implied.push(path);
        }
    }
}

fn parse<T: AsRef<str>>(paths: impl IntoIterator<Item = T>) -> Vec<FieldPath> {
    let paths = paths.into_iter().map(|path| path.as_ref().parse());
    paths.filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that the first watch of a description reads, as text.
    fn paths(watches: &str) -> Vec<String> {
        let document = format!(
            r#"{{"format": 1, "name": "a", "queues": [{{"name": "a"}}], "watches": [{watches}],
                "indexes": [{{"name": "i", "kind": "v1/Secret", "path": "type"}}]}}"#
        );
        let description = Description::read(&document).expect("a description");
        let watch = &description.watches[0];
        let kind = watch.kind.as_ref().expect("the watch names a kind");
        let paths = description.watched_paths(watch, kind);
        paths.all().map(FieldPath::to_string).collect()
    }

    #[test]
    fn each_place_of_a_description_that_names_a_path_is_a_read() {
        let watch = r#"{"kind": "v1/Secret", "fields": ["metadata.labels"], "changes": [{"path": "data.a"}], "map": [
            {"to": "named", "path": "data.b", "namespaced": true, "having": {"path": "data.c", "value": "x"}},
            {"to": "selecting", "kind": "v1/Secret", "path": "data.d", "whose": {"path": "data.e", "value": "x"},
             "havingAny": ["data.f", "data.g"], "unless": [{"path": "data.h"}]}
        ]}"#;
        let mut found = paths(watch);
        found.sort();
        let mut expected = vec![
            "metadata.labels",
            "data.a",
            "data.b",
            "data.c",
            "data.d",
            "data.e",
            "data.f",
            "data.g",
            "data.h",
            "type",
        ];
        expected.push("metadata.labels");
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn selectors_predicates_and_mappings_read_metadata_that_they_do_not_name() {
        for (field, expected) in [
            (r#""labelSelector": "a=b""#, "metadata.labels"),
            (r#""fieldSelector": "type=a""#, "type"),
            (r#""changes": ["generation"]"#, "metadata.generation"),
            (r#""changes": ["labels"]"#, "metadata.labels"),
            (
                r#""map": [{"to": "itself", "orphans": true}]"#,
                "metadata.ownerReferences",
            ),
            (
                r#""map": [{"to": "itself", "deleting": true}]"#,
                "metadata.deletionTimestamp",
            ),
            (
                r#""map": [{"to": "controller", "kind": "v1/Pod"}]"#,
                "metadata.ownerReferences",
            ),
            (
                r#""map": [{"to": "owner", "kind": "v1/Pod"}]"#,
                "metadata.ownerReferences",
            ),
            (
                r#""map": [{"to": "ownerReferences", "which": "missing"}]"#,
                "metadata.ownerReferences",
            ),
            (
                r#""map": [{"to": "ownerReferences", "which": "missing"}]"#,
                "metadata.deletionTimestamp",
            ),
            (
                r#""map": [{"to": "dependents"}]"#,
                "metadata.ownerReferences",
            ),
        ] {
            let found = paths(&format!(r#"{{"kind": "v1/Secret", {field}}}"#));
            assert!(
                found.iter().any(|path| path == expected),
                "{field}: {found:?}"
            );
        }
        let named = r#"{"kind": "v1/Pod", "map": [{"to": "named", "path": "spec.nodeName", "namespaced": false,
            "kind": "v1/Secret", "whose": {"path": "data.a", "value": "x"}}]}"#;
        let found = paths(&format!(r#"{{"kind": "v1/Secret"}}, {named}"#));
        assert!(found.iter().any(|path| path == "data.a"), "{found:?}");
        // The keys of another watch reveal which owners are being deleted.
        let deleting =
            r#"{"kind": "v1/Pod", "map": [{"to": "ownerReferences", "which": "deleting"}]}"#;
        let found = paths(&format!(r#"{{"kind": "v1/Secret"}}, {deleting}"#));
        assert!(
            found
                .iter()
                .any(|path| path == "metadata.deletionTimestamp")
        );
        assert_eq!(
            paths(r#"{"kind": "v1/Secret", "map": [{"to": "itself"}]}"#),
            ["type"]
        );
    }
}
