//! Removes random values from Endpoints and EndpointSlices, as `normalise` does for all objects.

use serde_json::Value;

use crate::generated_names::is_generated;

/// The time of the change that the object publishes. Whether there is one depends on whether a pod became ready in the
/// second in which it started, and on which changes are joined.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The first number of the addresses of pods on the fake kubelet's nodes. The rest is random. Scenarios give other
/// addresses to pods and endpoints of their own.
const RANDOM_ADDRESSES: &str = "10.";

/// The label with the name of a slice's Service, which the slice's generated name begins with.
const SERVICE: &str = "kubernetes.io/service-name";

/// Removes the values that depend on timing or are random.
pub(crate) fn clean(object: &mut Value) {
    if !is_of_endpoints(object) {
        return;
    }
    // It counts the writes, which are compared separately.
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("generation");
        let annotations = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut);
        if let Some(annotations) = annotations {
            annotations.remove(TRIGGER_TIME);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    for endpoint in items(object, "endpoints") {
        items(endpoint, "addresses").for_each(replace_address);
    }
    for subset in items(object, "subsets") {
        for list in ["addresses", "notReadyAddresses"] {
            for address in items(subset, list) {
                replace_address(&mut address["ip"]);
            }
        }
    }
}

/// Removes the trigger time from the fields of a manager of an object.
pub(crate) fn clean_managed(object: &Value, fields: &mut Value) {
    if !is_of_endpoints(object) {
        return;
    }
    let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata
        .get_mut("f:annotations")
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove(&format!("f:{TRIGGER_TIME}"));
        // The dot is the map itself.
        if annotations.keys().all(|key| key == ".") {
            metadata.remove("f:annotations");
        }
    }
}

/// The fixed beginning of a slice's name if the rest is random. `generateName` doesn't tell, because an update by
/// stock's mirroring controller removes it.
pub(crate) fn prefix(object: &Value) -> Option<String> {
    if object["kind"] != "EndpointSlice" {
        return None;
    }
    let metadata = &object["metadata"];
    let prefix = format!("{}-", metadata["labels"][SERVICE].as_str()?);
    let suffix = metadata["name"].as_str()?.strip_prefix(&prefix)?;
    is_generated(suffix).then_some(prefix)
}

fn is_of_endpoints(object: &Value) -> bool {
    matches!(object["kind"].as_str(), Some("Endpoints" | "EndpointSlice"))
}

/// Sorts the lists that stock fills from maps, or in the order of hashes.
pub(crate) fn sort(object: &mut Value) {
    match object["kind"].as_str() {
        Some("EndpointSlice") => {
            sort_list(object, "endpoints");
            sort_list(object, "ports");
        }
        Some("Endpoints") => {
            for subset in items(object, "subsets") {
                for list in ["addresses", "notReadyAddresses", "ports"] {
                    sort_list(subset, list);
                }
            }
            sort_list(object, "subsets");
        }
        _ => {}
    }
}

fn replace_address(address: &mut Value) {
    if address
        .as_str()
        .is_some_and(|text| text.starts_with(RANDOM_ADDRESSES))
    {
        *address = "the address of a pod".into();
    }
}

/// The items of a list in an object; none if there is no such list.
fn items<'a>(object: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = object.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

fn sort_list(object: &mut Value, list: &str) {
    if let Some(Value::Array(items)) = object.get_mut(list) {
        items.sort_by_cached_key(Value::to_string);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::normalise::objects;

    #[test]
    fn order_random_addresses_and_trigger_times_make_no_difference() {
        let slice = |addresses: [&str; 2], time: &str, end: &str| {
            objects(vec![json!({
                "kind": "EndpointSlice",
                "metadata": {"name": format!("web-{end}"), "generateName": "web-", "generation": end.len(),
                             "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": time}},
                "endpoints": addresses.map(|address| json!({"addresses": [address]})),
                "ports": [{"port": addresses.len()}],
            })])
        };
        let one = slice(["10.1.2.3", "192.0.2.1"], "2026-01-01T00:00:00Z", "a");
        assert_eq!(
            one,
            slice(["192.0.2.1", "10.7.8.9"], "2026-01-02T00:00:00Z", "bb")
        );
        assert_ne!(
            one,
            slice(["10.1.2.3", "192.0.2.2"], "2026-01-01T00:00:00Z", "a")
        );
        assert_eq!(one[0]["metadata"]["annotations"], json!(null));
    }

    #[test]
    fn a_random_name_makes_no_difference_without_the_field_of_its_prefix() {
        let slice = |name: &str, metadata: Value| {
            let mut object = json!({"kind": "EndpointSlice", "metadata": metadata});
            object["metadata"]["name"] = name.into();
            object["metadata"]["labels"] = json!({"kubernetes.io/service-name": "web"});
            objects(vec![object])
        };
        let one = slice("web-9rt29", json!({}));
        assert_eq!(one, slice("web-x4fbc", json!({})));
        assert_ne!(one, slice("web-9rt29", json!({"generateName": "web-"})));
        for name in ["web-other", "web-a", "api-9rt29"] {
            assert_ne!(one, slice(name, json!({})), "{name}");
        }
    }

    #[test]
    fn subsets_are_sorted_and_their_readiness_remains() {
        let endpoints = |ready: [&str; 2], not_ready: &str| {
            objects(vec![json!({
                "kind": "Endpoints", "metadata": {"name": "web"},
                "subsets": ready.map(|ip| json!({"addresses": [{"ip": ip}], "notReadyAddresses": [{"ip": not_ready}]})),
            })])
        };
        assert_eq!(
            endpoints(["192.0.2.1", "10.0.0.1"], "10.0.0.2"),
            endpoints(["10.0.0.3", "192.0.2.1"], "10.0.0.4")
        );
        assert_ne!(
            endpoints(["192.0.2.1", "10.0.0.1"], "192.0.2.2"),
            endpoints(["192.0.2.1", "192.0.2.2"], "10.0.0.1")
        );
    }
}
