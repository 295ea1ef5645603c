//! Owners with more dependents than one reconcile handles.

use std::time::Duration;

use super::*;
use crate::{FOREGROUND, ORPHAN, PORTION};

const ALL: usize = 12_000;
const PART: usize = PORTION as usize;
const LATER: Outcome = Outcome::RequeueAfter(Duration::from_secs(1));

/// An owner, unless it is absent, with 12,000 dependents.
fn family(owner: Option<Value>) -> Cluster {
    let dependent = |number| map(&format!("d-{number:05}"), &[("owner", true)]);
    cluster((0..ALL).map(dependent).chain(owner))
}

fn delete(cluster: &Cluster, names: std::ops::Range<usize>) {
    names.for_each(|number| cluster.remove(MAP, "a", &format!("d-{number:05}")));
}

#[test]
fn the_dependents_of_an_absent_owner_are_enqueued_in_portions_until_none_is_left_out() {
    let cluster = family(None);
    let collect = || {
        let outcome = collect(&cluster, &key("owner")).unwrap();
        let queued = queued(&cluster);
        (outcome, queued.len(), queued.first().cloned())
    };
    let first = |number: usize| Some(key(&format!("d-{number:05}")));
    assert_eq!(collect(), (LATER, PART, first(0)));
    assert_eq!(collect(), (LATER, PART, first(PART)));
    // Some dependents of the first two portions can't be deleted, and others have moved into the places of deleted
    // ones.
    delete(&cluster, 1000..2 * PART);
    assert_eq!(collect(), (LATER, 0, None));
    assert_eq!(collect(), (Outcome::Done, ALL - 2 * PART + 1000, first(0)));
    assert_eq!(cluster.live_reads().len(), 1);
}

#[test]
fn a_waiting_owner_enqueues_a_portion_and_is_not_checked_at_each_deletion() {
    let cluster = family(Some(going(map("owner", &[]), FOREGROUND)));
    let collect = || {
        (
            collect(&cluster, &key("owner")).unwrap(),
            queued(&cluster).len(),
        )
    };
    assert_eq!(collect(), (LATER, PART));
    delete(&cluster, 0..8_000);
    assert_eq!(collect(), (LATER, 0));
    cluster.advance(Duration::from_secs(1));
    assert_eq!(collect(), (Outcome::Done, 4_000));
    delete(&cluster, 8_000..ALL);
    assert_eq!(collect(), (Outcome::Done, 0));
    assert!(cluster.object(MAP, "a", "owner").is_none());
}

#[test]
fn dependents_are_orphaned_in_portions_and_the_owner_is_kept_until_the_last() {
    let cluster = family(Some(going(map("owner", &[]), ORPHAN)));
    let again = Outcome::RequeueAfter(Duration::ZERO);
    for (outcome, written) in [
        (again, PART),
        (again, PART),
        (Outcome::Done, ALL - 2 * PART + 1),
    ] {
        assert!(cluster.object(MAP, "a", "owner").is_some());
        assert_eq!(orphan(&cluster, &key("owner")).unwrap(), outcome);
        assert_eq!(cluster.writes().len(), written);
    }
    assert!(cluster.object(MAP, "a", "owner").is_none());
    assert!(owners(&cluster, "d-11999").is_empty());
}

#[test]
fn an_object_with_many_dependents_is_deleted_before_its_waiting_owner() {
    let grand = going(map("grand", &[]), FOREGROUND);
    let cluster = family(Some(map("owner", &[("grand", true)])));
    cluster.put(grand);
    collect(&cluster, &key("owner")).unwrap();
    let deletion = &cluster.writes()[0];
    assert_eq!(deletion.options["propagationPolicy"], "Foreground");
}
