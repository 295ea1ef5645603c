//! Tests of the requests that are sent again, and of the errors that refusals become.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use flyball_fakes::server::{Reply, serve};
use flyball_limits::stop::StopSignal;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::fence::Term;

fn client(connection: Connection, fence: Fence) -> ApiClient {
    ApiClient::new(connection, None, "flyball/test", Arc::new(fence))
}

fn post() -> ApiRequest {
    let path = "/api/v1/namespaces/demo/pods";
    ApiRequest::new(Method::POST, path, "application/json", Bytes::from("{}"))
}

#[tokio::test]
async fn a_closed_fence_lets_reads_through_and_sends_no_write() {
    let (connection, log) = serve(|_| Reply::Json(200, json!({})));
    let client = client(connection, Fence::closed());
    let refused = client.send(post()).await.unwrap_err();
    assert_eq!(refused.reason, "Fenced");
    client.send(ApiRequest::get("/version")).await.unwrap();
    assert_eq!(log.take(), ["GET /version"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_no_longer_than_the_lease_lasts() {
    let (connection, _) = serve(|_| Reply::Nothing);
    let (fence, now, start) = (Fence::closed(), fence::now(), Instant::now());
    fence.lead(Term {
        start_until: now + Duration::from_secs(10),
        end_until: now + Duration::from_secs(15),
    });
    let error = client(connection, fence).send(post()).await.unwrap_err();
    assert_eq!(
        (error.status, error.effect),
        (504, Effect::Unknown),
        "{error}"
    );
    assert!((14..=15).contains(&start.elapsed().as_secs()));
}

#[tokio::test(start_paused = true)]
async fn a_request_is_retried_when_the_server_asks_for_it_and_not_without_end() {
    let (connection, log) = serve(|_| Reply::RetryAfter(429, 2));
    let (client, start) = (client(connection, Fence::open()), Instant::now());
    let error = client.send(ApiRequest::get("/version")).await.unwrap_err();
    assert_eq!((error.status, error.retry_after_ms), (429, Some(2000)));
    assert_eq!(log.take().len(), 1 + RETRIES as usize);
    assert_eq!(start.elapsed().as_secs(), 2 * u64::from(RETRIES));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_retries_of_a_request_and_keeps_what_is_known_of_its_effect() {
    for (status, effect) in [(503, Effect::Unknown), (429, Effect::None)] {
        let (connection, log) = serve(move |_| Reply::RetryAfter(status, 60));
        let (client, start) = (client(connection, Fence::open()), Instant::now());
        let stop = StopSignal::default();
        let begun = stop.begin();
        let stopping = async {
            tokio::time::sleep(Duration::from_secs(61)).await;
            stop.end();
        };
        let (stopped, ()) = futures::join!(client.send(post().unless_stopped(&begun)), stopping);
        let stopped = stopped.unwrap_err();
        assert_eq!(
            (stopped.reason.as_str(), stopped.effect),
            ("Skipped", effect)
        );
        assert_eq!((log.take().len(), start.elapsed().as_secs()), (2, 61));
        let late = client.send(post().unless_stopped(&begun)).await;
        assert!(late.unwrap_err().is_skipped() && log.take().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_effect_of_a_failed_attempt_stays_unknown_when_a_later_one_is_refused() {
    for (first, effect) in [(503, Effect::Unknown), (429, Effect::Refused)] {
        let asked = AtomicBool::new(false);
        let (connection, log) = serve(move |_| match asked.swap(true, Relaxed) {
            false => Reply::RetryAfter(first, 1),
            true => Reply::refusal(409, "AlreadyExists"),
        });
        let error = client(connection, Fence::open())
            .send(post())
            .await
            .unwrap_err();
        assert_eq!((error.status, error.effect), (409, effect), "{first}");
        assert_eq!(log.take().len(), 2);
    }
}

#[tokio::test]
async fn a_failed_read_has_no_effect() {
    let (connection, _) = serve(|_| Reply::refusal(500, "InternalError"));
    let client = client(connection, Fence::open());
    let read = client.send(ApiRequest::get("/version")).await.unwrap_err();
    assert_eq!((read.status, read.effect), (500, Effect::None));
    let write = client.send(post()).await.unwrap_err();
    assert_eq!((write.status, write.effect), (500, Effect::Unknown));
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_limit_and_to_the_plugins_budget() {
    let answer = json!({"data": "x".repeat(1000)});
    let (connection, _) = serve(move |_| Reply::Json(200, answer.clone()));
    let (client, get) = (client(connection, Fence::open()), || {
        ApiRequest::get("/version")
    });
    let too_long = client.send(get().at_most(500)).await.unwrap_err();
    assert!(
        too_long.message.contains("more than 500 bytes"),
        "{too_long}"
    );
    assert_eq!(too_long.effect, Effect::None);
    let budget = Budget::new(1500);
    let first = client.send_held(get().charged_to(&budget)).await.unwrap();
    assert_eq!(budget.used(), first.bytes.len());
    let full = client
        .send_held(get().charged_to(&budget))
        .await
        .unwrap_err();
    assert_eq!(
        (full.reason.as_str(), budget.used()),
        ("Full", first.bytes.len())
    );
    drop(first);
    assert!(client.send_held(get().charged_to(&budget)).await.is_ok());
    assert_eq!(budget.used(), 0);
    let write = client.send(post().at_most(500)).await.unwrap_err();
    assert_eq!(write.effect, Effect::Unknown);
}

fn read(status: u16, body: &'static str) -> ApiError {
    read_status(
        StatusCode::from_u16(status).unwrap(),
        &Bytes::from(body),
        &Method::GET,
        "/api",
    )
}

#[test]
fn the_servers_own_words_are_kept() {
    let error = read(
        409,
        r#"{"kind":"Status","message":"it changed","reason":"Conflict","code":409}"#,
    );
    assert_eq!(error, ApiError::of_server(409, "Conflict", "it changed"));
}

#[test]
fn a_terminating_namespace_is_told_apart_from_other_refusals() {
    let body = r#"{"message":"m","reason":"Forbidden","details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#;
    assert_eq!(read(403, body).reason, "NamespaceTerminating");
}

#[test]
fn the_details_say_when_to_try_again() {
    let body = r#"{"message":"m","reason":"TooManyRequests","details":{"retryAfterSeconds":2}}"#;
    assert_eq!(read(429, body).retry_after_ms, Some(2000));
}

#[test]
fn an_answer_that_is_no_status_is_shown() {
    let error = read(502, "<html>bad gateway</html>");
    assert_eq!((error.status, error.reason.as_str()), (502, "BadGateway"));
    assert!(error.message.contains("bad gateway"), "{}", error.message);
}

#[tokio::test]
async fn the_warnings_of_an_answer_are_collected_for_the_request_alone() {
    let (connection, _) = serve(|_| Reply::Warning(json!({}), r#"299 - "unknown field \"dta\"""#));
    let client = client(connection, Fence::open());
    let warnings = Warnings::default();
    client.send(post().warning_to(&warnings)).await.unwrap();
    client.send(post()).await.unwrap();
    assert_eq!(warnings.take(), [r#"unknown field "dta""#]);
    assert!(warnings.take().is_empty());
}
