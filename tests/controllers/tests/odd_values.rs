//! No value that the API server stores makes a controller panic, or keeps it from reconciling an object for ever where
//! stock goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flyball_controller_tests::odd::{Numbers, places, spoil};
use flyball_controller_tests::play::{Deeds, Play};
use flyball_controller_tests::world::{World, kind_of, watched};
use flyball_controller_tests::{SUBJECTS, Subject};
use flyball_controlplane::FULL;
use flyball_types::Kind;
use serde_json::Value;

/// Spoilt objects of each kind that a controller watches.
const OBJECTS: u64 = 60;
/// The same with `--full`.
const OBJECTS_IN_FULL: u64 = 2_000;
/// The maximum number of places that are spoilt at once.
const PLACES: usize = 3;

/// Controllers that are not tested, and the reasons.
const ABSENT: [(&str, &str); 1] = [(
    "garbage-collector",
    "it watches the kinds that it discovers, and reads their objects from a server that has all of them",
)];
/// Failures that stock has too: the controller's folder, a part of the error, and the reason.
const FAILS_IN_STOCK: [(&str, &str, &str); 13] = [
    (
        "ephemeral-volume",
        "(pod is not owner)",
        "handleVolume fails if VolumeIsForPod does",
    ),
    (
        "persistentvolume-binder",
        "is without a storage capacity",
        "updateClaimStatus fails if the volume has no capacity",
    ),
    (
        "persistentvolume-binder",
        "VolumeBindingMode not set",
        "IsDelayBindingMode fails if the class has no mode",
    ),
    (
        "persistentvolume-binder",
        "its selector is invalid",
        "FindMatchingVolume fails if LabelSelectorAsSelector does",
    ),
    (
        "persistentvolume-binder",
        "which belongs to another claim",
        "syncUnboundClaim fails if the controller bound the claim",
    ),
    (
        "persistentvolume-expander",
        "does not exist",
        "syncHandler fails if the claim's volume does not exist",
    ),
    (
        "persistentvolume-expander",
        "is not bound to the claim",
        "syncHandler fails if the volume refers to another claim",
    ),
    (
        "resourceclaim",
        "none of the supported fields are set",
        "handleClaim fails if resourceclaim.Name does",
    ),
    (
        "resourceclaim",
        ": resource claim template \"",
        "handleClaim fails if the template does not exist",
    ),
    (
        "resourcepoolstatusrequest",
        "slices",
        "syncRequest fails while a pool lacks slices",
    ),
    (
        "selinux-warning",
        "has several SELinux labels",
        "syncPod fails if GetMountSELinuxLabel does",
    ),
    (
        "statefulset",
        "already exists",
        "CreateStatefulPod returns the error about another owner's pod",
    ),
    (
        "storage-version-migrator",
        "the resource is not served yet",
        "without its conditions, a migration begins again, and tries for a minute to find its resource",
    ),
];

#[test]
fn no_odd_value_stops_a_controller() {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(subject) = SUBJECTS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let faults = faults(subject);
                    found.lock().expect("no thread panics").extend(faults);
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panics");
    let lines: Vec<String> = { found.iter() }
        .map(|(fault, example)| format!("{fault}\n    {example}"))
        .collect();
    assert!(
        lines.is_empty(),
        "{} faults:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

/// Returns the faults of a controller, each with an example.
///
/// # Panics
/// No world of the controller has an object that it watches, and [`ABSENT`] has no reason.
fn faults(subject: &Subject) -> BTreeMap<String, String> {
    let worlds = World::all_of(subject);
    let annotations = annotations(subject, &worlds);
    let usual: Vec<Deeds> = worlds.iter().map(|world| settle(subject, world)).collect();
    let is_full = std::env::var_os(FULL).is_some();
    let seeds = 1..=if is_full { OBJECTS_IN_FULL } else { OBJECTS };
    let (mut faults, mut has_objects) = (BTreeMap::new(), false);
    for kind in watched(subject) {
        for numbers in seeds.clone().map(Numbers::of_seed) {
            let Some((at, world, example)) = spoilt(&worlds, &kind, &annotations, numbers) else {
                continue;
            };
            has_objects = true;
            let deeds = settle(subject, &world);
            let panic = deeds.panic.map(|panic| format!("panics: {panic}"));
            let failed = { deeds.failed.into_iter() }
                .filter(|(key, _)| !usual[at].failed.contains_key(key))
                .filter(|(_, error)| !fails_in_stock(subject, error))
                .map(|(key, error)| format!("{key} fails: {error}"));
            for fault in panic.into_iter().chain(failed) {
                let fault = shortened(&format!("{}: {fault}", subject.folder));
                faults.entry(fault).or_insert_with(|| example.clone());
            }
        }
    }
    let is_absent = ABSENT.iter().any(|(folder, _)| *folder == subject.folder);
    assert_ne!(
        has_objects, is_absent,
        "{}: either no scenario has an object that it watches with a value to replace, or ABSENT has a needless reason",
        subject.folder
    );
    faults
}

/// Returns the number of a world, the world with a spoilt object of a kind, and what is odd in it. `None` if no world has
/// such an object with a place for an odd value.
fn spoilt(
    worlds: &[World],
    kind: &Kind,
    annotations: &[String],
    mut numbers: Numbers,
) -> Option<(usize, World, String)> {
    let candidates: Vec<(usize, usize)> = { worlds.iter().enumerate() }
        .flat_map(|(at, world)| {
            let objects = world.objects.iter().enumerate();
            let of_kind = objects.filter(|(_, object)| kind_of(object) == *kind);
            of_kind.map(move |(object, _)| (at, object))
        })
        .collect();
    if candidates.is_empty() {
        return None;
    }
    let (at, object) = *numbers.choose(&candidates);
    let mut world = worlds[at].clone();
    let spoilt = &mut world.objects[object];
    let places = places(spoilt, annotations);
    if places.is_empty() {
        return None;
    }
    let mut changes = Vec::new();
    for _ in 0..=numbers.below(PLACES) {
        let place = numbers.choose(&places);
        spoil(spoilt, place, &mut numbers);
        let value = spoilt.pointer(&place.pointer).unwrap_or(&Value::Null);
        changes.push(shortened(&format!("{}={value}", place.pointer)));
    }
    let example = format!("{kind} of {}: {}", world.name, changes.join(", "));
    Some((at, world, example))
}

fn settle(subject: &Subject, world: &World) -> Deeds {
    let cluster = subject.cluster();
    world.put(&cluster);
    let kinds: Vec<Kind> = world.objects.iter().map(kind_of).collect();
    Play::new(*subject, cluster, kinds).settle()
}

/// The keys of annotations that a controller declares to read, and those in its worlds.
fn annotations(subject: &Subject, worlds: &[World]) -> Vec<String> {
    let description = subject.exported.describe(&subject.cluster());
    let fields = description.watches.iter().flat_map(|watch| &watch.fields);
    let declared = fields.filter_map(|field| {
        let (_, key) = field.split_once("annotations['")?;
        key.split_once('\'').map(|(key, _)| key.to_owned())
    });
    let objects = worlds.iter().flat_map(|world| &world.objects);
    let present = objects.flat_map(|object| {
        let annotations = object["metadata"]["annotations"].as_object();
        let keys = annotations.into_iter().flatten().map(|(key, _)| key);
        keys.cloned()
    });
    let all: BTreeSet<String> = declared.chain(present).collect();
    all.into_iter().collect()
}

fn fails_in_stock(subject: &Subject, error: &str) -> bool {
    { FAILS_IN_STOCK.iter() }
        .any(|(folder, part, _)| *folder == subject.folder && error.contains(part))
}

fn shortened(text: &str) -> String {
    text.chars().take(300).collect()
}
