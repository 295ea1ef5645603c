//! What must hold at any time, and for each write.

use std::cell::RefCell;
use std::collections::BTreeMap;

use flyball_sdk::prelude::*;
use flyball_sdk::write::{Action, Batch, Write};

use super::super::world::{PV, PVC, text};
use super::world::World;

/// Remembers which volume each bound claim got. A user may replace a volume by another one with the same name.
#[derive(Default)]
pub(super) struct Watchdog {
    /// The UID of the volume, by the UID of the claim.
    bound: RefCell<BTreeMap<String, String>>,
}

impl Watchdog {
    /// Checks that no volume is bound to two claims.
    pub(super) fn check_always(&self, world: &World) {
        let claims = world.server.objects(PVC);
        let disks = world.server.objects(PV);
        for disk in &disks {
            let (name, disk_uid) = (&disk["metadata"]["name"], text(&disk["metadata"]["uid"]));
            let is_bound = |claim: &&Value| {
                claim["spec"]["volumeName"] == *name && claim["status"]["phase"] == "Bound"
            };
            let has_it = |claim: &&Value| {
                let uid = &claim["metadata"]["uid"];
                let mut bound = self.bound.borrow_mut();
                let first = bound.entry(text(uid)).or_insert_with(|| disk_uid.clone());
                *first == disk_uid || disk["spec"]["claimRef"]["uid"] == *uid
            };
            let bound = claims.iter().filter(is_bound).filter(has_it).count();
            assert!(
                bound < 2,
                "{name} is bound to {bound} claims:\n{}",
                world.told()
            );
        }
    }

    /// Whether a claim still has the volume to which it was bound first.
    pub(super) fn has_first(&self, claim: &Value, disk: &Value) -> bool {
        let bound = self.bound.borrow();
        let first = bound.get(&text(&claim["metadata"]["uid"]));
        first.is_none_or(|first| *first == text(&disk["metadata"]["uid"]))
    }
}

/// Checks the writes of a process.
pub(super) fn check_writes(world: &World, batch: &Batch) {
    for write in &batch.writes {
        match write.target.kind.as_str() {
            PV => check_volume(world, write),
            PVC => check_claim(world, write),
            _ => {}
        }
    }
}

/// Checks that a write does not take a volume from a claim that may use it.
fn check_volume(world: &World, write: &Write) {
    let disk = world.server.object(PV, "", &write.target.name);
    let Some(disk) = disk.filter(|disk| is_current(write, disk)) else {
        return;
    };
    let takes = match &write.action {
        Action::Delete => true,
        Action::Update(_, change) => {
            new_user(change).is_some_and(|uid| uid != disk["spec"]["claimRef"]["uid"])
        }
        Action::UpdateStatus { status, .. } => json_of(status)["phase"] == "Released",
        _ => false,
    };
    if let Some(user) = user_of(world, &disk).filter(|_| takes) {
        let name = &disk["metadata"]["name"];
        panic!("{name} is taken from {user}:\n{}", world.told());
    }
}

/// The claim that may use a volume.
pub(super) fn user_of(world: &World, disk: &Value) -> Option<Value> {
    let (name, uid) = (&disk["metadata"]["name"], &disk["spec"]["claimRef"]["uid"]);
    let may_use = |claim: &Value| {
        let named = &claim["spec"]["volumeName"];
        !uid.is_null() && claim["metadata"]["uid"] == *uid && (named.is_null() || named == name)
    };
    world.server.objects(PVC).into_iter().find(may_use)
}

/// Checks that a write does not give a claim another volume than it has.
fn check_claim(world: &World, write: &Write) {
    let target = &write.target;
    let Some(claim) = world.server.object(PVC, &target.namespace, &target.name) else {
        return;
    };
    let Action::Update(_, change) = &write.action else {
        return;
    };
    let (before, change) = (&claim["spec"]["volumeName"], json_of(change));
    let Some(after) = change.pointer("/spec/volumeName") else {
        return;
    };
    assert!(
        before.is_null() || before == after || !is_current(write, &claim),
        "{} gets {after} instead of {before}:\n{}",
        target.name,
        world.told()
    );
}

/// Whether a write is not refused because the object has changed.
fn is_current(write: &Write, object: &Value) -> bool {
    let version = &object["metadata"]["resourceVersion"];
    match &write.action {
        Action::Update(expected, _)
        | Action::UpdateStatus {
            resource_version: expected,
            ..
        } => *version == expected.as_str(),
        Action::Delete => {
            let expected = write.options.get("preconditions");
            let expected = expected.map(|all| &all["resourceVersion"]);
            expected.is_none_or(|expected| expected.is_null() || expected == version)
        }
        _ => true,
    }
}

/// The UID of the claim to which a change gives a volume; null if it gives the volume free.
fn new_user(change: &[u8]) -> Option<Value> {
    let change = json_of(change);
    let reference = change.pointer("/spec/claimRef")?;
    Some(reference["uid"].clone())
}

/// Whether a change of a volume takes it from its claim.
pub(super) fn frees(change: &[u8]) -> bool {
    new_user(change).is_some_and(|uid| uid.is_null())
}

fn json_of(change: &[u8]) -> Value {
    flyball_sdk::serde_json::from_slice(change).expect("a change is JSON")
}
