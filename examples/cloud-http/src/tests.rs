//! Native tests of the provider, with a function as the cloud.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use flyball_cloud::testing::ProviderTest;
use flyball_cloud::{Call, CloudError, ErrorKind, HttpRequest, HttpResponse, Nodes};
use flyball_sdk::prelude::*;

use crate::CloudHttp;

type Requests = Rc<RefCell<Vec<HttpRequest>>>;

/// A cloud that answers each request by this document, and its requests.
fn cloud(status: u16, answer: Value) -> (ProviderTest<CloudHttp>, Requests) {
    let requests = Requests::default();
    let seen = requests.clone();
    let test = ProviderTest::new(move |request: &HttpRequest| {
        seen.borrow_mut().push(request.clone());
        Ok(HttpResponse::json(status, &answer))
    });
    test.set_credential("cloud-config", r#"{"url": "http://127.0.0.1:1/"}"#);
    (test, requests)
}

fn error(answer: Value) -> CloudError {
    let (test, _) = cloud(200, json!({"error": answer}));
    test.run(Call::list_routes("c")).unwrap_err()
}

fn body(requests: &Requests) -> Value {
    serde_json::from_slice(&requests.borrow()[0].body).unwrap()
}

fn node() -> Value {
    json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"providerID": "x://a"}})
}

#[test]
fn the_capabilities_are_read() {
    let (test, requests) = cloud(
        200,
        json!({"providerName": "x", "hasClusterID": true, "instancesV2": true}),
    );
    let capabilities = test.capabilities().unwrap();
    assert_eq!(capabilities.provider_name, "x");
    assert!(capabilities.has_cluster_id && capabilities.instances_v2 && !capabilities.routes);
    let request = &requests.borrow()[0];
    assert_eq!(request.method, "GET");
    assert_eq!(request.url, "http://127.0.0.1:1/v1/capabilities");
}

#[test]
fn a_method_about_a_load_balancer_has_the_cluster_the_service_and_the_nodes() {
    let (test, requests) = cloud(200, json!({"status": {"ingress": [{"ip": "192.0.2.1"}]}}));
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let call = Call::ensure_load_balancer("prod", &service, &Nodes::of(&[node()]));
    let status = test.run(call).unwrap().unwrap();
    assert_eq!(status.value(), json!({"ingress": [{"ip": "192.0.2.1"}]}));
    let expected = json!({"clusterName": "prod", "service": service, "nodes": [node()]});
    assert_eq!(body(&requests), expected);
    let request = &requests.borrow()[0];
    assert_eq!(
        (request.method.as_str(), request.url.as_str()),
        ("POST", "http://127.0.0.1:1/v1/EnsureLoadBalancer")
    );
}

#[test]
fn no_nodes_are_an_empty_list() {
    let (test, requests) = cloud(200, json!({}));
    let nodes: [Value; 0] = [];
    test.run(Call::update_load_balancer(
        "c",
        &json!({}),
        &Nodes::of(&nodes),
    ))
    .unwrap();
    assert_eq!(body(&requests)["nodes"], json!([]));
    let (test, requests) = cloud(200, json!({"exists": true}));
    assert!(
        test.run(Call::get_load_balancer("c", &json!({})))
            .unwrap()
            .exists
    );
    assert_eq!(body(&requests).get("nodes"), None);
}

#[test]
fn a_method_about_an_instance_has_one_node() {
    let (test, requests) = cloud(200, json!({"bool": true}));
    assert!(test.run(Call::instance_exists(&node())).unwrap());
    assert_eq!(body(&requests), json!({"node": node()}));
    let (test, requests) = cloud(200, json!({"bool": true}));
    assert!(
        test.run(Call::instance_exists_by_provider_id("x://a"))
            .unwrap()
    );
    assert_eq!(body(&requests), json!({"providerID": "x://a"}));
}

#[test]
fn nil_and_empty_are_distinct() {
    let ensure = |answer| {
        let (test, _) = cloud(200, answer);
        let call = Call::ensure_load_balancer("c", &json!({}), &Nodes::default());
        test.run(call).unwrap().map(|status| status.value())
    };
    assert_eq!(ensure(json!({})), None);
    assert_eq!(ensure(json!({"status": null})), None);
    assert_eq!(ensure(json!({"status": {}})), Some(json!({})));
    let (test, _) = cloud(200, json!({"metadata": null}));
    assert_eq!(test.run(Call::instance_metadata(&node())).unwrap(), None);
}

#[test]
fn the_keys_of_go_are_understood() {
    let (test, _) = cloud(
        200,
        json!({"metadata": {
            "ProviderID": "x://a", "InstanceType": "large", "Zone": "z", "Region": "r",
            "NodeAddresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "AdditionalLabels": {"Own": "Label"},
        }}),
    );
    let metadata = test.run(Call::instance_metadata(&node())).unwrap().unwrap();
    assert_eq!(metadata.provider_id, "x://a");
    assert_eq!(metadata.node_addresses[0].address, "10.0.0.1");
    assert_eq!(metadata.additional_labels["Own"], "Label");
    let route = json!({"Name": "r", "TargetNode": "a", "EnableNodeAddresses": true, "TargetNodeAddresses": null,
                       "DestinationCIDR": "10.0.0.0/24", "Blackhole": true});
    let (test, _) = cloud(200, json!({"routes": [route]}));
    let routes = test.run(Call::list_routes("c")).unwrap();
    assert_eq!(
        (
            routes[0].target_node.as_str(),
            routes[0].destination_cidr.as_str()
        ),
        ("a", "10.0.0.0/24")
    );
    assert!(routes[0].blackhole && routes[0].enable_node_addresses);
    let (test, _) = cloud(200, json!({"zone": {"FailureDomain": "z", "Region": "r"}}));
    assert_eq!(
        test.run(Call::zone_by_node_name("a"))
            .unwrap()
            .failure_domain,
        "z"
    );
}

#[test]
fn errors_keep_their_kinds_and_whether_they_were_wrapped() {
    let plain = error(json!({"kind": "InstanceNotFound", "message": "instance not found"}));
    assert!(plain.is(&ErrorKind::InstanceNotFound));
    let wrapped = error(json!({"kind": "InstanceNotFound", "message": "a: instance not found"}));
    assert!(!wrapped.is(&ErrorKind::InstanceNotFound) && wrapped.has(&ErrorKind::InstanceNotFound));
    assert_eq!(wrapped.to_string(), "a: instance not found");
    for kind in ["ImplementedElsewhere", "NotImplemented"] {
        let error = error(json!({"kind": kind}));
        assert!(error.is(&ErrorKind::of(kind)), "{error:?}");
    }
    for kind in [json!(""), json!("none"), Value::Null] {
        let error = error(json!({"kind": kind, "message": "quota"}));
        assert_eq!(error, CloudError::other("quota"));
    }
}

#[test]
fn the_time_of_a_retry_is_seconds_nanoseconds_or_a_text() {
    for (after, milliseconds) in [
        (json!(10), 10_000),
        (json!(0.5), 500),
        (json!(10_000_000_000_u64), 10_000),
        (json!("1m30s"), 90_000),
        (json!(-1), 0),
        (Value::Null, 0),
    ] {
        let error = error(json!({"kind": "Retry", "message": "busy", "retryAfter": after}));
        assert_eq!(
            error,
            CloudError::retry("busy", Duration::from_millis(milliseconds))
        );
    }
}

#[test]
fn another_status_is_an_error_that_quotes_the_response() {
    let (test, _) = cloud(503, json!("overloaded"));
    let error = test.run(Call::list_routes("c")).unwrap_err();
    assert_eq!(
        error,
        CloudError::other("the cloud responded to ListRoutes with status 503: \"overloaded\"")
    );
    assert!(test.capabilities().unwrap_err().message.contains("503"));
    let (test, _) = cloud(200, json!([1]));
    assert!(
        test.run(Call::list_routes("c"))
            .unwrap_err()
            .message
            .contains("malformed")
    );
}

#[test]
fn a_token_is_sent() {
    let (test, requests) = cloud(200, json!({}));
    test.set_credential(
        "cloud-config",
        r#"{"url": "https://cloud.example.com", "token": "t"}"#,
    );
    test.run(Call::list_routes("c")).unwrap();
    let request = &requests.borrow()[0];
    let expected = ("authorization".to_owned(), "Bearer t".to_owned());
    assert!(request.headers.contains(&expected));
    assert_eq!(request.url, "https://cloud.example.com/v1/ListRoutes");
}

#[test]
fn a_missing_configuration_is_an_error() {
    let test = ProviderTest::<CloudHttp>::new(|_| panic!("no request is sent"));
    assert!(
        test.capabilities()
            .unwrap_err()
            .message
            .contains("--cloud-config")
    );
}
