//! The gauge of claims.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

#[test]
fn claims_are_counted_by_allocation_access_and_source() {
    let extended = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
    let admin = json!([{"name": "a", "exactly": {"adminAccess": true}}]);
    let cluster = Cluster::with([
        claim("a"),
        with(claim("b"), "/spec/devices/requests", admin),
        allocated(claim_of("c", "web", "gpu")),
        allocated(claim_of("d", "web", "nic")),
        with(claim("e"), "/metadata/annotations", extended),
    ]);
    reconcile(&cluster, "metrics").unwrap();
    let counts = cluster.metrics();
    // Combinations that no claim has any more are set to 0.
    assert_eq!(counts.len(), 12);
    let counts: Vec<(String, f64)> = counts
        .into_iter()
        .filter(|(.., count)| *count > 0.0)
        .map(|(.., labels, count)| (labels.join(" "), count))
        .collect();
    assert_eq!(
        counts,
        [
            ("false false ".to_owned(), 1.0),
            ("false false extended_resource".to_owned(), 1.0),
            ("false true ".to_owned(), 1.0),
            ("true false resource_claim_template".to_owned(), 2.0),
        ]
    );
}
