//! The server over HTTP: faults, the log of calls, and a restart.

use std::io::{Read, Write};
use std::net::TcpStream;

use flyball_sample_cloud::Server;
use serde_json::{Value, json};

/// Sends a request, and returns the head of the response and its body. Both are empty if the connection is closed.
fn send(server: &Server, method: &str, path: &str, body: &str) -> (String, Value) {
    let address = server.url().replace("http://", "");
    let mut stream = TcpStream::connect(&address).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    (
        head.to_owned(),
        serde_json::from_str(body).unwrap_or_default(),
    )
}

const WEB: &str = r#"{"service": "team/web", "ports": [{"protocol": "TCP", "port": 80}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn faults_replace_responses_or_close_connections() {
    let server = Server::start("127.0.0.1:0", None).await.unwrap();
    for fault in [
        json!({"method": "PUT", "contains": "team/web", "times": 1, "status": 429, "code": "Throttled",
               "message": "slowly", "retryAfter": 3}),
        json!({"method": "PUT", "contains": "team/web", "times": 1, "after": true, "drops": true}),
        json!({"method": "PUT", "contains": "team/web", "times": 1, "body": {"state": "creating"}}),
        json!({"method": "DELETE", "contains": "team/web", "times": 1, "delay": 1, "status": 500, "code": "Internal"}),
    ] {
        server.ask("POST", "control/faults", &fault).unwrap();
    }
    let put = || send(&server, "PUT", "/v1/load-balancers/lb", WEB);
    let (head, body) = put();
    assert!(
        head.starts_with("HTTP/1.1 429") && head.contains("retry-after: 3"),
        "{head}"
    );
    assert_eq!(
        body["error"],
        json!({"code": "Throttled", "message": "slowly"})
    );
    let state = || {
        server
            .ask("GET", "v1/load-balancers?service=team/web", &Value::Null)
            .unwrap()
    };
    assert_eq!(state()["loadBalancers"], json!([]));
    assert_eq!(put().0, "", "the connection is closed");
    assert_eq!(
        state()["loadBalancers"][0]["name"],
        "lb",
        "it was created all the same"
    );
    assert_eq!(put().1, json!({"state": "creating"}));
    assert_eq!(put().1["state"], "ready");
    let delete = || send(&server, "DELETE", "/v1/load-balancers/lb", "").0;
    assert!(delete().starts_with("HTTP/1.1 500"));
    assert!(delete().starts_with("HTTP/1.1 204"));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_found_by_what_they_are_about() {
    let server = Server::start("127.0.0.1:0", None).await.unwrap();
    send(&server, "PUT", "/v1/load-balancers/lb", WEB);
    send(&server, "GET", "/v1/load-balancers/lb", "");
    send(&server, "GET", "/v1/instances?name=a", "");
    let calls = |text: &str| {
        let path = format!("control/calls?contains={text}");
        server.ask("GET", &path, &Value::Null).unwrap()["calls"].clone()
    };
    assert_eq!(
        calls("team/web"),
        json!(["PUT /v1/load-balancers/lb", "GET /v1/load-balancers/lb"])
    );
    assert_eq!(calls("name=a"), json!(["GET /v1/instances?name=a"]));
    server.ask("DELETE", "control/calls", &Value::Null).unwrap();
    assert_eq!(calls(""), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_rate_are_throttled() {
    let server = Server::start("127.0.0.1:0", None).await.unwrap();
    server
        .ask(
            "PUT",
            "control/settings",
            &json!({"requestsPerSecond": 0.001}),
        )
        .unwrap();
    let get = || send(&server, "GET", "/v1/instances", "").0;
    assert!(get().starts_with("HTTP/1.1 200"));
    assert!(get().starts_with("HTTP/1.1 429"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud.json");
    let server = Server::start("127.0.0.1:0", Some(path.clone()))
        .await
        .unwrap();
    send(&server, "POST", "/v1/instances", r#"{"name": "a"}"#);
    server
        .ask("PUT", "control/settings", &json!({"loadBalancerDelay": 5}))
        .unwrap();
    drop(server);
    let server = Server::start("127.0.0.1:0", Some(path)).await.unwrap();
    let state = server.ask("GET", "control/state", &Value::Null).unwrap();
    assert_eq!(state["instances"]["a"]["state"], "running");
    assert_eq!(state["settings"]["loadBalancerDelay"], 5);
    assert!(server.ask("GET", "v1/instances/b", &Value::Null).is_err());
}
