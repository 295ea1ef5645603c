//! The memory that the metrics of plugins are said to take, compared with the memory that the process gets from the
//! system.

use flyball_fakes::memory::resident;
use flyball_serving::Metrics;
use flyball_serving::metrics::{Group, Kind, MetricsError};

/// The groups of one kind, each as large as it may be.
const GROUPS: usize = 20;

/// Adds series until the group is full.
fn fill(group: &mut Group, kind: &Kind, label: &str) {
    for family in 0.. {
        let name = format!("metric_{family}");
        let declared = group.declare(&name, "help", &["first", "second"], kind.clone());
        declared.expect("the name is free");
        for series in 0.. {
            let labels = [&*format!("{label}{series}"), label];
            let counted = match kind {
                Kind::Counter => group.add(&name, &labels, 1.0),
                Kind::Gauge | Kind::Sum => group.set(&name, &labels, "key", 1.0),
                Kind::Histogram(_) => group.observe(&name, &labels, 1.0),
            };
            match counted {
                Ok(()) => {}
                Err(MetricsError::TooManySeries(..)) => break,
                Err(MetricsError::TooLarge(..)) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn the_memory_of_full_groups_is_counted() {
    let buckets = Kind::Histogram((0..64).map(f64::from).collect());
    for kind in [Kind::Counter, Kind::Gauge, Kind::Sum, buckets] {
        for label in ["", &"x".repeat(500)] {
            let metrics = Metrics::new();
            let before = resident();
            let groups = (0..GROUPS).map(|number| {
                let mut group =
                    metrics.group_with_prefix(format!("p{number}"), format!("p{number}_"));
                fill(&mut group, &kind, label);
                group
            });
            let groups: Vec<Group> = groups.collect();
            let taken = resident().saturating_sub(before);
            let counted: usize = groups.iter().map(Group::size).sum();
            assert!(counted > GROUPS << 21, "{kind:?}: {counted} bytes");
            assert!(
                taken <= counted + counted / 2,
                "{kind:?}, labels of {} bytes: {taken} bytes are resident, and {counted} are counted",
                label.len()
            );
        }
    }
}
