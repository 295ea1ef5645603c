//! The pages for operators: `/configz`, `/flagz`, `/statusz`, `/metrics/slis`, `/debug/flags` and `/debug/pprof`.

use http::{HeaderMap, Method, StatusCode};

use crate::server::{Server, headers};

#[tokio::test]
async fn pages_need_authorization() -> anyhow::Result<()> {
    let server = Server::start().await?;
    for path in [
        "/configz",
        "/flagz",
        "/metrics/slis",
        "/debug/pprof/",
        "/debug/pprof/profile?seconds=1",
        "/debug/flags/v",
    ] {
        let (status, _) = server.get(path, HeaderMap::new(), None).await?;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
    }
    server.stop().await
}

#[tokio::test]
async fn the_configuration_and_the_flags_are_shown() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let get = async |path: &str, accept: &[(&'static str, &str)]| {
        server
            .as_admin(Method::GET, path, headers(accept), "")
            .await
    };
    let configz = get("/configz", &[]).await?;
    assert_eq!(configz.headers()["content-type"], "application/json");
    assert_eq!(
        configz.body(),
        "{\"kubecontrollermanager.config.k8s.io\":{}}"
    );
    let flagz = get("/flagz", &[]).await?;
    assert_eq!(flagz.headers()["content-type"], "text/plain; charset=utf-8");
    assert!(flagz.body().ends_with("\nv=2\n"), "{}", flagz.body());
    let object = "application/json;as=Flagz;v=v1beta1;g=config.k8s.io";
    let flagz = get("/flagz", &[("accept", object)]).await?;
    assert_eq!(
        flagz.body(),
        "{\"apiVersion\":\"config.k8s.io/v1beta1\",\"flags\":{\"v\":\"2\"},\"kind\":\"Flagz\",\"metadata\":{\"name\":\
         \"kube-controller-manager\"}}\n"
    );
    let refused = get("/flagz", &[("accept", "application/json")]).await?;
    assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE);
    assert!(
        refused.body().contains(
            "only the following media types are accepted: application/json, application/yaml, text/plain"
        ),
        "{}",
        refused.body()
    );
    // This server has no `/statusz`.
    assert_eq!(get("/statusz", &[]).await?.status(), StatusCode::NOT_FOUND);
    server.stop().await
}

#[tokio::test]
async fn the_results_of_health_checks_are_metrics_until_they_are_reset() -> anyhow::Result<()> {
    let server = Server::start().await?;
    server.get("/healthz", HeaderMap::new(), None).await?;
    let slis = async |method| {
        server
            .as_admin(method, "/metrics/slis", HeaderMap::new(), "")
            .await
    };
    let shown = slis(Method::GET).await?;
    assert_eq!(
        shown.headers()["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let line =
        "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 1\n";
    assert!(shown.body().contains(line), "{}", shown.body());
    assert_eq!(slis(Method::DELETE).await?.body(), "metrics reset\n");
    assert_eq!(slis(Method::GET).await?.body(), "");
    let refused = server
        .as_admin(Method::DELETE, "/metrics", HeaderMap::new(), "")
        .await?;
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    server.stop().await
}

#[tokio::test]
async fn the_verbosity_is_set_by_a_put() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let put = async |path, body| {
        server
            .as_admin(Method::PUT, path, HeaderMap::new(), body)
            .await
    };
    let done = put("/debug/flags/v", "4").await?;
    assert_eq!(
        done.body(),
        "successfully set klog.logging.verbosity to 4\n"
    );
    assert_eq!(done.headers()["content-type"], "text/plain");
    let refused = put("/debug/flags/v", "high").await?;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let (status, page) = server.get_with_token("/debug/flags/", "scraper").await?;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("<tr>v<br>"), "{page}");
    server.stop().await
}

#[tokio::test]
async fn a_cpu_profile_is_served() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let get = async |path: &str| {
        server
            .as_admin(Method::GET, path, HeaderMap::new(), "")
            .await
    };
    let index = get("/debug/pprof").await?;
    assert_eq!(
        (index.status(), &index.headers()["location"]),
        (StatusCode::FOUND, &"/debug/pprof/".parse()?)
    );
    let profile = get("/debug/pprof/profile?seconds=1").await?;
    assert_eq!(profile.status(), StatusCode::OK);
    assert_eq!(
        profile.headers()["content-type"],
        "application/octet-stream"
    );
    assert!(profile.body().contains("nanoseconds"));
    server.stop().await
}

#[cfg(not(feature = "heap-profiles"))]
#[tokio::test]
async fn there_is_no_heap_profile_with_the_allocator_of_the_system() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let heap = server
        .as_admin(Method::GET, "/debug/pprof/heap", HeaderMap::new(), "")
        .await?;
    assert_eq!(
        (heap.status(), heap.body().as_str()),
        (StatusCode::NOT_FOUND, "Unknown profile\n")
    );
    server.stop().await
}
