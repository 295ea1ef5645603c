//! The operator's settings.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::settings::{Range, Settings};

fn settings(cluster_cidr: &str) -> Result<Settings, Error> {
    let cluster = Cluster::new();
    cluster.set_config("cluster-cidr", cluster_cidr);
    Settings::read(&cluster.host())
}

#[test]
fn one_range_or_two_of_different_families_are_valid() {
    for valid in [
        "10.0.0.0/8",
        " 10.0.0.0/8 ",
        "10.0.0.0/8,fd00::/48",
        "fd00::/48,10.0.0.0/8",
    ] {
        settings(valid).unwrap();
    }
    for invalid in [
        "",
        "10.0.0.0",
        "10.0.0.0/8,",
        "10.0.0.0/8,11.0.0.0/8",
        "fd00::/48,fd01::/48",
        "10.0.0.0/8,fd00::/48,11.0.0.0/8",
    ] {
        let error = settings(invalid).unwrap_err();
        assert!(
            error.is_terminal() && error.to_string().contains("cluster-cidr"),
            "{error}"
        );
    }
}

#[test]
fn a_route_concerns_the_cluster_if_its_first_or_last_address_does() {
    let settings = settings(CLUSTER).unwrap();
    for (destination, expected) in [
        ("10.244.0.0/16", true),
        ("10.244.7.0/24", true),
        ("10.244.255.255/32", true),
        ("10.245.0.0/24", false),
        ("10.243.255.0/24", false),
        // Its last address.
        ("10.240.0.0/13", false),
        ("10.128.0.0/9", false),
        ("10.244.0.0/15", true),
        ("fd00:1:0:7::/64", true),
        ("fd00:2::/64", false),
        ("0.0.0.0/0", false),
        ("::/0", false),
    ] {
        let range = Range::parse(destination).unwrap();
        assert_eq!(settings.is_responsible(range), expected, "{destination}");
    }
    let wide = self::settings("0.0.0.0/0").unwrap();
    assert!(wide.is_responsible(Range::parse("192.0.2.7/32").unwrap()));
    assert!(!wide.is_responsible(Range::parse("::/0").unwrap()));
}
