//! The deltas that a slow subscriber receives.

use super::*;

fn object(name: &str, version: u64, bytes: usize) -> Arc<Object> {
    let data = "x".repeat(bytes);
    let json = format!(
        r#"{{"metadata": {{"name": "{name}", "uid": "{name}", "resourceVersion": "{version}", "labels": {{"v": "{version}"}}}}, "data": "{data}"}}"#
    );
    Object::parse(json.as_bytes()).unwrap()
}

fn delta(old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) -> Delta {
    Delta {
        old: old.cloned(),
        new: new.cloned(),
        between: Vec::new(),
        initial: false,
    }
}

fn late(at_most: usize) -> Deltas {
    let deltas = Deltas {
        pending: Arc::default(),
    };
    deltas.keep_at_most(at_most);
    deltas
}

#[test]
fn the_versions_that_are_kept_for_a_late_subscriber_are_bounded() {
    let mut deltas = late(100_000);
    let versions: Vec<_> = (1..=50)
        .map(|version| object("a", version, 9_000))
        .collect();
    for pair in versions.windows(2) {
        assert!(deltas.pending.push([delta(Some(&pair[0]), Some(&pair[1]))]));
        assert!(deltas.pending.queue.lock().kept <= 100_000);
    }
    let batch = deltas.try_next(10).unwrap();
    let [merged] = &batch.deltas[..] else {
        panic!("changes of one object are one delta");
    };
    assert_eq!(merged.delta_type(), DeltaType::Modified);
    assert!(Arc::ptr_eq(merged.new.as_ref().unwrap(), &versions[49]));
    let oldest = merged.old.as_ref().unwrap();
    assert_eq!(oldest.resource_version(), 1);
    assert_eq!(oldest.labels(), versions[0].labels());
    assert!(oldest.json().len() < 200 && !batch.restarted);
    assert_eq!(deltas.pending.queue.lock().kept, 0);
}

#[test]
fn versions_within_the_bound_are_kept_whole() {
    let versions: Vec<_> = (1..=6).map(|version| object("a", version, 9_000)).collect();
    let bytes: usize = versions[..5]
        .iter()
        .map(|version| version.size_alone())
        .sum();
    // They have more than half of the bound.
    let mut deltas = late(bytes);
    for pair in versions.windows(2) {
        assert!(deltas.pending.push([delta(Some(&pair[0]), Some(&pair[1]))]));
    }
    assert_eq!(deltas.pending.queue.lock().kept, bytes);
    let batch = deltas.try_next(10).unwrap();
    let kept: Vec<_> = batch.deltas[0].versions().collect();
    assert_eq!(kept.len(), versions.len());
    assert!(
        kept.into_iter()
            .zip(&versions)
            .all(|(kept, version)| Arc::ptr_eq(kept, version))
    );
}

#[test]
fn a_subscription_that_is_dropped_keeps_nothing() {
    let deltas = late(100_000);
    let (pending, now) = (deltas.pending.clone(), object("a", 1, 0));
    pending.push([delta(None, Some(&now))]);
    assert!(!pending.is_closed());
    drop(deltas);
    assert!(pending.is_closed());
    assert!(pending.push([delta(None, Some(&now))]));
    assert_eq!(Arc::strong_count(&now), 1);
}

#[test]
fn a_deletion_is_not_lost_when_its_object_is_reduced() {
    let mut deltas = late(100_000);
    for name in 0..20 {
        let object = object(&format!("o{name}"), 1, 9_000);
        deltas.pending.push([delta(None, Some(&object))]);
        assert!(deltas.pending.push([delta(Some(&object), None)]));
    }
    let batch = deltas.try_next(100).unwrap();
    let deleted = batch.deltas.iter();
    let deleted = deleted.filter(|delta| delta.delta_type() == DeltaType::Deleted);
    let names: Vec<_> = deleted
        .map(|delta| delta.object().name().to_owned())
        .collect();
    assert_eq!(
        names,
        Vec::from_iter((0..20).map(|name| format!("o{name}")))
    );
}

#[test]
fn a_subscriber_that_is_too_far_behind_begins_again() {
    let mut deltas = late(20_000);
    let mut kept_up = 0;
    while deltas
        .pending
        .push([delta(Some(&object(&format!("o{kept_up}"), 1, 0)), None)])
    {
        kept_up += 1;
        assert!(kept_up < 1000, "the deltas are not bounded");
    }
    assert!(deltas.pending.queue.lock().kept < 30_000);
    deltas.pending.restart();
    let now = object("a", 2, 0);
    deltas.pending.push([delta(None, Some(&now))]);
    let batch = deltas.try_next(10).unwrap();
    assert!(batch.restarted && batch.deltas.len() == 1);
    deltas.pending.push([delta(Some(&now), None)]);
    assert!(!deltas.try_next(10).unwrap().restarted);
}

/// Follows the example at the top of `delta.rs`.
#[test]
fn changes_of_a_pod_are_merged_as_in_the_example() {
    let mut deltas = Deltas {
        pending: Arc::default(),
    };
    let [five, six, seven, last] = [5, 6, 7, 8].map(|version| object("web-1", version, 0));
    let deleted = Delta {
        between: vec![last],
        ..delta(Some(&seven), None)
    };
    for change in [
        delta(Some(&five), Some(&six)),
        delta(Some(&six), Some(&seven)),
        deleted,
        delta(None, Some(&object("web-1 again", 9, 0))),
    ] {
        assert!(deltas.pending.push([change]));
    }
    let versions = |delta: &Delta| -> Vec<u64> {
        delta.versions().map(|own| own.resource_version()).collect()
    };
    let batch = deltas.try_next(10).unwrap();
    let found: Vec<_> = batch.deltas.iter().map(versions).collect();
    assert_eq!(found, [vec![5, 6, 7, 8], vec![9]]);
    assert!(batch.deltas[0].new.is_none());
}
