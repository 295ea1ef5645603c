//! Blocks of ranges, with cases of kube-controller-manager's tests.

use crate::cidr_set::CidrSet;
use crate::settings::range;

fn set(cluster: &str, mask_size: u8) -> CidrSet {
    CidrSet::new(range(cluster).unwrap(), mask_size).unwrap()
}

#[test]
fn blocks_are_numbered_in_the_order_of_addresses() {
    for (cluster, mask_size, max, index, expected) in [
        ("127.123.3.0/16", 24, 256, 0, "127.123.0.0/24"),
        ("127.123.0.0/16", 24, 256, 32, "127.123.32.0/24"),
        ("127.123.0.0/16", 16, 1, 0, "127.123.0.0/16"),
        ("10.0.0.0/8", 32, 1 << 24, 258, "10.0.1.2/32"),
        ("0.0.0.0/0", 0, 1, 0, "0.0.0.0/0"),
        ("2001:db8:1234:3::/48", 64, 65536, 0, "2001:db8:1234::/64"),
        ("2001:db8:1234::/48", 64, 65536, 16, "2001:db8:1234:10::/64"),
        (
            "2001:db8:1234:ff00::/56",
            72,
            65536,
            272,
            "2001:db8:1234:ff01:1000::/72",
        ),
        ("2001:db8::/112", 128, 65536, 257, "2001:db8::101/128"),
        ("::/0", 16, 65536, 1, "1::/16"),
    ] {
        let set = set(cluster, mask_size);
        assert_eq!(set.max(), max, "{cluster}");
        assert_eq!(set.block(index).to_string(), expected);
        assert_eq!(set.blocks_of(&set.block(index)).unwrap(), index..=index);
    }
}

#[test]
fn a_range_uses_all_blocks_that_it_overlaps() {
    for (cluster, mask_size, used, expected) in [
        ("127.0.0.0/8", 16, "127.0.0.0/8", 0..=255),
        ("127.0.0.0/8", 16, "127.0.0.0/7", 0..=255),
        ("127.0.0.0/8", 16, "127.128.0.0/9", 128..=255),
        ("127.0.0.0/8", 16, "127.32.0.0/14", 32..=35),
        ("127.0.0.0/8", 16, "127.1.2.0/24", 1..=1),
        ("10.0.0.0/22", 24, "10.0.3.255/32", 3..=3),
        ("2001:db8::/56", 64, "2001:db8:0:10::/60", 16..=31),
        ("2001:db8::/56", 64, "2001:db8:0:10::1/128", 16..=16),
        ("2001:db8::/56", 64, "::/0", 0..=255),
    ] {
        let blocks = set(cluster, mask_size).blocks_of(&range(used).unwrap());
        assert_eq!(blocks.unwrap(), expected, "{used} in {cluster}");
    }
}

#[test]
fn ranges_outside_of_the_cluster_and_of_the_other_family_use_none() {
    for (cluster, mask_size, other) in [
        ("10.0.0.0/22", 24, "10.0.4.0/24"),
        ("10.0.0.0/22", 24, "9.255.0.0/16"),
        ("10.0.0.0/22", 24, "::/0"),
        ("fd00::/48", 64, "0.0.0.0/0"),
        ("fd00::/48", 64, "fd00:0:1::/64"),
    ] {
        let error = set(cluster, mask_size).blocks_of(&range(other).unwrap());
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("is not in the range")
        );
    }
}

#[test]
fn impossible_sizes_of_blocks_are_refused() {
    for (cluster, mask_size, is_valid) in [
        ("10.0.0.0/22", 22, true),
        ("10.0.0.0/22", 21, false),
        ("10.0.0.0/8", 32, true),
        ("10.0.0.0/8", 33, false),
        ("fd00::/48", 64, true),
        ("fd00::/48", 65, false),
        ("fd00::/120", 129, false),
    ] {
        let set = CidrSet::new(range(cluster).unwrap(), mask_size);
        assert_eq!(set.is_some(), is_valid, "{cluster} {mask_size}");
    }
}
