//! The addresses that a node should have.

use flyball_cloud::NodeAddress;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::view;

use super::world::*;
use crate::addresses::{patch, provided_first};
use crate::views::Node;

/// The addresses that the patch of a node sets; `None` if there is none.
fn patched(node: &Value, of_cloud: &[NodeAddress]) -> Option<Vec<NodeAddress>> {
    let node: Node = view(node.clone());
    let patch = patch(&node, of_cloud).unwrap()?;
    let list = patch["status"]["addresses"].as_array().unwrap();
    let is_address = |item: &&Value| item.get("type").is_some();
    let addresses = list.iter().filter(is_address).cloned();
    Some(
        addresses
            .map(|item| flyball_sdk::serde_json::from_value(item).unwrap())
            .collect(),
    )
}

#[test]
fn new_addresses_replace_the_old_ones_and_the_hostname_stays() {
    let expected = [internal("10.0.0.2"), address("Hostname", "a")];
    assert_eq!(patched(&node(), &[internal("10.0.0.2")]).unwrap(), expected);
    let of_cloud = [internal("10.0.0.2"), address("Hostname", "b")];
    assert_eq!(patched(&node(), &of_cloud).unwrap(), of_cloud);
}

#[test]
fn equal_addresses_and_no_addresses_change_nothing() {
    assert_eq!(patched(&node(), &[internal("10.0.0.1")]), None);
    let reversed = [address("Hostname", "a"), internal("10.0.0.1")];
    assert_eq!(patched(&node(), &reversed), None);
    assert_eq!(patched(&node(), &[]), None);
}

#[test]
fn several_addresses_of_one_type_always_count_as_a_change() {
    let addresses = [
        internal("10.0.0.1"),
        internal("fd00::1"),
        address("Hostname", "a"),
    ];
    let node = with(node(), "/status/addresses", json!(addresses));
    assert_eq!(patched(&node, &addresses).unwrap(), addresses);
}

#[test]
fn the_list_is_replaced_as_a_whole() {
    let replaced: Node = view(node());
    let patch = patch(&replaced, &[internal("10.0.0.2")]).unwrap().unwrap();
    let list = patch["status"]["addresses"].as_array().unwrap();
    assert_eq!(list.last(), Some(&json!({"$patch": "replace"})));
}

#[test]
fn addresses_that_the_kubelet_was_started_with_come_first() {
    let external = |text| address("ExternalIP", text);
    let hostname = address("Hostname", "a");
    let cases = [
        // The other addresses of the same type are dropped.
        (
            "10.1.1.1",
            vec![
                internal("10.2.2.2"),
                internal("10.1.1.1"),
                external("55.5.5.5"),
                hostname.clone(),
            ],
            vec![internal("10.1.1.1"), external("55.5.5.5"), hostname.clone()],
        ),
        (
            "55.5.5.5",
            vec![internal("10.1.1.1"), external("55.5.5.5")],
            vec![external("55.5.5.5"), internal("10.1.1.1")],
        ),
        // The same address of two types.
        (
            "55.5.5.5",
            vec![
                internal("4.4.4.4"),
                external("4.4.4.4"),
                internal("55.5.5.5"),
                external("55.5.5.5"),
            ],
            vec![internal("55.5.5.5"), external("55.5.5.5")],
        ),
        // Another notation.
        (
            "2600:1f14::ba3d",
            vec![internal("10.1.1.1"), internal("2600:1f14:0:0:0:0:0:ba3d")],
            vec![internal("2600:1f14:0:0:0:0:0:ba3d")],
        ),
        (
            "010.001.1.1",
            vec![internal("10.1.1.1")],
            vec![internal("10.1.1.1")],
        ),
        (
            "::ffff:10.1.1.1",
            vec![internal("10.1.1.1")],
            vec![internal("10.1.1.1")],
        ),
        // A pair, in its order.
        (
            "10.1.1.1,fc01::5678",
            vec![
                internal("fc01::5678"),
                internal("10.1.1.1"),
                internal("10.1.1.2"),
                hostname.clone(),
            ],
            vec![
                internal("10.1.1.1"),
                internal("fc01::5678"),
                hostname.clone(),
            ],
        ),
        (
            "55.5.5.5,fc01::5678",
            vec![
                internal("10.1.1.1"),
                external("55.5.5.5"),
                internal("fc01::5678"),
                external("2001::1"),
                hostname.clone(),
            ],
            vec![
                external("55.5.5.5"),
                internal("fc01::5678"),
                hostname.clone(),
            ],
        ),
    ];
    for (provided, of_cloud, expected) in cases {
        assert_eq!(
            provided_first(Some(provided), &of_cloud).unwrap(),
            expected,
            "{provided}"
        );
    }
}

#[test]
fn a_provided_address_that_the_cloud_lacks_is_an_error() {
    let of_cloud = [
        internal("10.1.1.1"),
        address("Hostname", "10.2.2.2.example.com"),
    ];
    for provided in ["10.2.2.2", "10.1.1.1,fc01::1"] {
        let error = provided_first(Some(provided), &of_cloud).unwrap_err();
        assert!(error.starts_with("the cloud has no address "), "{error}");
    }
}

#[test]
fn a_malformed_annotation_is_an_error() {
    for text in [
        "",
        "10.1.1",
        "a",
        "10.1.1.1,",
        "10.1.1.1, fc01::1",
        "10.1.1.1,10.1.1.2",
        "fc01::1,fc01::2",
        "0.0.0.0,fc01::1",
        "10.1.1.1,::",
        "10.1.1.1,fc01::1,fc01::2",
        "256.1.1.1",
    ] {
        let of_cloud = [
            internal("10.1.1.1"),
            internal("fc01::1"),
            internal("0.0.0.0"),
        ];
        let error = provided_first(Some(text), &of_cloud).unwrap_err();
        assert!(error.contains("is malformed"), "{text}: {error}");
    }
}
