//! Calls of a cloud: what crosses to a provider and back, and providers that misbehave.

mod support;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use flyball_fakes::cloud;
use flyball_plugin::{CloudCall, CloudError, Limits, Outcome, Plugin};
use support::{Fake, engine, plain, plugin_of};

/// See `provider.wat` and `cloud_caller.wat` of the fakes.
fn provider() -> Vec<u8> {
    cloud::provider("{\"name\":\"p\"}")
}

fn cloud_caller() -> Vec<u8> {
    cloud::caller("{\"name\":\"c\"}")
}

async fn load(component: Vec<u8>, change: impl FnOnce(&mut Limits)) -> Plugin {
    let engine = engine();
    let component = engine.load(component.into()).await.unwrap();
    let mut limits = Limits::default();
    change(&mut limits);
    Plugin::new(&engine, component, limits).unwrap()
}

fn call(method: &str) -> CloudCall {
    CloudCall {
        method: method.into(),
        arguments: Bytes::from("{\"clusterName\":\"c\"}"),
        nodes: Bytes::from("[{}]"),
    }
}

async fn answer(plugin: &Plugin, method: &str) -> Result<Vec<u8>, CloudError> {
    let ended = plugin.cloud_call(plain(), call(method)).await;
    ended.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// The error of a call that does not return, as a controller sees it.
async fn failure(plugin: &Plugin, method: &str) -> CloudError {
    let error = plugin.cloud_call(plain(), call(method)).await.unwrap_err();
    CloudError::of_failed_call("p", &error)
}

#[tokio::test]
async fn a_component_that_exports_a_cloud_is_a_provider_and_a_controller() {
    let provider = load(provider(), |_| ()).await;
    assert!(provider.is_provider());
    assert_eq!(
        provider.describe(plain()).await.unwrap(),
        b"{\"name\":\"p\"}"
    );
    let ended = provider.reconcile(plain(), "q", "k", 0).await.unwrap();
    assert_eq!(ended, Outcome::Done);
    let capabilities = provider.cloud_capabilities(plain()).await.unwrap();
    assert_eq!(capabilities.unwrap(), b"{\"providerName\":\"p\"}");
    let controller = plugin_of(&engine(), |_| ()).await;
    assert!(!controller.is_provider());
    let error = controller.cloud_call(plain(), call("x")).await.unwrap_err();
    assert!(error.to_string().contains("exports no cloud"), "{error}");
}

#[tokio::test]
async fn documents_and_errors_cross_unchanged() {
    let provider = load(provider(), |_| ()).await;
    assert_eq!(answer(&provider, "x").await.unwrap(), b"{\"bool\":true}");
    let arguments = answer(&provider, "arguments").await.unwrap();
    assert_eq!(arguments, b"{\"clusterName\":\"c\"}");
    assert_eq!(answer(&provider, "nodes").await.unwrap(), b"[{}]");
    let error = answer(&provider, "error").await.unwrap_err();
    let expected = CloudError {
        kind: "Retry".into(),
        message: "the cloud is busy".into(),
        wrapped: true,
        retry_after_ms: Some(5000),
    };
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_provider_gets_its_credentials_and_no_others() {
    let provider = load(provider(), |_| ()).await;
    let imports = Fake::new(|fake| fake.credentials = vec![("credential", "secret".into())]);
    let given = provider
        .cloud_call(imports.clone(), call("credential"))
        .await;
    assert_eq!(given.unwrap().unwrap(), b"secret");
    let other = provider.cloud_call(imports, call("c")).await;
    assert_eq!(other.unwrap().unwrap(), b"{\"bool\":true}");
}

#[tokio::test]
async fn a_trap_or_a_limit_fails_one_call_and_the_next_one_succeeds() {
    let provider = load(provider(), |limits| {
        limits.cpu_per_call = Duration::from_millis(50);
        limits.memory = 4 << 20;
    })
    .await;
    for (method, kind) in [
        ("unreachable", "Crashed"),
        ("outside", "Crashed"),
        ("memory", "Crashed"),
        ("loop", "Timeout"),
    ] {
        let error = failure(&provider, method).await;
        assert_eq!(error.kind, kind, "{error}");
        assert!(
            error.message.contains("the cloud provider p failed"),
            "{error}"
        );
        assert!(answer(&provider, "x").await.is_ok());
    }
}

#[tokio::test]
async fn a_controller_waits_for_the_cloud_longer_than_its_own_wall_clock_limit() {
    let caller = load(cloud_caller(), |limits| {
        limits.wall_per_call = Duration::from_millis(100);
    })
    .await;
    let slow = Fake::new(|fake| fake.cloud_delay = Some(Duration::from_millis(500)));
    let ended = caller.reconcile(slow, "q", "x", 1).await.unwrap();
    assert_eq!(ended, Outcome::RequeueAfter(Duration::from_millis(1)));
}

#[tokio::test]
async fn without_a_grant_each_call_is_an_error_of_its_own() {
    let caller = load(cloud_caller(), |_| ()).await;
    let ended = caller.reconcile(plain(), "q", "x", 2).await.unwrap();
    assert_eq!(ended, Outcome::RequeueAfter(Duration::from_millis(30_002)));
}

#[tokio::test]
async fn a_batch_of_too_many_calls_makes_those_that_it_may_have() {
    let caller = load(cloud_caller(), |_| ()).await;
    let cloud = Fake::new(|fake| fake.cloud_delay = Some(Duration::ZERO));
    let ended = caller.reconcile(cloud.clone(), "q", "x", 1001).await;
    let expected = Outcome::RequeueAfter(Duration::from_millis(21_001));
    assert_eq!(ended.unwrap(), expected);
    assert_eq!(cloud.cloud_calls.load(SeqCst), 1000);
}
