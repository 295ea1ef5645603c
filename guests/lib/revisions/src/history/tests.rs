use flyball_sdk::testing::{Cluster, refusal};

use super::*;
use crate::data;

const KIND: &str = "apps/v1/StatefulSet";

fn owner() -> Meta {
    Meta {
        name: "web".into(),
        namespace: "default".into(),
        uid: "u1".into(),
        ..Meta::default()
    }
}

fn new(image: &str, revision: i64) -> NewRevision {
    NewRevision {
        labels: [("app".to_owned(), "web".to_owned())].into(),
        annotations: [("note".to_owned(), "x".to_owned())].into(),
        data: data(&Raw::from(json!({"spec": {"image": image}}))),
        revision,
    }
}

/// A stored revision; an empty owner means an orphan.
fn stored(name: &str, app: &str, owner: &str, revision: i64) -> Value {
    let owners: Vec<Value> = [owner]
        .into_iter()
        .filter(|owner| !owner.is_empty())
        .map(|uid| {
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid,
                   "controller": true, "blockOwnerDeletion": true})
        })
        .collect();
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}, "ownerReferences": owners},
        "data": new(name, 0).data,
        "revision": revision,
    })
}

fn names(revisions: &[ControllerRevision]) -> Vec<&str> {
    revisions.iter().map(|one| one.meta.name.as_str()).collect()
}

fn selector() -> LabelSelector {
    "app=web".parse().unwrap()
}

#[test]
fn own_revisions_and_orphans_that_match_are_listed_in_order() {
    let mut elsewhere = stored("elsewhere", "web", "u1", 1);
    elsewhere["metadata"]["namespace"] = "other".into();
    let cluster = Cluster::with([
        stored("a", "web", "u1", 3),
        stored("b", "web", "", 2),
        stored("foreign", "web", "u2", 1),
        stored("own-but-relabelled", "other", "u1", 1),
        stored("other-orphan", "other", "", 1),
        elsewhere,
    ]);
    let found = list(&cluster.host(), &owner(), &selector()).unwrap();
    assert_eq!(names(&found), ["b", "a"]);
}

#[test]
fn a_missing_selector_lists_nothing() {
    let cluster = Cluster::with([stored("a", "web", "u1", 1)]);
    let found = list(&cluster.host(), &owner(), &LabelSelector::nothing()).unwrap();
    assert!(found.is_empty());
}

#[test]
fn orphans_are_adopted_after_a_recheck() {
    let cluster = Cluster::with([stored("a", "web", "u1", 1), stored("b", "web", "", 2)]);
    let host = cluster.host();
    let mut revisions = list(&host, &owner(), &selector()).unwrap();
    adopt(&host, &owner(), KIND, &mut revisions, || Ok(())).unwrap();
    assert_eq!(
        cluster.written(),
        ["patch apps/v1/ControllerRevision default/b"]
    );
    let adopted = cluster
        .object(ControllerRevision::KIND, "default", "b")
        .unwrap();
    assert_eq!(
        adopted["metadata"]["ownerReferences"],
        json!([owner().controller_reference(KIND)])
    );
    // The returned revisions can be updated without another read.
    assert_eq!(
        revisions[1].meta.owner_references,
        [owner().controller_reference(KIND)]
    );
    set_number(&host, revisions.remove(1), 5).unwrap();
}

#[test]
fn without_orphans_nothing_is_rechecked() {
    let cluster = Cluster::with([stored("a", "web", "u1", 1)]);
    let mut revisions = list(&cluster.host(), &owner(), &selector()).unwrap();
    let recheck = || panic!("there is no orphan");
    adopt(&cluster.host(), &owner(), KIND, &mut revisions, recheck).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn an_owner_that_may_not_adopt_adopts_nothing() {
    let cluster = Cluster::with([stored("a", "web", "", 1)]);
    let mut revisions = list(&cluster.host(), &owner(), &selector()).unwrap();
    let recheck = || Err(Error::failed("web is being deleted"));
    let error = adopt(&cluster.host(), &owner(), KIND, &mut revisions, recheck).unwrap_err();
    assert_eq!(
        error.to_string(),
        "can't adopt ControllerRevisions: web is being deleted"
    );
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn a_failed_adoption_is_an_error_and_the_last_write() {
    let cluster = Cluster::with([stored("a", "web", "", 1), stored("b", "web", "", 2)]);
    let mut revisions = list(&cluster.host(), &owner(), &selector()).unwrap();
    cluster.fail("patch", ControllerRevision::KIND, refusal(422, "Invalid"));
    let error = adopt(&cluster.host(), &owner(), KIND, &mut revisions, || Ok(())).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("adopting ControllerRevision default/a"),
        "{error}"
    );
    assert!(revisions[0].meta.owner_references.is_empty());
    assert!(revisions[1].meta.owner_references.is_empty());
    assert_eq!(cluster.written().len(), 1);
}

#[test]
fn a_revision_is_created_under_the_hash_of_its_data() {
    let cluster = Cluster::new();
    let host = cluster.host();
    let (new, mut collisions) = (new("nginx", 3), 0);
    let created = create(&host, &owner(), KIND, &new, &mut collisions).unwrap();
    let hash = hash(&new.data, 0);
    assert_eq!(
        (collisions, created.meta.name.clone()),
        (0, format!("web-{hash}"))
    );
    let [stored] = list(&host, &owner(), &selector())
        .unwrap()
        .try_into()
        .unwrap();
    assert_eq!(stored, created);
    assert_eq!(stored.meta.label(HASH_LABEL), Some(hash.as_str()));
    let annotations = &cluster.objects(ControllerRevision::KIND)[0]["metadata"]["annotations"];
    assert_eq!(*annotations, json!({"note": "x"}));
}

#[test]
fn an_equal_revision_under_the_same_name_is_returned() {
    let cluster = Cluster::new();
    let host = cluster.host();
    let first = create(&host, &owner(), KIND, &new("nginx", 3), &mut 0).unwrap();
    let mut collisions = 0;
    let again = create(&host, &owner(), KIND, &new("nginx", 9), &mut collisions).unwrap();
    assert_eq!((again, collisions), (first, 0));
}

#[test]
fn a_collision_changes_the_name_and_keeps_the_label() {
    let cluster = Cluster::new();
    let host = cluster.host();
    let new = new("nginx", 3);
    for collisions in 0..2 {
        let name = name("web", &hash(&new.data, collisions));
        cluster.put(stored(&name, "web", "u2", 1));
    }
    let mut collisions = 0;
    let created = create(&host, &owner(), KIND, &new, &mut collisions).unwrap();
    assert_eq!(collisions, 2);
    assert_eq!(created.meta.name, name("web", &hash(&new.data, 2)));
    assert_eq!(
        created.meta.label(HASH_LABEL),
        Some(hash(&new.data, 0).as_str())
    );
}

#[test]
fn a_failed_creation_is_an_error() {
    let cluster = Cluster::new();
    cluster.fail(
        "create",
        ControllerRevision::KIND,
        refusal(403, "Forbidden"),
    );
    let mut collisions = 0;
    assert!(
        create(
            &cluster.host(),
            &owner(),
            KIND,
            &new("nginx", 1),
            &mut collisions
        )
        .is_err()
    );
    assert_eq!(collisions, 0);
}

#[test]
fn a_number_is_updated_on_the_latest_version() {
    let cluster = Cluster::with([stored("a", "web", "u1", 1)]);
    let host = cluster.host();
    let read = || list(&host, &owner(), &selector()).unwrap().remove(0);
    let stale = read();
    cluster.edit(ControllerRevision::KIND, "default", "a", |object| {
        object["metadata"]["labels"]["x"] = "y".into();
    });
    assert_eq!(set_number(&host, stale.clone(), 7).unwrap().revision, 7);
    assert_eq!((read().revision, read().meta.label("x")), (7, Some("y")));
    cluster.written();

    // Another client has set the number already.
    assert_eq!(set_number(&host, stale, 7).unwrap(), read());
    assert_eq!(cluster.written().len(), 1);
    assert_eq!(set_number(&host, read(), 7).unwrap(), read());
    assert_eq!(cluster.written(), [""; 0]);
}
