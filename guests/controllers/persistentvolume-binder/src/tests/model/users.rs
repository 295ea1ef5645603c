//! Those who act besides the controller: users, the scheduler, an external provisioner, and the controllers that let go of
//! what is not used any more.

use flyball_sdk::prelude::*;

use super::super::world::{
    CLASS, MOCK, NODE, PROVISIONED_BY, PV, PVC, annotated, class, reference_of, reservation, text,
    volume, with,
};
use super::watchdog::user_of;
use super::world::World;
use crate::names::{IS_DEFAULT, PROVISIONER};

/// The names that claims have in turn.
pub(super) const CLAIMS: [&str; 4] = ["a", "b", "c", "d"];
/// The names that the volumes of users have in turn.
const VOLUMES: u64 = 5;
/// A class whose volumes an external provisioner creates.
pub(super) const EXTERNAL: &str = "external";
/// A class whose claims wait for the scheduler.
pub(super) const DELAYED: &str = "delayed";
/// A class for which provisioning fails.
pub(super) const BROKEN: &str = "broken";
/// Classes, and what becomes of their volumes.
const CLASSES: [(&str, &str); 5] = [
    ("fast", "Delete"),
    ("safe", "Retain"),
    (EXTERNAL, "Delete"),
    (DELAYED, "Delete"),
    (BROKEN, "Delete"),
];
/// The classes that may be the default one.
const DEFAULTS: usize = 2;
const DRIVER: &str = "csi.example.com";
/// The only node.
pub(super) const EXISTING_NODE: &str = "node-1";
/// Keeps claims and volumes while they are used.
const PROTECTION: &str = "example.com/protection";

/// Creates what is there from the beginning.
pub(super) fn prepare(world: &World) {
    CLASSES.iter().for_each(|class| create_class(world, class));
    world
        .server
        .put(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": EXISTING_NODE}}));
}

/// A random action.
pub(super) fn act(world: &World) {
    match world.below(30) {
        0..=5 => create_claim(world),
        6..=8 => delete_claim(world),
        9..=13 => create_volume(world),
        14..=15 => delete_volume(world),
        16 => release_deleted(world),
        17..=18 => select_node(world),
        19..=21 => {
            provision(world);
        }
        22 => {
            delete_released(world);
        }
        23 => choose_default(world),
        24 => delete_or_create_class(world),
        25 => change_policy(world),
        26 => free_released(world),
        27..=28 => free_reserved(world),
        _ => reserve(world),
    }
}

/// Does what is left to do for all but the controller. Returns whether that was something.
pub(super) fn finish(world: &World) -> bool {
    let before = [PVC, PV].map(|kind| world.server.objects(kind));
    release_all_deleted(world);
    while provision(world) {}
    while delete_released(world) {}
    before != [PVC, PV].map(|kind| world.server.objects(kind))
}

fn create_class(world: &World, (name, policy): &(&str, &str)) {
    let provisioner = if *name == EXTERNAL { DRIVER } else { MOCK };
    let mut class = with(class(name, provisioner), "/reclaimPolicy", *policy);
    match *name {
        DELAYED => class["volumeBindingMode"] = "WaitForFirstConsumer".into(),
        BROKEN => class["parameters"] = json!({"expect-provision-failure": "true"}),
        _ => {}
    }
    world.server.put(class);
}

fn create_claim(world: &World) {
    let (name, number) = (world.one_of(&CLAIMS), world.created.get());
    if world.server.object(PVC, "team", name).is_some() {
        return;
    }
    world.created.set(number + 1);
    let size = format!("{}Gi", 1 + world.below(3));
    let mut claim = super::super::world::claim(name, &size);
    claim["metadata"]["uid"] = format!("uid-{name}-{number}").into();
    match world.below(11) as usize {
        at if at < CLASSES.len() => claim["spec"]["storageClassName"] = CLASSES[at].0.into(),
        5..=6 => claim["spec"]["storageClassName"] = EXTERNAL.into(),
        7 => drop(
            claim["spec"]
                .as_object_mut()
                .unwrap()
                .remove("storageClassName"),
        ),
        _ => {}
    }
    if world.below(4) == 0 {
        claim["spec"]["volumeName"] = format!("v{}", world.below(VOLUMES)).into();
    }
    if world.below(2) == 0 {
        claim["metadata"]["finalizers"] = json!([PROTECTION]);
    }
    world.tell(format!("create {claim}"));
    world.server.put(claim);
}

fn delete_claim(world: &World) {
    let name = world.one_of(&CLAIMS);
    if world.server.object(PVC, "team", name).is_some() {
        world.tell(format!("delete claim {name}"));
        world.server.delete(PVC, "team", name);
    }
}

/// Creates a volume. Its name may be that of an earlier one.
fn create_volume(world: &World) {
    let name = format!("v{}", world.below(VOLUMES));
    if world.server.object(PV, "", &name).is_some() {
        return;
    }
    let number = world.created.get();
    world.created.set(number + 1);
    let policy = world.one_of(&["Retain", "Delete", "Recycle"]);
    let mut disk = volume(&name, &format!("{}Gi", 1 + world.below(4)));
    disk["metadata"]["uid"] = format!("uid-{name}-{number}").into();
    disk = with(disk, "/spec/persistentVolumeReclaimPolicy", policy);
    disk = with(disk, "/status", json!({"phase": "Pending"}));
    if world.below(4) == 0 {
        disk = with(disk, "/spec/claimRef", reservation(world.one_of(&CLAIMS)));
    }
    if world.below(2) == 0 {
        disk["metadata"]["finalizers"] = json!([PROTECTION]);
    }
    world.tell(format!("create {disk}"));
    world.server.put(disk);
}

/// Deletes a volume, even one that is bound.
fn delete_volume(world: &World) {
    if let Some(disk) = any_volume(world, |_| true) {
        let name = text(&disk["metadata"]["name"]);
        world.tell(format!("a user deletes {name}"));
        world.server.delete(PV, "", &name);
    }
}

/// Lets go of an object that is being deleted.
fn release_deleted(world: &World) {
    let deleted = all_deleted(world);
    if !deleted.is_empty() {
        release(world, &deleted[world.below(deleted.len() as u64) as usize]);
    }
}

fn release_all_deleted(world: &World) {
    for object in all_deleted(world) {
        release(world, &object);
    }
}

/// The objects that only the protection keeps, or also another finalizer.
fn all_deleted(world: &World) -> Vec<Value> {
    let all = [PVC, PV].map(|kind| world.server.objects(kind));
    let mut deleted = all.concat();
    deleted.retain(|object| {
        let metadata = &object["metadata"];
        !metadata["deletionTimestamp"].is_null()
            && finalizers(metadata).any(|own| own == PROTECTION)
    });
    deleted
}

fn finalizers(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["finalizers"].as_array().into_iter().flatten()
}

fn release(world: &World, object: &Value) {
    let metadata = &object["metadata"];
    let kind = format!("v1/{}", text(&object["kind"]));
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let others: Vec<Value> = finalizers(metadata)
        .filter(|own| *own != PROTECTION)
        .cloned()
        .collect();
    world.tell(format!("let go of {kind} {namespace}/{name}"));
    match others.is_empty() {
        true => world.server.remove(&kind, &namespace, &name),
        false => world.server.edit(&kind, &namespace, &name, |object| {
            object["metadata"]["finalizers"] = others.into();
        }),
    }
}

/// The scheduler selects a node, which may not exist.
fn select_node(world: &World) {
    let node = world.one_of(&[EXISTING_NODE, EXISTING_NODE, "gone"]);
    let name = world.one_of(&CLAIMS);
    let Some(claim) = world.server.object(PVC, "team", name) else {
        return;
    };
    if claim["spec"]["storageClassName"] == DELAYED && claim["spec"]["volumeName"].is_null() {
        world.tell(format!("select {node} for {name}"));
        world.server.edit(PVC, "team", name, |claim| {
            *claim = annotated(claim.take(), NODE, node);
        });
    }
}

/// The external provisioner creates the volume of a claim that asks for it. Returns whether there is one.
fn provision(world: &World) -> bool {
    let claims = world.server.objects(PVC);
    let found = claims.into_iter().find(|claim| {
        claim["metadata"]["annotations"][PROVISIONER] == DRIVER
            && claim["metadata"]["deletionTimestamp"].is_null()
            && claim["spec"]["volumeName"].is_null()
            && world
                .server
                .object(PV, "", &provisioned_name(claim))
                .is_none()
    });
    let Some(claim) = found else { return false };
    let size = text(&claim["spec"]["resources"]["requests"]["storage"]);
    let mut disk = volume(&provisioned_name(&claim), &size);
    disk = with(disk, "/spec/persistentVolumeReclaimPolicy", "Delete");
    disk = with(disk, "/spec/storageClassName", EXTERNAL);
    disk = with(disk, "/spec/claimRef", reference_of(&claim));
    disk = with(disk, "/status", json!({"phase": "Pending"}));
    let spec = disk["spec"].as_object_mut().expect("a volume has a spec");
    spec.remove("hostPath");
    spec.insert(
        "csi".into(),
        json!({"driver": DRIVER, "volumeHandle": "disk"}),
    );
    disk = annotated(disk, PROVISIONED_BY, DRIVER);
    world.tell(format!("provision {disk}"));
    world.server.put(disk);
    true
}

/// The name of the volume that is provisioned for a claim.
pub(super) fn provisioned_name(claim: &Value) -> String {
    format!("pvc-{}", text(&claim["metadata"]["uid"]))
}

/// The external provisioner deletes a released volume. Returns whether there is one.
fn delete_released(world: &World) -> bool {
    let disk = any_volume(world, |disk| {
        disk["metadata"]["annotations"][PROVISIONED_BY] == DRIVER
            && disk["status"]["phase"] == "Released"
            && disk["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
            // An administrator may have given it to another claim just now.
            && user_of(world, disk).is_none()
    });
    let Some(disk) = disk else { return false };
    let name = text(&disk["metadata"]["name"]);
    world.tell(format!("the provisioner deletes {name}"));
    world.server.remove(PV, "", &name);
    true
}

/// Makes a class the default one, or none.
fn choose_default(world: &World) {
    let chosen = world.below(DEFAULTS as u64 + 1) as usize;
    for (at, (name, _)) in CLASSES.into_iter().enumerate().take(DEFAULTS) {
        let is_default = (at == chosen).to_string();
        if world.server.object(CLASS, "", name).is_some() {
            world.server.edit(CLASS, "", name, |class| {
                *class = annotated(class.take(), IS_DEFAULT, &is_default);
            });
        }
    }
}

fn delete_or_create_class(world: &World) {
    let class = world.one_of(&CLASSES);
    world.tell(format!("delete or create class {}", class.0));
    match world.server.object(CLASS, "", class.0) {
        Some(_) => world.server.remove(CLASS, "", class.0),
        None => create_class(world, &class),
    }
}

fn change_policy(world: &World) {
    let policy = world.one_of(&["Retain", "Delete"]);
    if let Some(disk) = any_volume(world, |_| true) {
        edit_volume(world, &disk, &format!("set policy {policy} of"), |disk| {
            disk["spec"]["persistentVolumeReclaimPolicy"] = policy.into();
        });
    }
}

/// An administrator gives a volume free whose claim is gone, or only lets the claim's successor have it.
fn free_released(world: &World) {
    let Some(disk) = any_volume(world, |disk| disk["status"]["phase"] == "Released") else {
        return;
    };
    let is_reserved = world.below(2) == 0;
    edit_volume(world, &disk, "free", |disk| {
        let spec = &mut disk["spec"];
        let (parent, field) = match is_reserved {
            true => (&mut spec["claimRef"], "uid"),
            false => (spec, "claimRef"),
        };
        if let Some(parent) = parent.as_object_mut() {
            parent.remove(field);
        }
    });
}

/// An administrator takes a volume back that a claim has, but does not name yet.
fn free_reserved(world: &World) {
    let is_unnamed = |disk: &Value| {
        user_of(world, disk).is_some_and(|claim| claim["spec"]["volumeName"].is_null())
    };
    if let Some(disk) = any_volume(world, is_unnamed) {
        edit_volume(world, &disk, "take back", |disk| {
            let spec = disk["spec"].as_object_mut();
            spec.expect("a volume has a spec").remove("claimRef");
        });
    }
}

/// An administrator reserves a free volume.
fn reserve(world: &World) {
    let name = world.one_of(&CLAIMS);
    if let Some(disk) = any_volume(world, |disk| disk["spec"]["claimRef"].is_null()) {
        edit_volume(world, &disk, &format!("reserve for {name}"), |disk| {
            disk["spec"]["claimRef"] = reservation(name);
        });
    }
}

fn edit_volume(world: &World, disk: &Value, what: &str, change: impl FnOnce(&mut Value)) {
    let name = text(&disk["metadata"]["name"]);
    world.tell(format!("{what} {name}"));
    world.server.edit(PV, "", &name, change);
}

fn any_volume(world: &World, is_one: impl Fn(&Value) -> bool) -> Option<Value> {
    let mut disks = world.server.objects(PV);
    disks.retain(is_one);
    let last = (disks.len() as u64).checked_sub(1)?;
    Some(disks.swap_remove(world.below(last + 1) as usize))
}
