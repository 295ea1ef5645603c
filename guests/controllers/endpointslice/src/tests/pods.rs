//! The endpoints of pods.

use flyball_sdk::prelude::*;

use super::world::*;

#[test]
fn a_service_gets_one_slice_with_its_pods() {
    let mut service = service(json!({}));
    service["metadata"]["labels"] = json!({"tier": "front", "kubernetes.io/service-name": "other"});
    let cluster = cluster([service, pod("web-1", "10.0.0.1"), node("node", "west")]);
    cluster.put(node("node", "west"));
    assert_eq!(reconcile(&cluster), ["create"]);
    let slice = &slices(&cluster)[0];
    assert_eq!(slice["metadata"]["generateName"], "web-");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"tier": "front", "kubernetes.io/service-name": "web",
               "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(
        slice["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "service",
                "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(
        slice["ports"],
        json!([{"name": "http", "protocol": "TCP", "port": 8080}])
    );
    assert_eq!(
        slice["endpoints"],
        json!([{
            "addresses": ["10.0.0.1"],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "a", "name": "web-1", "uid": "uid-web-1"},
            "nodeName": "node", "zone": "west",
        }])
    );
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn services_that_others_maintain_are_left_alone() {
    for changes in [
        json!({"selector": null}),
        json!({"type": "ExternalName", "externalName": "example.com"}),
    ] {
        let cluster = cluster([service(changes), pod("web-1", "10.0.0.1")]);
        assert!(reconcile(&cluster).is_empty());
    }
    assert!(reconcile(&cluster([])).is_empty());
}

/// The conditions of the only endpoint: ready, serving and terminating.
fn conditions(spec: Value, change: impl FnOnce(&mut Value)) -> Value {
    let cluster = cluster([service(spec), pod("web-1", "10.0.0.1")]);
    edit_pod(&cluster, "web-1", change);
    reconcile(&cluster);
    let conditions = &slices(&cluster)[0]["endpoints"][0]["conditions"];
    json!([
        conditions["ready"],
        conditions["serving"],
        conditions["terminating"]
    ])
}

#[test]
fn conditions_say_whether_a_pod_is_ready_serves_and_terminates() {
    let unready = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = "False".into();
    let terminating =
        |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let none = || json!({});
    let publish = || json!({"publishNotReadyAddresses": true});
    assert_eq!(conditions(none(), unready), json!([false, false, false]));
    assert_eq!(conditions(none(), terminating), json!([false, true, true]));
    assert_eq!(conditions(publish(), unready), json!([true, false, false]));
    assert_eq!(
        conditions(publish(), terminating),
        json!([true, true, true])
    );
}

#[test]
fn ended_pods_and_those_without_an_address_are_left_out() {
    let cluster = cluster([service(json!({}))]);
    pods(3).for_each(|pod| cluster.put(pod));
    edit_pod(&cluster, "web-00", |pod| {
        pod["status"]["phase"] = "Failed".into()
    });
    edit_pod(&cluster, "web-01", |pod| {
        pod["status"] = json!({"phase": "Pending"});
    });
    reconcile(&cluster);
    assert_eq!(members(&cluster), [["web-02"]]);
}

#[test]
fn each_family_has_slices_of_its_own() {
    let both = json!({"ipFamilies": ["IPv4", "IPv6"]});
    let cluster = cluster([
        service(both),
        pod("both", "10.0.0.1"),
        pod("old", "10.0.0.2"),
    ]);
    edit_pod(&cluster, "both", |pod| {
        pod["status"]["podIPs"] = json!([{"ip": "10.0.0.1"}, {"ip": "fd00:0::1"}]);
    });
    assert_eq!(reconcile(&cluster), ["create", "create"]);
    let slices = slices(&cluster);
    let of = |family: &str| {
        let slice = slices.iter().find(|slice| slice["addressType"] == family);
        slice.unwrap()["endpoints"].clone()
    };
    assert_eq!(of("IPv4").as_array().unwrap().len(), 2);
    assert_eq!(of("IPv6").as_array().unwrap().len(), 1);
    assert_eq!(of("IPv6")[0]["addresses"], json!(["fd00::1"]));
    // The Service gives up a family.
    edit_service(&cluster, |service| {
        service["spec"]["ipFamilies"] = json!(["IPv6"])
    });
    assert_eq!(reconcile(&cluster), ["delete"]);
}

#[test]
fn pods_with_other_numbers_of_a_named_port_are_in_other_slices() {
    let named = json!({"ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "http"},
                                 {"name": "metrics", "protocol": "TCP", "port": 81, "targetPort": 9090}]});
    let cluster = cluster([service(named)]);
    for (pod, port) in pods(3).zip([8080, 8080, 8081]) {
        let mut pod = pod;
        pod["spec"]["containers"] =
            json!([{"ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}]}]);
        cluster.put(pod);
    }
    cluster.put(pod("without", "10.0.0.9"));
    assert_eq!(reconcile(&cluster), ["create", "create", "create"]);
    let mut groups: Vec<(String, usize)> = slices(&cluster)
        .iter()
        .map(|slice| {
            let endpoints = slice["endpoints"].as_array().unwrap().len();
            (slice["ports"].to_string(), endpoints)
        })
        .collect();
    groups.sort();
    let sizes: Vec<usize> = groups.iter().map(|(_, size)| *size).collect();
    assert_eq!(sizes, [2, 1, 1]);
    assert!(groups[2].0.contains("metrics") && !groups[2].0.contains("http"));
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn a_headless_service_needs_no_ports_and_names_hosts() {
    let headless = json!({"clusterIP": "None", "ports": null});
    let cluster = cluster([service(headless), pod("web-1", "10.0.0.1")]);
    edit_pod(&cluster, "web-1", |pod| {
        pod["spec"]["hostname"] = "first".into();
        pod["spec"]["subdomain"] = "web".into();
    });
    assert_eq!(reconcile(&cluster), ["create"]);
    let slice = &slices(&cluster)[0];
    assert!(slice["ports"].is_null());
    assert_eq!(slice["endpoints"][0]["hostname"], "first");
    assert_eq!(
        slice["metadata"]["labels"]["service.kubernetes.io/headless"],
        ""
    );
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn ports_in_another_order_are_no_change() {
    let ports = json!([{"name": "a", "protocol": "TCP", "port": 1, "targetPort": 1},
                       {"name": "b", "protocol": "TCP", "port": 2, "targetPort": 2, "appProtocol": "http"}]);
    let cluster = cluster([service(json!({"ports": ports})), pod("web-1", "10.0.0.1")]);
    reconcile(&cluster);
    edit_service(&cluster, |service| {
        service["spec"]["ports"].as_array_mut().unwrap().reverse();
    });
    assert!(reconcile(&cluster).is_empty());
    // Another protocol of the application is another port. The slice is reused.
    edit_service(&cluster, |service| {
        service["spec"]["ports"][0]["appProtocol"] = "https".into();
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(sizes(&cluster), [1]);
}

#[test]
fn many_nodes_are_listed_and_few_are_read() {
    let cluster = cluster([service(json!({}))]);
    for at in 0..40 {
        let name = format!("node-{at}");
        cluster.put(node(&name, "west"));
        let mut pod = pod(&format!("web-{at}"), &format!("10.0.1.{at}"));
        pod["spec"]["nodeName"] = name.into();
        cluster.put(pod);
    }
    reconcile(&cluster);
    let slices = slices(&cluster);
    let endpoints = slices[0]["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 40);
    assert!(endpoints.iter().all(|endpoint| endpoint["zone"] == "west"));
}
