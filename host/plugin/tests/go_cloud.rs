//! A cloud in Go, `tests/guests/go-cloud`: its requests over HTTP, its waiting, and its errors. `cargo xtask guests go` builds
//! it.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flyball_controlplane::skip;
use flyball_plugin::{CloudCall, CloudError, Limits, Plugin};
use serde_json::{Value, json};
use support::{Fake, component_path, engine, plain};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

/// The provider; none if it was not built, since Go is not installed.
async fn provider(test: &str) -> Option<Plugin> {
    let Ok(component) = std::fs::read(component_path("go-cloud")) else {
        skip(
            test,
            "go-cloud has not been built: `cargo xtask guests go` builds it",
        )
        .unwrap();
        return None;
    };
    let engine = engine();
    let component = engine.load(component.into()).await.unwrap();
    Some(Plugin::new(&engine, component, Limits::default()).unwrap())
}

async fn call(
    plugin: &Plugin,
    imports: Arc<Fake>,
    method: &str,
    arguments: Value,
) -> Result<Value, CloudError> {
    let call = CloudCall {
        method: method.into(),
        arguments: arguments.to_string().into(),
        nodes: Bytes::from("[{}]"),
    };
    let ended = plugin.cloud_call(imports, call).await;
    let document = ended.unwrap_or_else(|error| panic!("{method}: {error}"))?;
    Ok(serde_json::from_slice(&document).unwrap())
}

/// Serves each connection once with this response, or never if it is empty. Returns the server and the requests.
async fn serve(response: &'static str) -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let mut part = [0; 4096];
            while !is_complete(&request) {
                let read = stream.read(&mut part).await.unwrap();
                assert!(read > 0, "the request is incomplete");
                request.extend_from_slice(&part[..read]);
            }
            let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
            match response {
                "" => std::future::pending().await,
                response => stream.write_all(response.as_bytes()).await.unwrap(),
            }
        }
    });
    (server, requests)
}

/// Whether a request of these tests has been received: a body ends with `}`, and others with an empty line.
fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    match text.contains("\r\ncontent-length: ") {
        true => text.ends_with('}'),
        false => text.ends_with("\r\n\r\n"),
    }
}

fn granted(server: &str) -> Arc<Fake> {
    let server = server.to_owned();
    Fake::new(|fake| fake.server = Some((server, Handle::current())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_any_transport_go_through_the_host() {
    let Some(plugin) = provider("requests_of_any_transport_go_through_the_host").await else {
        return;
    };
    let response = "HTTP/1.1 201 Created\r\nx-answered: yes\r\ncontent-length: 5\r\n\r\nhello";
    let (server, mut requests) = serve(response).await;
    let url = format!("{server}/v1/things?name=a");
    let arguments = json!({"url": url, "method": "PUT", "body": "{\"a\": {}}"});
    let result = call(&plugin, granted(&server), "send", arguments).await;
    let expected = json!({"status": 201, "answered": "yes", "body": "hello"});
    assert_eq!(result.unwrap(), expected);
    let request = requests.recv().await.unwrap().to_lowercase();
    assert!(
        request.starts_with("put /v1/things?name=a http/1.1\r\n"),
        "{request}"
    );
    assert!(request.contains("x-asked: yes\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"a\": {}}"), "{request}");
    // Goroutines take turns.
    let both = call(&plugin, granted(&server), "both", json!({"url": url})).await;
    both.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_granted_or_silent_is_an_error_with_the_reason() {
    let name = "a_server_that_is_not_granted_or_silent_is_an_error_with_the_reason";
    let Some(plugin) = provider(name).await else {
        return;
    };
    let (server, _requests) = serve("").await;
    let arguments = json!({"url": server, "method": "GET"});
    let denied = call(&plugin, plain(), "send", arguments.clone()).await;
    let message = denied.unwrap_err().message;
    assert!(
        message.contains("http-hosts") && message.contains("(timeout: false)"),
        "{message}"
    );
    let silent = call(&plugin, granted(&server), "send", arguments).await;
    let message = silent.unwrap_err().message;
    assert!(message.contains("(timeout: true)"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_that_sleeps_waits() {
    let Some(plugin) = provider("a_cloud_that_sleeps_waits").await else {
        return;
    };
    let began = Instant::now();
    let slept = call(&plugin, plain(), "sleep", json!({})).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(30));
    assert!(slept.as_u64().unwrap() >= 30, "{slept}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_nodes_and_errors_cross() {
    let Some(plugin) = provider("credentials_nodes_and_errors_cross").await else {
        return;
    };
    assert!(plugin.is_provider());
    let capabilities = plugin.cloud_capabilities(plain()).await.unwrap().unwrap();
    let capabilities: Value = serde_json::from_slice(&capabilities).unwrap();
    assert_eq!(capabilities["providerName"], "go-cloud");
    let imports = Fake::new(|fake| fake.credentials = vec![("token", "secret".into())]);
    for (name, expected) in [
        ("token", json!(["secret", true])),
        ("other", json!(["", false])),
    ] {
        let found = call(
            &plugin,
            imports.clone(),
            "credential",
            json!({"name": name}),
        )
        .await;
        assert_eq!(found.unwrap(), expected);
    }
    let nodes = call(&plugin, plain(), "nodes", json!({})).await;
    assert_eq!(nodes.unwrap(), json!([{}]));
    let error = async |method| call(&plugin, plain(), method, json!({})).await.unwrap_err();
    let not_found = error("InstanceNotFound").await;
    assert_eq!(
        (&*not_found.kind, &*not_found.message, not_found.wrapped),
        ("InstanceNotFound", "a: instance not found", true)
    );
    let retry = error("Retry").await;
    assert_eq!(
        (&*retry.kind, retry.wrapped, retry.retry_after_ms),
        ("Retry", false, Some(5000))
    );
    let unknown = error("unknown").await;
    assert_eq!((&*unknown.kind, unknown.wrapped), ("NotImplemented", false));
    let panicked = error("panic").await;
    assert!(
        panicked.message.contains("main.go") && panicked.message.contains("main.fail"),
        "{}",
        panicked.message
    );
}
