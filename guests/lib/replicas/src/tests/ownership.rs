//! Claiming pods.

use flyball_ownership::{Change, Ownership, adoption, may_adopt, release, settle};
use flyball_sdk::serde_json;
use flyball_sdk::write::Action;

use super::*;
use crate::ownership::count_terminating;
use crate::views::Presence;

fn claim(set: &Object, own: &[Object], orphans: &[Object]) -> [Vec<String>; 3] {
    let Ownership {
        kept,
        adopted,
        released,
    } = Ownership::of(
        &set.set().meta,
        &selector("app=web"),
        pods(own),
        pods(orphans),
    );
    [kept, adopted, released].map(|pods| names(&pods).into_iter().map(str::to_owned).collect())
}

fn others() -> Value {
    json!({"app": "other"})
}

#[test]
fn matching_pods_are_kept_or_adopted_and_others_released_or_left() {
    let own = [pod("kept"), pod("lost").labels(others())];
    let orphans = [orphan("found"), orphan("foreign").labels(others())];
    assert_eq!(
        claim(&web(1), &own, &orphans),
        [vec!["kept"], vec!["found"], vec!["lost"]]
    );
}

#[test]
fn a_set_being_deleted_adopts_and_releases_nothing() {
    let own = [pod("kept"), pod("lost").labels(others())];
    assert_eq!(
        claim(&web(1).deleting(), &own, &[orphan("found")]),
        [vec!["kept"], vec![], vec![]]
    );
}

#[test]
fn a_pod_that_is_in_both_lists_is_counted_once() {
    assert_eq!(
        claim(&web(1), &[pod("a")], &[orphan("a")]),
        [vec!["a"], vec![], vec![]]
    );
    let relabelled = pod("a").labels(others());
    assert_eq!(
        claim(&web(1), &[relabelled], &[orphan("a")]),
        [vec![], vec![], vec!["a"]]
    );
}

#[test]
fn terminating_pods_count_while_they_run_and_match() {
    let own = pods(&[
        pod("going").deleting(),
        pod("ended").deleting().phase("Succeeded"),
        pod("failed").deleting().phase("Failed"),
        pod("lost").deleting().labels(others()),
        pod("staying"),
    ]);
    assert_eq!(count_terminating(&selector("app=web"), &own), 1);
}

#[test]
fn a_set_may_adopt_only_while_it_exists_and_is_not_being_deleted() {
    let live = |object: Object| Some(serde_json::from_value::<Presence>(object.0).unwrap());
    let set = web(1).set();
    let may_adopt =
        |live: Option<Presence>| may_adopt(&set.meta, live.as_ref().map(|live| &live.meta));
    assert!(may_adopt(live(web(1))).is_ok());
    for (live, problem) in [
        (None, "was deleted"),
        (live(web(1).with("/metadata/uid", "uid-new")), "another"),
        (live(web(1).deleting()), "being deleted"),
    ] {
        let error = may_adopt(live).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

fn patch_of(write: &Write) -> Value {
    match &write.action {
        Action::Patch(PatchType::Strategic, patch) => serde_json::from_slice(patch).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_adoption_adds_the_controller_and_checks_the_uid() {
    let write = adoption(
        "v1/Pod",
        "default",
        &orphan("a").pod(),
        &web(1).set().meta.controller_reference("apps/v1/ReplicaSet"),
    );
    assert_eq!(
        (write.target.kind.as_str(), write.target.name.as_str()),
        ("v1/Pod", "a")
    );
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web",
                       "controller": true, "blockOwnerDeletion": true});
    assert_eq!(
        patch_of(&write),
        json!({"metadata": {"uid": "uid-a", "ownerReferences": [owner]}})
    );
}

#[test]
fn a_release_removes_the_owner_reference_and_checks_the_uid() {
    let write = release("v1/Pod", &pod("a").pod(), &web(1).set().meta);
    let owner = json!({"$patch": "delete", "uid": "uid-web"});
    assert_eq!(
        patch_of(&write),
        json!({"metadata": {"uid": "uid-a", "ownerReferences": [owner]}})
    );
}

fn settled(adopted: ApiError, released: ApiError) -> Result<Vec<String>, String> {
    let [a, b, c, d] = [orphan("a"), orphan("b"), pod("c"), pod("d")].map(|one| one.pod());
    let results = [
        (Change::Adoption(a), Err(adopted)),
        (Change::Adoption(b), Ok(Answer::default())),
        (Change::Release(c), Ok(Answer::default())),
        (Change::Release(d), Err(released)),
    ];
    let own = settle(pods(&[pod("kept")]), "default", "pod", results)
        .map_err(|error| error.to_string())?;
    Ok(names(&own).into_iter().map(str::to_owned).collect())
}

#[test]
fn deleted_pods_are_neither_adopted_nor_an_error() {
    let gone = || refusal(404, "NotFound", "pods \"a\" not found");
    let other = refusal(422, "Invalid", "metadata.uid: field is immutable");
    assert_eq!(settled(gone(), gone()), Ok(vec!["kept".into(), "b".into()]));
    assert_eq!(settled(gone(), other), Ok(vec!["kept".into(), "b".into()]));
}

#[test]
fn every_other_error_names_its_pod() {
    let invalid = refusal(
        422,
        "Invalid",
        "only one reference can have controller set to true",
    );
    let error = settled(invalid, refusal(500, "InternalError", "broken")).unwrap_err();
    assert!(
        error.contains("adopting pod default/a: only one reference"),
        "{error}"
    );
    assert!(error.contains("releasing pod default/d: broken"), "{error}");
}
