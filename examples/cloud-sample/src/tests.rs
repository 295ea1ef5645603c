//! Native tests of the provider, with the sample cloud in memory.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use flyball_cloud::testing::ProviderTest;
use flyball_cloud::{
    Call, CloudError, ErrorKind, HttpRequest, HttpResponse, NodeAddress, Nodes, Route,
};
use flyball_sample_cloud::api;
use flyball_sample_cloud::state::{Instance, State};
use flyball_sdk::prelude::*;

use crate::SampleCloud;

type Cloud = Rc<RefCell<State>>;

/// The provider, and a cloud with the running instance `i-1` of the node `a`.
fn world() -> (ProviderTest<SampleCloud>, Cloud) {
    let cloud = Cloud::default();
    let instance = json!({
        "id": "i-1", "name": "a", "type": "large", "zone": "z", "region": "r", "labels": {"rack": "7"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    });
    let instance: Instance = flyball_sdk::serde_json::from_value(instance).unwrap();
    cloud.borrow_mut().create_instance(instance).unwrap();
    let state = cloud.clone();
    let test = ProviderTest::new(move |request: &HttpRequest| {
        let (_, _, path) = request.parts()?;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (status, body) = api::answer(
            &mut state.borrow_mut(),
            &request.method,
            path,
            query,
            &request.body,
            1000,
        );
        Ok(HttpResponse::json(status, &body))
    });
    test.set_credential("cloud-config", r#"{"url": "http://cloud.example.com"}"#);
    (test, cloud)
}

/// A provider whose cloud always responds like this.
fn responding(status: u16, body: Value) -> ProviderTest<SampleCloud> {
    let test = ProviderTest::new(move |_| Ok(HttpResponse::json(status, &body)));
    test.set_credential("cloud-config", r#"{"url": "http://cloud.example.com"}"#);
    test
}

fn node(name: &str, provider_id: &str) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": {"providerID": provider_id}})
}

fn service() -> Value {
    json!({"metadata": {"namespace": "team", "name": "web", "uid": "0000-1111"},
           "spec": {"ports": [{"protocol": "TCP", "port": 80, "nodePort": 30080, "targetPort": "http"}],
                    "loadBalancerSourceRanges": ["10.0.0.0/8"]}})
}

fn ensure(test: &ProviderTest<SampleCloud>, service: &Value) -> Result<Value, CloudError> {
    let nodes = Nodes::of(&[
        node("b", ""),
        node("a", "sample://i-1"),
        node("c", "other://i-2"),
    ]);
    let status = test.run(Call::ensure_load_balancer("prod", service, &nodes))?;
    Ok(status.unwrap().value())
}

#[test]
fn an_instance_is_found_by_its_id_or_its_name() {
    let (test, _) = world();
    for (node, expected) in [
        (node("a", "sample://i-1"), true),
        (node("other", "sample://i-1"), true),
        (node("a", ""), true),
        (node("a", "sample://i-2"), false),
        (node("b", ""), false),
    ] {
        assert_eq!(
            test.run(Call::instance_exists(&node)),
            Ok(expected),
            "{node}"
        );
    }
}

#[test]
fn the_metadata_has_what_the_cloud_knows() {
    let (test, _) = world();
    let metadata = test
        .run(Call::instance_metadata(&node("a", "")))
        .unwrap()
        .unwrap();
    assert_eq!(metadata.provider_id, "sample://i-1");
    assert_eq!(
        (metadata.instance_type.as_str(), metadata.zone.as_str()),
        ("large", "z")
    );
    assert_eq!(
        metadata.node_addresses,
        [NodeAddress::new("InternalIP", "10.0.0.1")]
    );
    assert_eq!(metadata.additional_labels["rack"], "7");
    let error = test
        .run(Call::instance_metadata(&node("b", "")))
        .unwrap_err();
    assert!(error.is(&ErrorKind::InstanceNotFound));
}

#[test]
fn a_stopped_instance_is_shut_down() {
    let (test, cloud) = world();
    let is_shut_down = || {
        test.run(Call::instance_shutdown(&node("a", "sample://i-1")))
            .unwrap()
    };
    assert!(!is_shut_down());
    cloud.borrow_mut().instances.get_mut("i-1").unwrap().state = "stopped".into();
    assert!(is_shut_down());
    cloud.borrow_mut().instances.clear();
    assert!(!is_shut_down());
}

#[test]
fn a_load_balancer_is_created_updated_found_and_deleted() {
    let (test, cloud) = world();
    let status = ensure(&test, &service()).unwrap();
    let ip = status["ingress"][0]["ip"].as_str().unwrap().to_owned();
    let one = cloud.borrow().load_balancers["a00001111"].clone();
    assert_eq!((one.service.as_str(), &one.address), ("team/web", &ip));
    assert_eq!((one.ports[0].port, one.ports[0].node_port), (80, 30080));
    assert_eq!(
        (one.targets, one.source_ranges),
        (vec!["i-1".to_owned()], vec!["10.0.0.0/8".to_owned()])
    );
    assert_eq!(ensure(&test, &service()).unwrap(), status);

    let found = test
        .run(Call::get_load_balancer("prod", &service()))
        .unwrap();
    assert!(found.exists);
    assert_eq!(found.status.unwrap().value(), status);
    let nodes: [Value; 0] = [];
    test.run(Call::update_load_balancer(
        "prod",
        &service(),
        &Nodes::of(&nodes),
    ))
    .unwrap();
    assert!(
        cloud.borrow().load_balancers["a00001111"]
            .targets
            .is_empty()
    );

    for _ in 0..2 {
        test.run(Call::ensure_load_balancer_deleted("prod", &service()))
            .unwrap();
        assert!(cloud.borrow().load_balancers.is_empty());
    }
    assert!(
        !test
            .run(Call::get_load_balancer("prod", &service()))
            .unwrap()
            .exists
    );
    let update = Call::update_load_balancer("prod", &service(), &Nodes::of(&nodes));
    assert!(test.run(update).is_err());
}

#[test]
fn a_load_balancer_that_is_being_created_is_asked_for_again() {
    let (test, cloud) = world();
    cloud.borrow_mut().settings.load_balancer_delay = 60_000;
    let error = ensure(&test, &service()).unwrap_err();
    let second = Duration::from_secs(1);
    assert_eq!(
        error,
        CloudError::retry("the load balancer is being created", second)
    );
    let found = test
        .run(Call::get_load_balancer("prod", &service()))
        .unwrap();
    assert!(found.exists);
    assert_eq!(found.status.unwrap().value(), json!({}));
}

#[test]
fn an_annotated_service_has_its_load_balancer_elsewhere() {
    let (test, cloud) = world();
    let mut service = service();
    service["metadata"]["annotations"] = json!({"sample.flyball.dev/elsewhere": "true"});
    let error = ensure(&test, &service).unwrap_err();
    assert!(error.is(&ErrorKind::ImplementedElsewhere));
    let update = Call::update_load_balancer("prod", &service, &Nodes::default());
    assert!(
        test.run(update)
            .unwrap_err()
            .is(&ErrorKind::ImplementedElsewhere)
    );
    assert!(cloud.borrow().load_balancers.is_empty());
}

#[test]
fn routes_are_created_listed_and_deleted() {
    let (test, cloud) = world();
    let route = Route {
        target_node: "a".into(),
        target_node_addresses: vec![NodeAddress::new("InternalIP", "10.0.0.1")],
        destination_cidr: "10.244.1.0/24".into(),
        ..Route::default()
    };
    test.run(Call::create_route("prod", "uid-a", &route))
        .unwrap();
    let routes = test.run(Call::list_routes("prod")).unwrap();
    let expected = Route {
        name: "uid-a-10-244-1-0-24".into(),
        ..route.clone()
    };
    assert_eq!(routes, [expected]);
    assert!(test.run(Call::list_routes("other")).unwrap().is_empty());
    cloud.borrow_mut().instances.clear();
    let routes = test.run(Call::list_routes("prod")).unwrap();
    assert!(routes[0].blackhole && routes[0].target_node.is_empty());
    test.run(Call::delete_route("prod", &routes[0])).unwrap();
    assert!(test.run(Call::list_routes("prod")).unwrap().is_empty());
    let error = test
        .run(Call::create_route("prod", "uid-a", &route))
        .unwrap_err();
    assert!(error.is(&ErrorKind::InstanceNotFound));
}

#[test]
fn the_configuration_says_whether_addresses_are_compared() {
    let (test, _) = world();
    let config = r#"{"url": "http://cloud.example.com/", "nodeAddresses": true}"#;
    test.set_credential("cloud-config", config);
    let route = Route {
        target_node: "a".into(),
        destination_cidr: "fd00::/64".into(),
        ..Route::default()
    };
    test.run(Call::create_route("prod", "u", &route)).unwrap();
    assert!(test.run(Call::list_routes("prod")).unwrap()[0].enable_node_addresses);
}

#[test]
fn refusals_have_the_code_and_the_message_of_the_cloud() {
    let (test, cloud) = world();
    cloud.borrow_mut().settings.quotas.load_balancers = Some(0);
    let error = ensure(&test, &service()).unwrap_err();
    assert_eq!(
        error,
        CloudError::other("QuotaExceeded: the quota of 0 load balancers is exceeded")
    );
    let error = responding(500, json!("?"))
        .run(Call::list_routes("prod"))
        .unwrap_err();
    assert_eq!(error.message, "the sample cloud responds with status 500");
}

#[test]
fn throttling_asks_for_a_retry() {
    let body = json!({"error": {"code": "Throttled", "message": "too many requests"}});
    let error = responding(429, body)
        .run(Call::list_routes("prod"))
        .unwrap_err();
    let second = Duration::from_secs(1);
    assert_eq!(
        error,
        CloudError::retry("Throttled: too many requests", second)
    );
}

#[test]
fn a_cloud_that_does_not_respond_is_an_error_without_details() {
    let test = ProviderTest::<SampleCloud>::new(|_| Err(CloudError::other("connection refused")));
    test.set_credential("cloud-config", r#"{"url": "http://cloud.example.com"}"#);
    let error = test.run(Call::list_routes("prod")).unwrap_err();
    assert_eq!(error.message, "the sample cloud does not respond");
}
