//! Revisions: how they are ordered, compared and chosen for deletion.
//!
//! Upstream: pkg/controller/history/controller_history.go: NewControllerRevision, SortControllerRevisions,
//! EqualRevision, FindEqualRevisions.
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: nextRevision.

use std::cmp::Ordering;

use flyball_ownership::{Adoptable, Facts};
use flyball_sdk::meta::StringMap;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The metadata of a new revision that the API server sets.
const CREATED_FIELDS: &[&str] = &[
    "metadata.creationTimestamp",
    "metadata.name",
    "metadata.namespace",
    "metadata.resourceVersion",
    "metadata.uid",
];

/// A revision of a pod template.
#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "apps/v1/ControllerRevision")]
pub struct ControllerRevision {
    #[view(
        path = "metadata",
        fields("creationTimestamp", "deletionTimestamp", "labels", "ownerReferences")
    )]
    pub meta: Meta,
    /// The patch that restores the template; see [`template`](crate::template).
    #[view(path = "data")]
    pub data: Raw,
    /// Its place in the history; the newest revision has the highest number.
    #[view(path = "revision")]
    pub revision: i64,
}

/// A revision to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRevision {
    /// The labels without the hash label.
    pub labels: StringMap,
    pub annotations: StringMap,
    pub data: Raw,
    pub revision: i64,
}

impl Adoptable for ControllerRevision {
    fn facts(&self) -> Facts<'_, impl Labels> {
        self.meta.facts()
    }

    /// Takes over the resource version, if the adoption returned it.
    fn set_adopted(&mut self, answer: &Answer) -> Result<(), Error> {
        #[derive(Deserialize)]
        struct Versioned {
            metadata: Meta,
        }
        let Versioned { metadata } = answer.parse()?;
        self.meta.resource_version = metadata.resource_version;
        Ok(())
    }
}

impl NewRevision {
    /// The write that creates the revision under `name`, with the label `hash_label`. It returns the metadata that the
    /// API server sets.
    pub fn creation(
        &self,
        namespace: &str,
        name: &str,
        hash_label: (&str, &str),
        owner: &OwnerReference,
    ) -> Write {
        let mut labels = self.labels.clone();
        labels.insert(hash_label.0.into(), hash_label.1.into());
        let object = Object {
            api_version: "apps/v1",
            kind: "ControllerRevision",
            metadata: Meta {
                name: name.into(),
                labels,
                annotations: self.annotations.clone(),
                owner_references: vec![owner.clone()],
                ..Meta::default()
            },
            data: &self.data,
            revision: self.revision,
        };
        Write::create(ControllerRevision::KIND, namespace, &object).returning(CREATED_FIELDS)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Meta,
    data: &'a Raw,
    revision: i64,
}

/// Orders revisions by number, then by age and name, oldest first.
pub fn sort(revisions: &mut [ControllerRevision]) {
    revisions.sort_by(by_age);
}

fn by_age(one: &ControllerRevision, other: &ControllerRevision) -> Ordering {
    fn key(revision: &ControllerRevision) -> (i64, Option<Time>, &str) {
        let meta = &revision.meta;
        (revision.revision, meta.creation_timestamp, &meta.name)
    }
    key(one).cmp(&key(other))
}

/// Returns the number of the revision after these.
pub fn next_number(revisions: &[ControllerRevision]) -> i64 {
    let numbers = revisions.iter().map(|revision| revision.revision);
    numbers.max().unwrap_or(0) + 1
}

/// Returns the last of these revisions with exactly this data.
pub fn latest_equal<'a>(
    revisions: &'a [ControllerRevision],
    data: &Raw,
) -> Option<&'a ControllerRevision> {
    revisions.iter().rev().find(|one| one.data == *data)
}

/// Returns the first `count` of these revisions that are not in use.
pub fn surplus(
    revisions: &[ControllerRevision],
    count: usize,
    is_live: impl Fn(&ControllerRevision) -> bool,
) -> impl Iterator<Item = &ControllerRevision> {
    revisions
        .iter()
        .filter(move |revision| !is_live(revision))
        .take(count)
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::Cluster;

    use super::*;

    fn revision(name: &str, number: i64, created: i64) -> ControllerRevision {
        ControllerRevision {
            meta: Meta {
                name: name.into(),
                creation_timestamp: Some(Time::of_seconds(created)),
                ..Meta::default()
            },
            data: Raw::from(json!({ "of": name })),
            revision: number,
        }
    }

    fn names<'a>(revisions: impl IntoIterator<Item = &'a ControllerRevision>) -> Vec<&'a str> {
        let name = |one: &'a ControllerRevision| one.meta.name.as_str();
        revisions.into_iter().map(name).collect()
    }

    #[test]
    fn revisions_are_ordered_by_number_then_by_age_then_by_name() {
        let mut revisions = [
            revision("c", 2, 5),
            revision("young", 1, 9),
            revision("b", 2, 5),
            revision("old", 1, 8),
        ];
        sort(&mut revisions);
        assert_eq!(names(&revisions), ["old", "young", "b", "c"]);
    }

    #[test]
    fn the_next_number_is_one_more_than_the_highest() {
        assert_eq!(next_number(&[]), 1);
        let revisions = [revision("a", 7, 1), revision("b", 3, 2)];
        assert_eq!(next_number(&revisions), 8);
    }

    #[test]
    fn the_latest_of_equal_revisions_is_found() {
        let twin = ControllerRevision {
            data: revision("a", 0, 0).data,
            ..revision("twin", 2, 2)
        };
        let revisions = [revision("a", 1, 1), twin, revision("b", 3, 3)];
        let found = |data: Value| {
            latest_equal(&revisions, &Raw::from(data)).map(|found| found.meta.name.as_str())
        };
        assert_eq!(found(json!({"of": "a"})), Some("twin"));
        assert_eq!(found(json!({"of": "x"})), None);
    }

    #[test]
    fn the_oldest_revisions_that_are_not_in_use_are_surplus() {
        let all = [
            revision("a", 1, 1),
            revision("b", 2, 2),
            revision("c", 3, 3),
        ];
        let is_live = |one: &ControllerRevision| one.meta.name == "a";
        assert_eq!(names(surplus(&all, 0, is_live)), [""; 0]);
        assert_eq!(names(surplus(&all, 1, is_live)), ["b"]);
        assert_eq!(names(surplus(&all, 9, is_live)), ["b", "c"]);
    }

    #[test]
    fn a_new_revision_has_the_labels_of_its_pods_and_the_hash() {
        let new = NewRevision {
            labels: [("app".to_owned(), "web".to_owned())].into(),
            annotations: [("note".to_owned(), "x".to_owned())].into(),
            data: Raw::from(json!({"a": 1})),
            revision: 4,
        };
        let owner = OwnerReference {
            name: "web".into(),
            ..OwnerReference::default()
        };
        let cluster = Cluster::new();
        let creation = new.creation("default", "web-h", ("hash", "h"), &owner);
        cluster.host().write(creation).unwrap();
        assert_eq!(
            cluster.writes().remove(0).body,
            json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision",
                "metadata": {"name": "web-h", "labels": {"app": "web", "hash": "h"},
                             "annotations": {"note": "x"}, "ownerReferences": [owner]},
                "data": {"a": 1},
                "revision": 4,
            })
        );
    }
}
