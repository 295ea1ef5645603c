//! An object that is seen between two writes, or between its deletion and its end, causes no write and no event that
//! stock would not cause.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flyball_controller_tests::play::{Deeds, Play};
use flyball_controller_tests::reactions::{Deed, REACTIONS, Reaction};
use flyball_controller_tests::states::{Change, STATES, State};
use flyball_controller_tests::world::{World, kind_of, watched};
use flyball_controller_tests::{SUBJECTS, Subject};
use flyball_types::Kind;
use serde_json::Value;

/// Objects of each kind that are brought to a state.
const OBJECTS: usize = 6;
/// The same of one world.
const OBJECTS_OF_WORLD: usize = 2;
/// Controllers that are not tested, and the reasons.
const ABSENT: [(&str, &str); 1] = [(
    "garbage-collector",
    "it watches the kinds that it discovers, and reads their objects from a server that has all of them",
)];
/// After this time, what was to be done at once is done.
const MOMENT: Duration = Duration::from_secs(2);

#[test]
fn a_transient_state_causes_only_what_it_causes_in_stock() {
    let next = AtomicUsize::new(0);
    let found: Mutex<(BTreeMap<Deed, String>, BTreeSet<Entered>)> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(subject) = SUBJECTS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (deeds, entered) = deeds(subject);
                    let mut found = found.lock().expect("no thread panics");
                    found.0.extend(deeds);
                    found.1.extend(entered);
                }
            });
        }
    });
    let (found, entered) = found.into_inner().expect("no thread panics");
    let expected: BTreeSet<Deed> = REACTIONS.iter().flat_map(Reaction::deeds).collect();
    let surplus = { found.iter() }.filter(|(deed, _)| !expected.contains(*deed));
    let missing = { expected.iter() }.filter(|deed| !found.contains_key(*deed));
    let absent = { SUBJECTS.iter() }
        .map(|subject| subject.folder)
        .filter(|folder| !entered.iter().any(|(own, _)| own == folder))
        .filter(|folder| !ABSENT.iter().any(|(own, _)| own == folder));
    let present =
        { ABSENT.iter() }.filter(|(folder, _)| entered.iter().any(|(own, _)| own == folder));
    let unused =
        { STATES.iter() }.filter(|state| !entered.iter().any(|(_, own)| *own == state.name));
    let wrong: Vec<String> = surplus
        .map(|(deed, example)| format!("not in the table: {deed:?}, as in {example}"))
        .chain(missing.map(|deed| format!("in the table, but not done: {deed:?}")))
        .chain(absent.map(|folder| format!("{folder} has no world with a state, and no reason")))
        .chain(present.map(|(folder, _)| format!("{folder} is tested: remove the reason")))
        .chain(unused.map(|state| format!("no object of any world can be in {}", state.name)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A controller's folder, and a state that an object of its worlds was brought to.
type Entered = (&'static str, &'static str);

/// Returns the deeds of a controller in all states, each with an example, and the states.
fn deeds(subject: &Subject) -> (BTreeMap<Deed, String>, BTreeSet<Entered>) {
    let worlds = World::all_of(subject);
    let kinds = watched(subject);
    let (mut found, mut states) = (BTreeMap::new(), BTreeSet::new());
    for (state, kind) in
        { STATES.iter() }.flat_map(|state| kinds.iter().map(move |kind| (state, kind)))
    {
        let entered = worlds.iter().flat_map(|world| {
            let of_kind = world
                .objects
                .iter()
                .filter(|object| kind_of(object) == *kind);
            of_kind.take(OBJECTS_OF_WORLD).filter_map(move |object| {
                Some((world, object, enter(subject, world, object, state)?))
            })
        });
        for (world, object, deeds) in entered.take(OBJECTS) {
            states.insert((subject.folder, state.name));
            for deed in deeds {
                let deed = [
                    subject.folder.into(),
                    state.name.into(),
                    kind.to_string(),
                    deed,
                ];
                let name = text(&object["metadata"]["name"]);
                found
                    .entry(deed)
                    .or_insert_with(|| format!("{}: {name}", world.name));
            }
        }
    }
    (found, states)
}

/// Brings an object of a settled world to a state. Returns the controller's deeds that the state causes; `None` if the
/// object can't be in the state.
fn enter(
    subject: &Subject,
    world: &World,
    object: &Value,
    state: &State,
) -> Option<BTreeSet<String>> {
    let metadata = &object["metadata"];
    let (kind, namespace, name) = (
        kind_of(object).to_string(),
        text(&metadata["namespace"]),
        text(&metadata["name"]),
    );
    let can_be = match state.change {
        Change::Edited(change) => change(&mut object.clone()),
        Change::OwnerRemoved => world
            .objects
            .iter()
            .any(|other| names_owner(other, &metadata["uid"])),
    };
    if !can_be {
        return None;
    }
    let cluster = subject.cluster();
    world.put(&cluster);
    let kinds: Vec<Kind> = world.objects.iter().map(kind_of).collect();
    let mut play = Play::new(*subject, cluster, kinds);
    let settled = pass(&mut play);
    if settled.is_restless || settled.panic.is_some() {
        return None;
    }
    play.cluster().object(&kind, namespace, name)?;
    // The controller's deeds after a meaningless change are not caused by the state.
    play.cluster().edit(&kind, namespace, name, |object| {
        object["metadata"]["annotations"]["example.com/touched"] = "".into();
    });
    let usual = summary(pass(&mut play));
    play.cluster().object(&kind, namespace, name)?;
    match state.change {
        Change::Edited(change) => play.cluster().edit(&kind, namespace, name, |object| {
            change(object);
        }),
        Change::OwnerRemoved => play.cluster().remove(&kind, namespace, name),
    }
    let mut found = summary(pass(&mut play));
    if state.ends && play.cluster().object(&kind, namespace, name).is_some() {
        play.cluster().remove(&kind, namespace, name);
        // Writes after the deletion are reactions to it, not to the state. Events count.
        found.extend(summary(Deeds {
            writes: Vec::new(),
            ..pass(&mut play)
        }));
    }
    Some(found.difference(&usual).cloned().collect())
}

/// Runs a controller until it has settled, and again after a moment.
fn pass(play: &mut Play) -> Deeds {
    let mut deeds = play.settle();
    deeds.add(play.wait(MOMENT));
    deeds
}

/// The writes without names, the events and failures without messages.
fn summary(deeds: Deeds) -> BTreeSet<String> {
    let words = |line: &String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let writes = deeds.writes.iter().map(words);
    let events = deeds.events.iter().map(words);
    let failed = deeds.failed.values().map(|_| "fails".to_owned());
    let panic = { deeds.panic.into_iter() }.map(|panic| format!("panics: {panic}"));
    writes.chain(events).chain(failed).chain(panic).collect()
}

fn names_owner(object: &Value, uid: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .any(|owner| owner["uid"] == *uid)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
