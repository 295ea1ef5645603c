//! Addresses that are not mirrored.

use flyball_sdk::prelude::*;

use super::world::*;

#[test]
fn addresses_beyond_the_maximum_are_skipped_and_ready_ones_come_first() {
    let mut many = subset(&["192.0.2.3", "192.0.2.2"], 80);
    many["notReadyAddresses"] = json!([{"ip": "192.0.2.1"}]);
    let cluster = cluster(json!([many, subset(&["192.0.2.9"], 81)]));
    cluster.set_config("max-endpoints-per-subset", "2");
    reconcile(&cluster);
    assert_eq!(
        mirrored(&cluster),
        ["IPv4 80: 192.0.2.2 192.0.2.3", "IPv4 81: 192.0.2.9"]
    );
    assert_eq!(
        cluster.events(),
        [
            "Warning TooManyAddressesToMirror A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. \
          1 addresses were skipped"
        ]
    );
    assert!(reconcile(&cluster).is_empty());
    // Unchanged Endpoints cause no event.
    assert!(cluster.events().is_empty());
    edit(&cluster, |endpoints| {
        endpoints["metadata"]["labels"] = json!({"tier": "front"})
    });
    reconcile(&cluster);
    assert_eq!(cluster.events().len(), 1);
}

#[test]
fn invalid_addresses_are_skipped() {
    let cluster = cluster(json!([subset(
        &["192.0.2.1", "example.com", "192.0.2.256"],
        80
    )]));
    reconcile(&cluster);
    assert_eq!(mirrored(&cluster), ["IPv4 80: 192.0.2.1"]);
    assert_eq!(
        cluster.events(),
        [
            "Warning InvalidIPAddress Skipped 2 invalid IP addresses when mirroring to EndpointSlices"
        ]
    );
}

#[test]
fn invalid_settings_are_not_tried_again() {
    for (key, value) in [
        ("max-endpoints-per-subset", "0"),
        ("updates-batch-period", "soon"),
    ] {
        let cluster = cluster(json!([subset(&["192.0.2.1"], 80)]));
        cluster.set_config(key, value);
        assert!(try_reconcile(&cluster).unwrap_err().is_terminal());
    }
}
