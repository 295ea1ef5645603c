//! The reflector's requests and the resulting cache under every kind of failure, with paused time.

mod fake;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use fake::{Server, interest, listing, started};
use flyball_cache::{
    ApiResource, Informer, ListMode, ListQuery, Lister, OverlayWriter, Scope, View,
};
use flyball_types::Mask;
use flyball_types::description::DeltaType;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

fn contents(informer: &Informer) -> Vec<String> {
    let lister = Lister::new(
        informer.clone(),
        OverlayWriter::new().reader(),
        View::default(),
    );
    let found = lister.list(&ListQuery::default());
    found
        .iter()
        .map(|object| format!("{}={}", object.key(), object.resource_version()))
        .collect()
}

async fn up_to_date(server: &Arc<Server>, informer: &Informer) {
    timeout(
        Duration::from_secs(300),
        informer.wait_until(server.version()),
    )
    .await
    .expect("the cache reaches the server's version");
    assert_eq!(contents(informer), server.contents());
}

fn some_pods(server: &Server, count: usize) {
    for number in 0..count {
        server.put("a", &format!("p{number}"), json!({"spec": {"n": number}}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_streamed_and_the_same_watch_continues() {
    let server = Server::new();
    some_pods(&server, 4);
    let (factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    server.put("a", "p5", json!({}));
    server.delete("a", "p1");
    sleep(Duration::from_millis(10)).await;
    up_to_date(&server, &informer).await;
    let requests = server.requests();
    assert_eq!(
        requests,
        [
            "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        ]
    );
    factory.shutdown().await;
    assert_eq!(server.watchers(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_list_and_each_batch_of_changes_is_observed() {
    let server = Server::new();
    some_pods(&server, 4);
    let observed = Arc::new(AtomicU32::new(0));
    let count = observed.clone();
    let observe = move |resource: &ApiResource, _| {
        assert_eq!(resource.plural, "pods");
        count.fetch_add(1, Relaxed);
    };
    let mode = ListMode::default();
    let (_factory, informer) =
        fake::observed(&server, interest(&["spec"]), mode, Arc::new(observe)).await;
    informer.synced().await;
    assert_eq!(observed.load(Relaxed), 1);
    server.put("a", "p5", json!({}));
    up_to_date(&server, &informer).await;
    assert_eq!(observed.load(Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn pages_are_requested_from_a_server_that_does_not_stream_lists() {
    let server = Server::new();
    server.inner().no_stream_lists = true;
    some_pods(&server, 7);
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    up_to_date(&server, &informer).await;
    sleep(Duration::from_millis(10)).await;
    let requests = server.requests();
    assert!(requests[0].contains("sendInitialEvents"));
    assert_eq!(
        requests[1..4],
        [
            "limit=500",
            "limit=500&continue=107-3",
            "limit=500&continue=107-6"
        ]
    );
    assert_eq!(
        requests[4],
        "watch=true&allowWatchBookmarks=true&resourceVersion=107"
    );
}

#[tokio::test(start_paused = true)]
async fn no_list_is_streamed_if_the_mode_is_paged() {
    let server = Server::new();
    some_pods(&server, 2);
    let (_factory, informer) = listing(&server, interest(&["spec"]), ListMode::Paged).await;
    informer.synced().await;
    sleep(Duration::from_millis(10)).await;
    server.error_event(410, "Expired");
    sleep(Duration::from_secs(60)).await;
    let relist = "limit=500&resourceVersion=102&resourceVersionMatch=NotOlderThan";
    let watch = "watch=true&allowWatchBookmarks=true&resourceVersion=102";
    assert_eq!(server.requests(), ["limit=500", watch, relist, watch]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_resumed_at_its_position() {
    let server = Server::new();
    some_pods(&server, 2);
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    server.requests();
    server.cut();
    server.put("a", "later", json!({}));
    up_to_date(&server, &informer).await;
    let requests = server.requests();
    assert!(
        requests.contains(&"watch=true&allowWatchBookmarks=true&resourceVersion=102".into()),
        "{requests:?}"
    );
    assert!(
        !requests
            .iter()
            .any(|request| request.contains("sendInitialEvents")),
        "{requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_resumed_at_the_position_of_the_last_bookmark() {
    let server = Server::new();
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    (0..5).for_each(|_| server.pass());
    server.bookmark();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(informer.position(), 105);
    server.compact();
    server.requests();
    server.end();
    sleep(Duration::from_secs(5)).await;
    let requests = server.requests();
    assert!(
        requests.contains(&"watch=true&allowWatchBookmarks=true&resourceVersion=105".into()),
        "{requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_relist_deletes_what_vanished() {
    for in_stream in [false, true] {
        let server = Server::new();
        some_pods(&server, 5);
        let (_factory, informer) = started(&server, interest(&["spec"])).await;
        let mut deltas = informer.subscribe();
        informer.synced().await;
        assert_eq!(deltas.next(100).await.unwrap().deltas.len(), 5);
        server.inner().holding = true;
        server.delete("a", "p2");
        server.put("a", "p3", json!({"spec": {"n": 33}}));
        server.compact();
        server.requests();
        if in_stream {
            server.error_event(410, "Expired")
        } else {
            server.cut()
        }
        sleep(Duration::from_secs(60)).await;
        assert_eq!(contents(&informer), server.contents());
        let relist = server
            .requests()
            .into_iter()
            .find(|request| request.contains("sendInitialEvents"))
            .unwrap();
        assert!(
            relist.ends_with("&resourceVersion=105"),
            "the list must not be older than the cache: {relist}"
        );
        let batch = deltas.next(100).await.unwrap();
        let mut types: Vec<_> = batch
            .deltas
            .iter()
            .map(|delta| (delta.object().name(), delta.delta_type()))
            .collect();
        types.sort_by_key(|(name, _)| *name);
        assert_eq!(
            types,
            [("p2", DeltaType::Deleted), ("p3", DeltaType::Modified)]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_receives_only_the_deltas_that_its_predicate_selects() {
    let server = Server::new();
    some_pods(&server, 2);
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    let mut deltas = informer.subscribe_to(|delta| delta.object().name() == "p1");
    let first = deltas.next(100).await.unwrap();
    assert!(first.initial_done && first.deltas.len() == 1, "{first:?}");
    server.put("a", "p0", json!({}));
    sleep(Duration::from_millis(1)).await;
    assert!(deltas.try_next(100).is_none());
    server.put("a", "p1", json!({}));
    let names: Vec<_> = deltas
        .next(100)
        .await
        .unwrap()
        .deltas
        .iter()
        .map(|delta| delta.object().key())
        .collect();
    assert_eq!(names, ["a/p1"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_between_pages_is_requested_in_one_page() {
    let server = Server::new();
    server.inner().no_stream_lists = true;
    some_pods(&server, 4);
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    // Expire the list between the first page and the second.
    while !server
        .inner()
        .requests
        .iter()
        .any(|request| request == "limit=500")
    {
        tokio::task::yield_now().await;
    }
    server.put("a", "new", json!({}));
    server.compact();
    informer.synced().await;
    up_to_date(&server, &informer).await;
    assert!(
        server.requests().contains(&String::new()),
        "the list is requested in one page"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_restored_from_a_backup_resets_the_cache() {
    let server = Server::new();
    some_pods(&server, 3);
    let backup = server.backup();
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    server.put("a", "p1", json!({"spec": {"n": 11}}));
    server.put("a", "lost", json!({}));
    server.delete("a", "p2");
    up_to_date(&server, &informer).await;
    let mut deltas = informer.subscribe();
    assert!(deltas.next(100).await.unwrap().initial_done);
    server.inner().unreachable = true;
    server.restore(backup);
    let waiting = tokio::spawn({
        let informer = informer.clone();
        async move { informer.wait_until(1_000_000).await }
    });
    sleep(Duration::from_secs(20)).await;
    server.inner().unreachable = false;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(contents(&informer), server.contents());
    assert_eq!(informer.position(), 103);
    assert!(
        waiting.is_finished(),
        "a wait for a version from before the restore ends"
    );
    let mut names: Vec<_> = deltas
        .next(100)
        .await
        .unwrap()
        .deltas
        .iter()
        .map(|delta| delta.object().name().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["lost", "p1", "p2"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_older_than_the_position_is_ignored_and_the_versions_are_verified() {
    let server = Server::new();
    some_pods(&server, 2);
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    server.requests();
    server.old_event(50);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(
        (informer.position(), contents(&informer)),
        (102, server.contents())
    );
    assert_eq!(
        server.requests()[0],
        "limit=1",
        "a consistent read shows whether versions went back"
    );
    sleep(Duration::from_secs(5)).await;
    assert!(
        server.requests()[0].contains("sendInitialEvents"),
        "the list is requested again"
    );
    server.put("a", "next", json!({}));
    up_to_date(&server, &informer).await;
}

#[tokio::test(start_paused = true)]
async fn requests_to_an_unreachable_server_back_off_and_the_cache_stays() {
    let server = Server::new();
    some_pods(&server, 2);
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    server.inner().unreachable = true;
    server.cut();
    server.requests();
    sleep(Duration::from_secs(120)).await;
    let requests = server.requests().len();
    assert!(
        (5..=12).contains(&requests),
        "{requests} requests in two minutes"
    );
    assert_eq!(contents(&informer).len(), 2);
    assert!(
        informer
            .status()
            .problem
            .unwrap()
            .contains("connection refused")
    );
    server.inner().unreachable = false;
    server.put("a", "back", json!({}));
    up_to_date(&server, &informer).await;
    assert_eq!(informer.status().problem, None);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_deleted_is_missing_until_it_is_served_again() {
    let server = Server::new();
    some_pods(&server, 1);
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    assert!(!informer.is_kind_missing());
    server.inner().kind_is_missing = true;
    server.cut();
    sleep(Duration::from_secs(120)).await;
    assert!(informer.is_kind_missing());
    server.inner().kind_is_missing = false;
    server.put("a", "new", json!({}));
    up_to_date(&server, &informer).await;
    assert!(!informer.is_kind_missing());
    server.inner().unreachable = true;
    server.cut();
    sleep(Duration::from_secs(120)).await;
    assert!(!informer.is_kind_missing(), "nobody knows");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_version_without_an_event_requests_a_bookmark() {
    let server = Server::new();
    some_pods(&server, 1);
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    (0..3).for_each(|_| server.pass());
    let fresh = informer.fresh_position().await.unwrap();
    assert_eq!(fresh, 104);
    // The cache has the object's last version already.
    let of_pod = informer.fresh_version_of("a", "p0").await.unwrap();
    assert!(of_pod <= informer.position(), "{of_pod}");
    assert_eq!(informer.fresh_version_of("a", "none").await.unwrap(), 104);
    let began = Instant::now();
    informer.wait_until(fresh).await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    server.put("a", "p", json!({}));
    up_to_date(&server, &informer).await;
}

#[tokio::test(start_paused = true)]
async fn the_scope_and_metadata_only_are_requested_from_the_server() {
    let server = Server::new();
    server.put("a", "web", json!({"metadata": {"labels": {"app": "web"}}}));
    server.put("a", "db", json!({"metadata": {"labels": {"app": "db"}}}));
    let scope = Scope {
        labels: "app=web".parse().unwrap(),
        ..Scope::default()
    };
    let (_factory, informer) = started(
        &server,
        flyball_cache::Interest {
            scope,
            metadata_only: true,
            ..interest(&[])
        },
    )
    .await;
    informer.synced().await;
    assert_eq!(contents(&informer), ["a/web=101"]);
    assert!(server.requests()[0].starts_with("labelSelector=app%3Dweb&watch=true"));
    assert_eq!(
        server.inner().accepts,
        [
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        ]
    );
    server.put("a", "web", json!({"metadata": {"labels": {"app": "db"}}}));
    sleep(Duration::from_millis(10)).await;
    assert!(contents(&informer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn json_is_requested_after_protobuf_that_cannot_be_decoded() {
    let server = Server::new();
    server.put("a", "p", json!({}));
    server.inner().protobuf = Some(b"\0\0\0\x02\x12\x00".to_vec());
    let (_factory, informer) = started(&server, interest(&[])).await;
    informer.synced().await;
    assert_eq!(contents(&informer), ["a/p=101"]);
    server.end();
    server.put("a", "q", json!({}));
    up_to_date(&server, &informer).await;
    let accepts = server.inner().accepts.clone();
    assert_eq!(
        accepts[..2],
        [
            "application/vnd.kubernetes.protobuf,application/json",
            "application/json"
        ]
    );
    assert!(
        accepts.len() > 2
            && accepts[2..]
                .iter()
                .all(|accept| !accept.contains("protobuf")),
        "{accepts:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wider_mask_is_listed_once_and_sends_no_deltas_to_others() {
    let server = Server::new();
    some_pods(&server, 3);
    let (factory, narrow) = started(&server, interest(&["spec"])).await;
    let mut deltas = narrow.subscribe();
    narrow.synced().await;
    assert!(deltas.next(100).await.unwrap().initial_done);
    server.requests();
    let status = factory.informer(interest(&["status"]));
    let data = factory.informer(interest(&["data"]));
    let mut joined = status.subscribe();
    assert!(!status.is_synced() && narrow.is_synced());
    assert!(
        timeout(Duration::from_millis(50), joined.next(100))
            .await
            .is_err(),
        "no snapshot is sent before the mask is wide enough"
    );
    status.synced().await;
    assert!(data.is_synced());
    assert_eq!(joined.next(100).await.unwrap().deltas.len(), 3);
    assert_eq!(server.requests().len(), 1);
    assert!(
        timeout(Duration::from_secs(5), deltas.next(100))
            .await
            .is_err(),
        "no delta is sent without a change"
    );
    assert!(
        narrow
            .status()
            .mask
            .covers(&Mask::parse(["spec", "status", "data"]).unwrap())
    );
    let later = factory.informer(interest(&["other"]));
    later.synced().await;
    server.put("a", "p1", json!({"spec": {}}));
    assert_eq!(deltas.next(100).await.unwrap().deltas.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_stops_the_reflector() {
    let server = Server::new();
    let (factory, informer) = started(&server, interest(&["spec"])).await;
    let rider = factory.informer(flyball_cache::Interest {
        metadata_only: true,
        ..interest(&["metadata.labels"])
    });
    informer.synced().await;
    rider.synced().await;
    assert_eq!((factory.status().len(), server.watchers()), (1, 1));
    let mut deltas = rider.subscribe();
    assert!(deltas.next(1).await.unwrap().initial_done);
    drop(informer);
    sleep(Duration::from_secs(1)).await;
    assert_eq!((factory.status().len(), server.watchers()), (1, 1));
    drop(rider);
    sleep(Duration::from_secs(1)).await;
    assert_eq!((factory.status().len(), server.watchers()), (0, 0));
    assert!(deltas.next(1).await.is_none());
    factory.shutdown().await;
}
