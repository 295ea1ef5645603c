//! Limits the number of addresses.
//!
//! Upstream: pkg/controller/endpoint/endpoints_controller.go: truncateEndpoints, addressSubset.

use flyball_service_endpoints::subsets::{Address, Subset};

/// The greatest number of addresses of Endpoints.
pub const MAXIMUM: usize = 1000;

/// Limits the addresses to [`MAXIMUM`], and returns whether there were more. Addresses that are ready take precedence.
/// Each subset keeps its share; one that is left without addresses is removed.
pub fn truncate(subsets: &mut Vec<Subset>) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let all: usize = subsets.iter().map(Subset::len).sum();
    if all <= MAXIMUM {
        return false;
    }
    if ready > MAXIMUM {
        share(subsets, MAXIMUM, ready, |subset| &mut subset.addresses);
        for subset in subsets.iter_mut() {
            subset.not_ready_addresses.clear();
        }
    } else {
        share(subsets, MAXIMUM - ready, all - ready, |subset| {
            &mut subset.not_ready_addresses
        });
    }
    // The API server refuses subsets without addresses.
    subsets.retain(|subset| !subset.is_empty());
    true
}

/// Shortens a list of each subset in proportion to its length, of `total` to `maximum` altogether. Shares are rounded
/// up, so the last subsets may get less.
fn share(
    subsets: &mut [Subset],
    maximum: usize,
    total: usize,
    list: impl Fn(&mut Subset) -> &mut Vec<Address>,
) {
    let mut left = maximum;
    for subset in subsets {
        let addresses = list(subset);
        let share = (addresses.len() as f64 / total as f64 * maximum as f64).ceil() as usize;
        addresses.truncate(share.min(left));
        left -= addresses.len();
    }
}
