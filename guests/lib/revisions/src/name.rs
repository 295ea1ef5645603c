//! Names of revisions, derived from their data.
//!
//! Upstream: pkg/controller/history/controller_history.go: ControllerRevisionName, HashControllerRevision.
//! Upstream: pkg/util/hash/hash.go: DeepHashObject.

use flyball_hash::safe_suffix;
use flyball_sdk::prelude::*;

/// The label with the hash that a revision was first named by.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// The longest part of the owner's name in a revision's name, in bytes.
const MAX_PREFIX: usize = 223;

/// Returns the hash of a revision's data. `collisions` is the number of revisions that had the same
/// hash and other data.
pub fn hash(data: &Raw, collisions: i32) -> String {
    let collisions = collisions.to_string();
    let bytes = data.text().bytes().chain(collisions.bytes());
    safe_suffix(fnv32(bytes))
}

/// Returns the name of the revision with this hash.
pub fn name(owner: &str, hash: &str) -> String {
    // An object's name is ASCII.
    let prefix = owner.get(..MAX_PREFIX).unwrap_or(owner);
    format!("{prefix}-{hash}")
}

/// The 32-bit FNV-1 hash, which multiplies first. (FNV-1a, of the SDK, multiplies last.)
fn fnv32(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash: u32, byte| {
        hash.wrapping_mul(0x0100_0193) ^ u32::from(byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;

    #[test]
    fn the_hash_is_fnv_1() {
        // From the test vectors of draft-eastlake-fnv.
        let hashes = ["", "a", "foobar"].map(|text| fnv32(text.bytes()));
        assert_eq!(hashes, [0x811c_9dc5, 0x050c_5d7e, 0x31f0_b262]);
    }

    #[test]
    fn hashes_are_those_of_kube_controller_manager() {
        // Computed with Go's hash/fnv.
        let template = json!({"metadata": {"labels": {"app": "web"}},
                              "spec": {"containers": [{"name": "web", "image": "nginx:1"}]}});
        let data = data(&Raw::from(template));
        assert_eq!(
            [hash(&data, 0), hash(&data, 1)],
            ["659c549565", "659c549564"]
        );
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(name("web", "abc"), "web-abc");
        assert_eq!(
            name(&"a".repeat(223), "b"),
            format!("{}-b", "a".repeat(223))
        );
        assert_eq!(
            name(&"a".repeat(253), "b"),
            format!("{}-b", "a".repeat(223))
        );
    }
}
