//! The metrics, and nodes that wait for a block.

use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::{NODES, usage};

/// The values that the next count adds to metrics or sets them to, for one set.
fn counted(cluster: &Cluster, label: &str) -> Vec<(String, f64)> {
    cluster.metrics();
    count(cluster);
    let metrics = cluster.metrics().into_iter();
    let own = metrics.filter(|(_, _, labels, _)| labels == &[label.to_owned()]);
    own.map(|(_, name, _, value)| (name, value)).collect()
}

fn expected(values: &[(&str, f64)]) -> Vec<(String, f64)> {
    values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect()
}

#[test]
fn used_blocks_are_counted_with_those_of_services() {
    let nodes = [node("a", &["10.0.0.0/24"]), node("b", &[])];
    let cluster = configured(nodes, "10.0.0.0/22,fd00::/63", "24,64", "10.0.3.0/24");
    assert_eq!(
        counted(&cluster, "10.0.0.0/22"),
        expected(&[
            (usage::MAX, 4.0),
            (usage::USAGE, 0.5),
            (usage::ALLOCATIONS, 2.0)
        ])
    );
    settle(&cluster, "b");
    assert_eq!(
        counted(&cluster, "fd00::/63"),
        expected(&[
            (usage::MAX, 2.0),
            (usage::USAGE, 0.5),
            (usage::ALLOCATIONS, 1.0)
        ])
    );
    cluster.remove(NODE, "", "a");
    cluster.put(node("c", &["10.0.2.0/24"]));
    assert_eq!(
        counted(&cluster, "10.0.0.0/22"),
        expected(&[
            (usage::MAX, 4.0),
            (usage::USAGE, 0.75),
            (usage::ALLOCATIONS, 1.0),
            (usage::RELEASES, 1.0),
        ])
    );
    assert_eq!(
        counted(&cluster, "10.0.0.0/22"),
        expected(&[(usage::MAX, 4.0), (usage::USAGE, 0.75)])
    );
}

#[test]
fn the_skipped_blocks_of_an_allocation_are_observed() {
    let cluster = cluster([node("a", &["10.0.0.0/23"]), node("b", &[])]);
    settle(&cluster, "b");
    let tries = cluster
        .metrics()
        .into_iter()
        .find(|(_, name, ..)| name == crate::reservation::TRIES);
    let (_, _, labels, value) = tries.unwrap();
    assert_eq!((labels, value), (vec!["10.0.0.0/22".to_owned()], 2.0));
}

#[test]
fn waiting_nodes_are_enqueued_when_a_block_is_free() {
    let nodes = [node("a", &["10.0.0.0/24"]), node("b", &[]), node("c", &[])];
    let cluster = configured(nodes, "10.0.0.0/24", "24", "");
    assert!(reconcile(&cluster, "b").is_err());
    count(&cluster);
    assert!(cluster.enqueued().is_empty());
    cluster.remove(NODE, "", "a");
    count(&cluster);
    let keys = |cluster: &Cluster| -> Vec<(String, String)> {
        let enqueued = cluster.enqueued().into_iter();
        enqueued.map(|one| (one.queue, one.key)).collect()
    };
    let own = |name: &str| (NODES.to_owned(), name.to_owned());
    assert_eq!(keys(&cluster), [own("b"), own("c")]);
    count(&cluster);
    assert!(cluster.enqueued().is_empty());
}

#[test]
fn without_settings_nothing_is_counted() {
    let cluster = Cluster::with([node("a", &[])]);
    assert!(reconcile(&cluster, "a").unwrap_err().is_terminal());
}
