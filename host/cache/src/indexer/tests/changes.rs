//! The deltas that a change yields.

use flyball_types::description::DeltaType::{self, Added, Deleted, Modified};

use super::*;

fn version(name: &str, uid: &str, version: u64) -> Arc<Object> {
    let version = version.to_string();
    object(
        &json!({"metadata": {"namespace": "n", "name": name, "uid": uid, "resourceVersion": version}}),
    )
}

/// An indexer that holds version 5 of the object `a`.
fn holding() -> Indexer {
    let mut indexer = Indexer::new();
    indexer.upsert(version("a", "u", 5), &mut Vec::new());
    indexer
}

/// Changes this indexer, and returns the types of the deltas with the newest version in each.
fn deltas(
    change: impl FnOnce(&mut Indexer, &mut Vec<crate::change::Change>),
) -> Vec<(DeltaType, u64)> {
    let mut deltas = Vec::new();
    change(&mut holding(), &mut deltas);
    let told =
        |delta: &crate::change::Change| (delta.delta_type(), delta.object().resource_version());
    deltas.iter().map(told).collect()
}

#[test]
fn an_older_version_is_ignored_and_the_same_one_replaces_the_object_without_a_delta() {
    let upsert = |new: &Arc<Object>| {
        let (mut indexer, mut deltas) = (holding(), Vec::new());
        indexer.upsert(new.clone(), &mut deltas);
        let is_held = Arc::ptr_eq(indexer.get("n", "a").unwrap(), new);
        (is_held, deltas.len())
    };
    assert_eq!(upsert(&version("a", "u", 4)), (false, 0));
    assert_eq!(upsert(&version("a", "u", 5)), (true, 0));
    assert_eq!(upsert(&version("a", "u", 6)), (true, 1));
}

#[test]
fn a_list_takes_a_version_back_only_after_a_reset() {
    let list = |reset| {
        deltas(|indexer, deltas| indexer.replace(vec![version("a", "u", 4)], reset, deltas))
    };
    assert_eq!(list(false), []);
    assert_eq!(list(true), [(Modified, 4)]);
}

#[test]
fn what_a_list_lacks_is_deleted() {
    let list = |objects| deltas(|indexer, deltas| indexer.replace(objects, false, deltas));
    assert_eq!(list(Vec::new()), [(Deleted, 5)]);
    let other = version("b", "v", 7);
    assert_eq!(list(vec![other]), [(Deleted, 5), (Added, 7)]);
}

#[test]
fn another_object_of_the_same_name_and_another_name_of_the_same_object_replace_it() {
    for replacing in [version("a", "other", 6), version("b", "u", 6)] {
        let found = deltas(|indexer, deltas| {
            indexer.upsert(replacing.clone(), deltas);
            assert_eq!(indexer.len(), 1);
            assert!(indexer.get("n", replacing.name()).is_some());
        });
        assert_eq!(found, [(Deleted, 5), (Added, 6)], "{replacing:?}");
    }
}

#[test]
fn a_deletion_has_the_final_state_if_that_is_another_version() {
    let remove = |last| {
        let mut deltas = Vec::new();
        holding().remove(&Uid::new("u"), last, &mut deltas);
        let [deleted] = &deltas[..] else {
            panic!("{deltas:?} is not one delta");
        };
        assert_eq!(deleted.delta_type(), Deleted);
        deleted.between.len()
    };
    assert_eq!(remove(None), 0);
    assert_eq!(remove(Some(version("a", "u", 5))), 0);
    assert_eq!(remove(Some(version("a", "u", 6))), 1);
    let unknown = Uid::new("v");
    assert_eq!(
        deltas(|indexer, deltas| indexer.remove(&unknown, None, deltas)),
        []
    );
}
