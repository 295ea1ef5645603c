//! The dashboard over HTTPS: who may see it, and who may not.

use std::slice::from_ref;

use anyhow::Context;
use bytes::Bytes;
use http::header::SET_COOKIE;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use crate::server::{Pair, Server, headers};

const SESSION: &str = "/dashboard/api/session";
const PLUGINS: &str = "/dashboard/api/stream?view=plugins";

/// Sends a request, and returns the response with the first part of its body: events have no end.
async fn send(
    server: &Server,
    method: Method,
    path: &str,
    headers: HeaderMap,
    pair: Option<Pair>,
) -> anyhow::Result<Response<String>> {
    let request = Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"));
    let mut request = request.body(Full::<Bytes>::default())?;
    *request.headers_mut() = headers;
    server.first_part(request, pair).await
}

async fn status(server: &Server, path: &str, headers: HeaderMap) -> anyhow::Result<StatusCode> {
    let response = send(server, Method::GET, path, headers, None).await?;
    Ok(response.status())
}

fn token(name: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {name}"))
}

/// Signs a user in, and returns the headers of its session.
async fn sign_in(server: &Server, user: &str) -> anyhow::Result<[(&'static str, String); 2]> {
    let (name, value) = token(user);
    let own = headers(&[(name, &value)]);
    let response = send(server, Method::POST, SESSION, own, None).await?;
    assert_eq!(response.status(), StatusCode::CREATED);
    let cookie = response.headers()[SET_COOKIE].to_str()?.to_owned();
    for part in ["HttpOnly", "Secure", "SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let pair = cookie.split(';').next().context("a pair")?;
    let body: Value = serde_json::from_str(response.body())?;
    let key = body["key"].as_str().context("a key")?;
    Ok([
        ("cookie", pair.to_owned()),
        ("x-flyball-key", key.to_owned()),
    ])
}

fn of(pairs: &[(&'static str, String)]) -> HeaderMap {
    let pairs: Vec<(&'static str, &str)> = pairs
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    headers(&pairs)
}

#[tokio::test]
async fn the_page_is_open_and_its_data_is_not() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let page = send(&server, Method::GET, "/dashboard/", HeaderMap::new(), None).await?;
    assert_eq!(page.status(), StatusCode::OK);
    assert!(
        page.body()
            .contains("<meta name=\"sign-in\" content=\"token\">")
    );
    let policy = page.headers()["content-security-policy"].to_str()?;
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    for path in [PLUGINS, SESSION, "/dashboard/api/other"] {
        let found = status(&server, path, HeaderMap::new()).await?;
        assert_eq!(found, StatusCode::FORBIDDEN, "{path}");
        for (user, expected) in [
            ("stolen", StatusCode::UNAUTHORIZED),
            // Who may get metrics may not get the dashboard.
            ("scraper", StatusCode::FORBIDDEN),
        ] {
            let found = status(&server, path, of(&[token(user)])).await?;
            assert_eq!(found, expected, "{user} {path}");
        }
    }
    let seen = send(
        &server,
        Method::GET,
        PLUGINS,
        of(&[token("onlooker")]),
        None,
    )
    .await?;
    assert_eq!(seen.status(), StatusCode::OK);
    assert_eq!(seen.headers()["content-type"], "text/event-stream");
    assert!(
        seen.body().starts_with("event: plugins\n"),
        "{}",
        seen.body()
    );
    assert!(seen.body().contains("greeter"), "{}", seen.body());
    server.stop().await
}

#[tokio::test]
async fn a_session_stands_for_its_users_token_until_it_ends() -> anyhow::Result<()> {
    let server = Server::start().await?;
    for user in ["scraper", "stolen"] {
        let response = send(&server, Method::POST, SESSION, of(&[token(user)]), None).await?;
        assert!(!response.headers().contains_key(SET_COOKIE), "{user}");
    }
    let [cookie, key] = sign_in(&server, "onlooker").await?;
    let both = of(&[cookie.clone(), key.clone()]);
    assert_eq!(
        status(&server, PLUGINS, both.clone()).await?,
        StatusCode::OK
    );
    // Neither secret is enough.
    for alone in [from_ref(&cookie), from_ref(&key)].map(of) {
        assert_eq!(
            status(&server, PLUGINS, alone).await?,
            StatusCode::FORBIDDEN
        );
    }
    // A session opens nothing else.
    assert_eq!(
        status(&server, "/metrics", both.clone()).await?,
        StatusCode::FORBIDDEN
    );
    let ended = send(&server, Method::DELETE, SESSION, both.clone(), None).await?;
    assert_eq!(ended.status(), StatusCode::NO_CONTENT);
    assert_eq!(status(&server, PLUGINS, both).await?, StatusCode::FORBIDDEN);
    server.stop().await
}

#[tokio::test]
async fn a_page_of_another_origin_gets_nothing_with_the_users_credentials() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let session = sign_in(&server, "onlooker").await?;
    for foreign in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let foreign = (foreign.0, foreign.1.to_owned());
        let mut all = session.to_vec();
        all.push(foreign.clone());
        let response = send(&server, Method::GET, PLUGINS, of(&all), None).await?;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{foreign:?}");
        assert!(response.body().contains("another origin"), "{foreign:?}");
        // Nor with a client certificate, which browsers send with every request.
        let admin = server.clients.client("admin", "system:masters")?;
        let response = send(
            &server,
            Method::GET,
            PLUGINS,
            of(from_ref(&foreign)),
            Some(admin),
        );
        assert_eq!(response.await?.status(), StatusCode::FORBIDDEN);
        let sign_in = of(&[foreign, token("onlooker")]);
        let response = send(&server, Method::POST, SESSION, sign_in, None).await?;
        assert!(!response.headers().contains_key(SET_COOKIE));
    }
    let mut own = session.to_vec();
    own.push(("origin", "https://localhost".to_owned()));
    own.push(("sec-fetch-site", "same-origin".to_owned()));
    assert_eq!(status(&server, PLUGINS, of(&own)).await?, StatusCode::OK);
    server.stop().await
}

#[tokio::test]
async fn the_files_of_the_page_need_no_review_however_many_are_requested_at_once()
-> anyhow::Result<()> {
    let server = Server::start().await?;
    let files = vec![("/dashboard/app.js", HeaderMap::new()); 60];
    let statuses = server.get_at_once(&files).await?;
    assert!(statuses.iter().all(|status| *status == StatusCode::OK));
    server.stop().await
}

#[tokio::test]
async fn events_end_with_the_server_and_are_not_cut_off() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let request = Request::get(format!("https://localhost{PLUGINS}"));
    let mut request = request.body(Full::<Bytes>::default())?;
    *request.headers_mut() = of(&[token("onlooker")]);
    let (_connection, response) = server.begin(request, None).await?;
    assert_eq!(response.status(), StatusCode::OK);
    let events = response.into_body().collect();
    let (events, stopped) = tokio::join!(events, server.stop());
    events.context("the events end well")?;
    stopped
}
