//! Requests over HTTPS to the server in this process, with a fake API server.

mod connections;
mod dashboard;
mod pages;
mod server;
mod tls;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use flyball_serving::debug::Page;
use flyball_serving::{Algorithms, BindError, Certificate, ServingOptions, TlsOptions, bind};
use http::{HeaderMap, StatusCode};

use tokio::sync::Notify;

use crate::server::{Authority, Server, headers};

/// Only a fault takes this long.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn probes_need_no_credentials_and_metrics_do() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let _check = server.health.add("replicaset-controller", || Ok(()));
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(
            server.get(path, HeaderMap::new(), None).await?,
            (StatusCode::OK, "ok".to_owned())
        );
    }
    let (_, verbose) = server
        .get("/healthz?verbose", HeaderMap::new(), None)
        .await?;
    assert_eq!(
        verbose,
        "[+]ping ok\n[+]replicaset-controller ok\nhealthz check passed\n"
    );

    let (status, body) = server.get("/metrics", HeaderMap::new(), None).await?;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(
        body.contains(
            r#"forbidden: User \"system:anonymous\" cannot get path \"/metrics\": says the fake"#
        ),
        "{body}"
    );

    let (status, body) = server.get_with_token("/metrics", "scraper").await?;
    assert_eq!(status, StatusCode::OK);
    assert!(body.contains("kubernetes_build_info{"), "{body}");
    server.stop().await
}

#[tokio::test]
async fn a_probe_does_not_wait_for_metrics_that_take_long() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let started = Arc::new(Notify::new());
    let (answered, answer) = std::sync::mpsc::channel();
    let (begun, answer) = (started.clone(), Mutex::new(answer));
    // Writing the metrics takes until the probe has been answered.
    let _scrape = server.metrics.on_scrape(move || {
        begun.notify_one();
        let waited = answer.lock().map(|answer| answer.recv_timeout(DEADLINE));
        assert!(matches!(waited, Ok(Ok(()))), "the probe was answered");
    });
    let probe = async {
        started.notified().await;
        let probed = server.get("/healthz", HeaderMap::new(), None).await;
        answered.send(())?;
        probed
    };
    let (scraped, probed) = futures::join!(server.get_with_token("/metrics", "scraper"), probe);
    assert_eq!(probed?.0, StatusCode::OK);
    assert_eq!(scraped?.0, StatusCode::OK);
    server.stop().await
}

#[tokio::test]
async fn a_refusal_names_the_flag_without_which_no_access_can_be_reviewed() -> anyhow::Result<()> {
    for (tokens, access, expected) in [
        (false, true, Some("--authentication-kubeconfig")),
        (true, false, Some("--authorization-kubeconfig")),
        (true, true, None),
    ] {
        let server = Server::start_reviewed(|_| (), tokens, access).await?;
        let (status, body) = match (tokens, access) {
            (true, true) => server.get("/metrics", HeaderMap::new(), None).await?,
            _ => server.get_with_token("/metrics", "scraper").await?,
        };
        assert_eq!(status, StatusCode::FORBIDDEN, "{body}");
        assert_eq!(body.contains("kubeconfig"), expected.is_some(), "{body}");
        let expected = expected.unwrap_or("forbidden: User");
        assert!(body.contains(expected), "{body}");
        server.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_failed_check_fails_the_probe() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let _check = server.health.add("job-controller", || {
        Err("its guest is quarantined".to_owned())
    });
    let (status, body) = server.get("/healthz", HeaderMap::new(), None).await?;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        body,
        "[+]ping ok\n[-]job-controller failed: reason withheld\nhealthz check failed\n"
    );
    // A single check shows its reason, and is not open to everyone.
    let one = "/healthz/job-controller";
    assert_eq!(
        server.get(one, HeaderMap::new(), None).await?.0,
        StatusCode::FORBIDDEN
    );
    let admin = server.clients.client("admin", "system:masters")?;
    let (status, body) = server.get(one, HeaderMap::new(), Some(admin)).await?;
    assert_eq!(
        (status, body.as_str()),
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal server error: its guest is quarantined\n"
        )
    );
    server.stop().await
}

#[tokio::test]
async fn invalid_credentials_are_refused_everywhere() -> anyhow::Result<()> {
    let server = Server::start().await?;
    assert_eq!(
        server.get_with_token("/healthz", "stolen").await?.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        server.get_with_token("/metrics", "someone").await?.0,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        server.get_with_token("/metrics", "unlucky").await?.0,
        StatusCode::INTERNAL_SERVER_ERROR
    );
    let forged = Authority::new()?.client("admin", "system:masters")?;
    assert_eq!(
        server
            .get("/metrics", HeaderMap::new(), Some(forged))
            .await?
            .0,
        StatusCode::UNAUTHORIZED
    );
    server.stop().await
}

#[tokio::test]
async fn a_client_certificate_names_its_user_and_groups() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let monitor = server.clients.client("prometheus", "monitoring")?;
    assert_eq!(
        server
            .get("/metrics", HeaderMap::new(), Some(monitor))
            .await?
            .0,
        StatusCode::OK
    );
    let other = server.clients.client("prometheus", "others")?;
    let (status, body) = server
        .get("/metrics", HeaderMap::new(), Some(other))
        .await?;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(body.contains("prometheus"), "{body}");
    server.stop().await
}

#[tokio::test]
async fn only_a_trusted_proxy_may_set_a_user() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let named = || {
        headers(&[
            ("x-remote-user", "someone"),
            ("x-remote-group", "monitoring"),
        ])
    };
    let proxy = server.proxies.client("front-proxy-client", "")?;
    assert_eq!(
        server.get("/metrics", named(), Some(proxy)).await?.0,
        StatusCode::OK
    );
    let misnamed = server.proxies.client("another", "")?;
    assert_eq!(
        server.get("/metrics", named(), Some(misnamed)).await?.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        server.get("/metrics", named(), None).await?.0,
        StatusCode::FORBIDDEN
    );
    // A client certificate counts, whatever the headers say.
    let other = server.clients.client("prometheus", "others")?;
    assert_eq!(
        server.get("/metrics", named(), Some(other)).await?.0,
        StatusCode::FORBIDDEN
    );
    server.stop().await
}

#[tokio::test]
async fn a_debug_page_is_shown_to_those_who_may_see_it() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let page = |query: &[(String, String)]| Page {
        content_type: "text/vnd.graphviz",
        body: format!("{query:?}"),
    };
    let _page = server.debug.add("some-controller", "graph", page);
    let path = "/debug/controllers/some-controller/graph?uid=a";
    assert_eq!(
        server.get(path, HeaderMap::new(), None).await?.0,
        StatusCode::FORBIDDEN
    );
    let (status, body) = server.get_with_token(path, "scraper").await?;
    assert_eq!(
        (status, body.as_str()),
        (StatusCode::OK, r#"[("uid", "a")]"#)
    );
    for path in [
        "/debug/controllers/some-controller/other",
        "/debug/controllers/other/graph",
        "/debug/controllers",
    ] {
        assert_eq!(
            server.get_with_token(path, "scraper").await?.0,
            StatusCode::NOT_FOUND
        );
    }
    server.stop().await
}

#[tokio::test]
async fn a_port_in_use_and_a_missing_certificate_are_errors() -> anyhow::Result<()> {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let tls = TlsOptions {
        certificate: Certificate::SelfSigned,
        named: Vec::new(),
        algorithms: Algorithms::default(),
        tls13_only: true,
        http2: false,
    };
    let mut options = ServingOptions {
        address: taken.local_addr()?,
        tls,
        http2_max_streams: 100,
    };
    let error = bind(&options)
        .await
        .map(drop)
        .expect_err("the port is taken");
    assert!(
        matches!(error, BindError::InUse(address) if address == options.address),
        "{error}"
    );

    options.address.set_port(0);
    options.tls.certificate = Certificate::Files {
        certificate: "/no/such".into(),
        key: "/no/such".into(),
    };
    let error = bind(&options)
        .await
        .map(drop)
        .expect_err("there is no certificate");
    assert!(matches!(error, BindError::Certificate(_)), "{error}");
    Ok(())
}
