//! The responses to writes, and which representation is requested, with plain values.

use super::*;
use crate::change::ByDelta;
use crate::protobuf::samples::{field, object as protobuf};

/// A core of pods that has listed nothing.
pub(crate) fn core(metadata_only: bool) -> Core {
    let pods = ApiResource::new("v1/Pod".parse().unwrap(), "pods", true);
    Core::new(Arc::new(pods), Scope::default(), metadata_only)
}

/// A core of whole objects whose cache is complete as of a version.
fn listed(objects: Vec<Arc<Object>>, version: u64) -> Core {
    let (core, mask) = (core(false), Arc::new(Mask::whole()));
    core.register(&mask, &Indexes::default());
    core.replace(objects, version, mask, false);
    core
}

fn json(kind: &str, version: u64) -> String {
    let metadata = format!(r#"{{"name":"x","uid":"u","resourceVersion":"{version}"}}"#);
    format!(r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{metadata}}}"#)
}

fn json_response(kind: &str, version: u64) -> ApiResponse {
    ApiResponse::new(json(kind, version).into())
}

fn protobuf_response(version: u64) -> ApiResponse {
    let version = version.to_string();
    let metadata = [field(1, b"x"), field(5, b"u"), field(6, version.as_bytes())];
    ApiResponse::new(protobuf("v1", "Pod", &field(1, &metadata.concat())).into())
}

#[test]
fn a_response_is_acknowledged_until_the_reflector_has_passed_its_version() {
    for (version, is_acknowledged) in [(6, false), (7, false), (8, true)] {
        let core = listed(Vec::new(), 7);
        let object = core.decode(&json_response("Pod", version)).unwrap();
        assert_eq!(object.resource_version, version);
        let known = core
            .acknowledged
            .get("u", &version.to_string(), &object.mask);
        assert_eq!(
            known.is_some_and(|known| Arc::ptr_eq(&known, &object)),
            is_acknowledged,
            "version {version}"
        );
    }
}

#[test]
fn a_response_of_metadata_is_acknowledged_only_where_metadata_is_cached() {
    let response = json_response("PartialObjectMetadata", 8);
    for metadata_only in [false, true] {
        let core = core(metadata_only);
        core.decode(&response).unwrap();
        assert_eq!(!core.acknowledged.is_empty(), metadata_only);
    }
}

#[test]
fn a_version_that_the_cache_holds_is_not_decoded_again() {
    let cached = Object::parse(json("Pod", 7).as_bytes()).unwrap();
    let core = listed(vec![cached.clone()], 7);
    let same = core.decode(&protobuf_response(7)).unwrap();
    assert!(Arc::ptr_eq(&same, &cached));
    let next = core.decode(&protobuf_response(8)).unwrap();
    assert_eq!(next.resource_version, 8);
}

#[test]
fn json_is_requested_once_protobuf_could_not_be_decoded() {
    let core = core(false);
    assert!(core.reads_protobuf());
    assert!(core.read_json_only(), "protobuf was requested before");
    assert!(!core.reads_protobuf());
    assert!(!core.read_json_only(), "JSON was requested already");
}

#[test]
fn a_core_of_metadata_can_be_made_to_hold_whole_objects() {
    let core = core(true);
    assert!(core.is_metadata_only());
    core.hold_all();
    assert!(!core.is_metadata_only());
}

/// An object of which an index has one value.
fn pod(name: &str, version: u64) -> Arc<Object> {
    let metadata = format!(r#"{{"name":"{name}","uid":"{name}","resourceVersion":"{version}"}}"#);
    Object::parse(format!(r#"{{"metadata":{metadata},"node":"n"}}"#).as_bytes()).unwrap()
}

#[test]
fn an_index_is_built_after_its_handle_is_registered_and_goes_with_the_last_handle() {
    let objects = (0..1000).map(|number| pod(&format!("p{number}"), 7));
    let core = listed(objects.collect(), 7);
    let bytes = |core: &Core| core.state().indexer.bytes();
    let before = bytes(&core);
    let indexes = Indexes {
        values: vec!["node".parse().unwrap()],
        selectors: vec!["selector".parse().unwrap()],
    };
    let mask = Arc::new(Mask::whole());
    let handles = [(); 2].map(|()| core.register(&mask, &indexes));
    assert!(!core.has_built(&indexes) && bytes(&core) == before);
    core.build(&indexes);
    assert!(core.has_built(&indexes) && bytes(&core) > before);
    core.unregister(handles[0], &indexes);
    assert!(core.has_built(&indexes));
    core.unregister(handles[1], &indexes);
    assert!(!core.has_built(&indexes) && bytes(&core) == before);
    core.build(&indexes);
    assert_eq!(bytes(&core), before, "an index that nobody declares");
}

#[test]
fn a_subscriber_that_is_too_far_behind_receives_all_objects_again() {
    let objects = (0..100).map(|number| pod(&format!("p{number}"), 7));
    let core = listed(objects.collect(), 7);
    let mut deltas = core.subscribe(
        &Arc::new(Mask::whole()),
        Arc::new(ByDelta(|_: &Delta| true)),
    );
    deltas.keep_at_most(10_000);
    assert_eq!(deltas.try_next(1000).unwrap().deltas.len(), 100);
    let deleted = |number: u64| Event::Delete(pod(&format!("p{number}"), 8 + number));
    assert!(core.apply((0..90).map(deleted).collect()));
    let batch = deltas.try_next(1000).unwrap();
    assert!(batch.restarted && batch.deltas.len() == 10);
    assert!(batch.deltas.iter().all(|delta| delta.initial));
    assert!(core.apply(vec![deleted(90)]));
    let batch = deltas.try_next(1000).unwrap();
    assert!(!batch.restarted && batch.deltas.len() == 1);
}

fn mask(fields: &[&str]) -> Arc<Mask> {
    Arc::new(Mask::parse(fields.iter().copied()).unwrap())
}

#[test]
fn a_cache_is_too_narrow_until_it_holds_the_fields_of_all_handles() {
    let core = core(false);
    let narrow = mask(&["spec"]);
    let first = core.register(&narrow, &Indexes::default());
    core.replace(Vec::new(), 7, Arc::clone(&narrow), false);
    assert_eq!(*core.held_mask(), *narrow);
    assert!(!core.is_too_narrow() && core.handles() == 1);
    let second = core.register(&mask(&["status"]), &Indexes::default());
    assert!(core.is_too_narrow() && core.handles() == 2);
    assert!(core.wanted_mask().covers(&mask(&["spec", "status"])));
    assert_eq!(core.unregister(second, &Indexes::default()), 1);
    assert!(!core.is_too_narrow());
    assert_eq!(core.unregister(first, &Indexes::default()), 0);
    assert_eq!(core.handles(), 0);
}

#[test]
fn indexes_are_built_only_if_those_of_values_and_of_selectors_are() {
    let core = listed(vec![pod("p", 7)], 7);
    let path = || vec!["node".parse().unwrap()];
    let both = Indexes {
        values: path(),
        selectors: path(),
    };
    core.register(&mask(&["node"]), &both);
    core.build(&Indexes {
        values: path(),
        selectors: Vec::new(),
    });
    assert!(!core.has_built(&both), "the selectors are not built");
    core.build(&both);
    assert!(core.has_built(&both));
    assert!(!both.is_empty() && Indexes::default().is_empty());
    let of_values = Indexes {
        values: path(),
        selectors: Vec::new(),
    };
    assert!(!of_values.is_empty());
}

#[test]
fn lists_and_resets_are_counted() {
    let core = listed(Vec::new(), 7);
    let (positions, lists) = (core.positions(), core.lists());
    assert_eq!(*lists.borrow(), 1);
    let reset = |version, is_reset| core.replace(Vec::new(), version, mask(&["spec"]), is_reset);
    reset(6, false);
    assert_eq!(core.position(), 7, "a list from before");
    reset(3, true);
    reset(4, true);
    let position = *positions.borrow();
    assert_eq!((position.version, position.resets), (4, 2));
    assert_eq!(*lists.borrow(), 4);
}

#[test]
fn events_are_applied_until_a_version_goes_back() {
    let core = listed(Vec::new(), 7);
    let upserts = |versions: &[u64]| {
        let event = |version: &u64| Event::Upsert(pod(&format!("p{version}"), *version));
        versions.iter().map(event).collect()
    };
    assert!(core.apply(upserts(&[8, 8, 9])), "two have the same version");
    assert!(!core.apply(upserts(&[10, 8, 11])));
    assert_eq!((core.position(), core.events()), (10, 6));
    assert_eq!(core.state().indexer.iter().count(), 3, "p8, p9 and p10");
}

#[test]
fn a_problem_is_new_once() {
    let core = core(false);
    let problem = |is_kind_missing| {
        let text = "refused".to_owned();
        Some(Problem {
            text,
            is_kind_missing,
        })
    };
    assert!(!core.set_problem(None) && core.problem().is_none());
    assert!(core.set_problem(problem(false)) && !core.is_kind_missing());
    assert!(!core.set_problem(problem(false)));
    assert_eq!(core.problem().as_deref(), Some("refused"));
    assert!(core.set_problem(problem(true)) && core.is_kind_missing());
    assert!(core.set_problem(None) && !core.is_kind_missing());
}

#[tokio::test]
async fn no_subscription_outlives_the_reflector() {
    let core = listed(Vec::new(), 7);
    let subscribe = || core.subscribe(&mask(&["spec"]), Arc::new(ByDelta(|_: &Delta| true)));
    let mut before = subscribe();
    core.close();
    let mut after = subscribe();
    for deltas in [&mut before, &mut after] {
        while let Some(batch) = deltas.next(10).await {
            assert!(batch.deltas.is_empty(), "the empty snapshot");
        }
    }
}
