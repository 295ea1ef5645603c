//! A Deployment with 2,000 old ReplicaSets.

use flyball_sdk::prelude::*;

use super::world::*;

const OLD: usize = 2000;

/// A Deployment that keeps this many old ReplicaSets and has 2,000, besides the complete new one.
fn world(limit: usize) -> World {
    let mut web = deployment(3, "app:new");
    web["spec"]["revisionHistoryLimit"] = limit.into();
    let world = World::rolled_out(web);
    for number in 0..OLD {
        let mut old = set(
            &format!("web-{number:04}"),
            &format!("app:{number}"),
            0,
            true,
        );
        old["metadata"]["annotations"] =
            json!({"deployment.kubernetes.io/revision": number.to_string()});
        world.cluster.put(old);
    }
    world
}

#[test]
fn a_rollout_takes_as_many_writes_as_without_them() {
    let world = world(3000);
    world.use_image("app:next");
    let created = world.sync();
    assert!(
        created[0].starts_with("create apps/v1/ReplicaSet"),
        "{created:?}"
    );
    let revision = &world.set_of("app:next").unwrap()["metadata"]["annotations"];
    let expected = (OLD as i64).to_string();
    assert_eq!(
        text(&revision["deployment.kubernetes.io/revision"]),
        expected
    );
    world.finish();
    assert_eq!((world.size("app:next"), world.size("app:new")), (3, 0));
    assert_eq!(world.cluster.objects(SET).len(), OLD + 2);
}

#[test]
fn an_old_template_is_found_again() {
    let world = world(3000);
    world.use_image("app:1234");
    world.finish();
    assert_eq!((world.size("app:1234"), world.size("app:new")), (3, 0));
    assert_eq!(world.cluster.objects(SET).len(), OLD + 1);
}

#[test]
fn all_that_exceed_the_history_limit_are_deleted_together() {
    let world = world(10);
    let deleted = world.sync().into_iter();
    let deleted = deleted.filter(|line| line.starts_with("delete apps/v1/ReplicaSet"));
    assert_eq!(deleted.count(), OLD - 10);
    assert_eq!(world.cluster.objects(SET).len(), 11);
}
