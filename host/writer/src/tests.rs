//! The order of a write: grant, fence, rate limiter, request, overlay. The API server is a fake, and time is paused.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use flyball_api::fence::{self, Fence, Term};
use flyball_cache::{Discovery, Source};
use flyball_fakes::server::{Log, Reply, serve};
use flyball_fakes::source::informer;
use flyball_plugin::{Budget, Limits, Target};
use flyball_policy::Policy;
use flyball_reads::cached::SharedReads;
use flyball_types::Effect;
use flyball_types::description::Description;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::check::{MAX_BODY, check_subresource};
use super::*;

const POLICY: &str = "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"create\", \"delete\", \"get\", \"update\", \"watch\"]\n\
                      namespaces = [\"demo\"]\n";
const PODS: &str = "POST /api/v1/namespaces/demo/pods";

/// A writer with a server that creates each object at version 20, and refuses pods named `bad`.
struct Fixture {
    writer: Writer,
    cached: Arc<CachedReads>,
    fence: Arc<Fence>,
    log: Log,
    stop: Arc<StopSignal>,
}

impl Fixture {
    async fn new(fence: Fence, rate: RateLimiter) -> Self {
        Self::with_policy(POLICY, fence, rate).await
    }

    async fn with_policy(policy: &str, fence: Fence, rate: RateLimiter) -> Self {
        Self::with_fields(&["spec"], policy, fence, rate).await
    }

    /// With a cache of these fields.
    async fn with_fields(fields: &[&str], policy: &str, fence: Fence, rate: RateLimiter) -> Self {
        let (connection, log) = serve(|request| {
            let mut object = request.body.clone();
            if object["metadata"]["name"] == "bad" {
                return Reply::refusal(422, "Invalid");
            }
            object["metadata"]["resourceVersion"] = "20".into();
            Reply::Json(201, object)
        });
        let (informer, source): (_, Arc<dyn Source>) = informer(Vec::new(), fields).await;
        let policy = Policy::parse(Path::new("policy.toml"), policy).expect("a policy");
        let policy = Arc::new(policy.plugins["a"].clone());
        let discovery = Arc::new(Discovery::new(source));
        let cached = Arc::new(CachedReads::new(
            &Description::default(),
            policy.clone(),
            [&informer],
            discovery.clone(),
            1 << 20,
            SharedReads::default(),
        ));
        let (fence, stop) = (Arc::new(fence), Arc::<StopSignal>::default());
        let client = ApiClient::new(connection, None, "test", fence.clone());
        Self {
            writer: Writer::new(
                client,
                Arc::new(PluginDiscovery::new(
                    discovery,
                    RateLimiter::new(0.0, 1),
                    None,
                )),
                policy,
                rate,
                cached.clone(),
                Budget::new(1 << 20),
                stop.clone(),
            ),
            cached,
            fence,
            log,
            stop,
        }
    }

    async fn create(&self, namespace: &str, name: &str) -> Result<Bytes, ApiError> {
        let mut results = self.run(vec![create(namespace, name)]).await;
        results.remove(0)
    }

    async fn run(&self, writes: Vec<Write>) -> Vec<Result<Bytes, ApiError>> {
        self.run_in(&Journal::default(), writes).await
    }

    async fn run_in(&self, journal: &Journal, writes: Vec<Write>) -> Vec<Result<Bytes, ApiError>> {
        let batch = Batch {
            writes: writes.into_iter().map(Ok).collect(),
            slow_start: None,
            stop_on_error: false,
        };
        let count = batch.writes.len();
        let results = match self.writer.prepare(batch, &Allowance::of_host()).await {
            Ok(batch) => self.writer.run(batch, journal).await,
            Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
        };
        let bytes = |result: Result<Held, ApiError>| result.map(|held| held.bytes);
        results.into_iter().map(bytes).collect()
    }

    fn sees(&self, name: &str) -> bool {
        let found = self.cached.get("v1/Pod", "demo", name, &[]);
        found.expect("the plugin watches pods").is_some()
    }
}

fn create(namespace: &str, name: &str) -> Write {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "uid": name}, "spec": {},
    });
    Write {
        target: Target {
            kind: "v1/Pod".into(),
            namespace: namespace.into(),
            name: String::new(),
            subresource: String::new(),
        },
        operation: Operation::Create {
            object: object.to_string().into(),
        },
        options: Default::default(),
        returns: Vec::new(),
    }
}

/// An update of the pod `web`, whose whole object is not in the cache.
fn update(resource_version: &str) -> Write {
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    Write {
        operation: Operation::Update {
            resource_version: resource_version.into(),
            change: change.to_string().into(),
        },
        target: Target {
            name: "web".into(),
            ..create("demo", "").target
        },
        ..create("demo", "")
    }
}

fn unlimited() -> RateLimiter {
    RateLimiter::new(0.0, 1)
}

#[tokio::test]
async fn an_acknowledged_write_is_seen_by_the_next_read_and_a_refused_one_is_not() {
    let fixture = Fixture::new(Fence::open(), unlimited()).await;
    assert!(!fixture.sees("web"));
    fixture.create("demo", "web").await.unwrap();
    assert_eq!(fixture.log.take(), [PODS]);
    assert!(fixture.sees("web"));
    assert_eq!(fixture.create("demo", "bad").await.unwrap_err().status, 422);
    assert!(!fixture.sees("bad"));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_not_granted_sends_nothing_and_takes_no_token() {
    let fixture = Fixture::new(Fence::open(), RateLimiter::new(1.0, 1)).await;
    let start = Instant::now();
    for _ in 0..10 {
        let denied = fixture.create("other", "web").await.unwrap_err();
        assert_eq!(denied.reason, "Denied");
    }
    let mut patch = create("demo", "web");
    patch.target.name = "web".into();
    patch.operation = Operation::Patch {
        patch_type: "merge".into(),
        patch: "{}".into(),
    };
    let denied = fixture.run(vec![patch]).await.remove(0).unwrap_err();
    assert_eq!(denied.reason, "Denied");
    assert!(fixture.log.take().is_empty());
    fixture.create("demo", "web").await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_a_batch_wait_for_the_rate_limiter() {
    let fixture = Fixture::new(Fence::open(), RateLimiter::new(10.0, 1)).await;
    let start = Instant::now();
    let names = (0..6).map(|number| create("demo", &format!("web-{number}")));
    let results = fixture.run(names.collect()).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let took = start.elapsed().as_millis();
    assert!((499..=520).contains(&took), "{took} ms");
    assert_eq!(fixture.log.take(), [PODS; 6]);
}

#[tokio::test(start_paused = true)]
async fn each_request_of_an_update_takes_a_token_and_none_is_sent_after_a_stop() {
    const GET: &str = "GET /api/v1/namespaces/demo/pods/web";
    const PUT: &str = "PUT /api/v1/namespaces/demo/pods/web";
    let fixture = Fixture::new(Fence::open(), RateLimiter::new(10.0, 1)).await;
    let start = Instant::now();
    let stale = fixture.run(vec![update("1"); 6]).await;
    for conflict in stale {
        assert_eq!(conflict.unwrap_err().reason, "Conflict");
    }
    assert_eq!(fixture.log.take(), [GET; 6]);
    fixture.run(vec![update("20")]).await.remove(0).unwrap();
    assert_eq!(fixture.log.take(), [GET, PUT]);
    let took = start.elapsed().as_millis();
    assert!((699..=730).contains(&took), "{took} ms");
    fixture.stop.end();
    let stopped = fixture.run(vec![update("20")]).await.remove(0);
    assert!(stopped.unwrap_err().is_skipped() && fixture.log.take().is_empty());
}

#[tokio::test]
async fn an_update_of_what_the_cache_shows_to_have_changed_conflicts_without_a_request() {
    let status = |name: &str, resource_version: &str| Write {
        operation: Operation::UpdateStatus {
            resource_version: resource_version.into(),
            status: "{}".into(),
            metadata: Bytes::new(),
        },
        target: Target {
            name: name.into(),
            ..create("demo", "").target
        },
        ..create("demo", "")
    };
    let policy = "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"create\", \"watch\"]\n\
                  [[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nsubresource = \"status\"\nverbs = [\"update\"]\n";
    let fixture = Fixture::with_fields(&["metadata"], policy, Fence::open(), unlimited()).await;
    fixture.create("demo", "web").await.unwrap();
    assert_eq!(fixture.log.take(), [PODS]);
    for (name, version) in [("web", "19"), ("gone", "19")] {
        let conflict = fixture.run(vec![status(name, version)]).await.remove(0);
        assert_eq!(conflict.unwrap_err().reason, "Conflict", "{name}");
    }
    assert!(fixture.log.take().is_empty());
    let written = fixture.run(vec![status("web", "20")]).await.remove(0);
    written.unwrap();
    assert_eq!(
        fixture.log.take(),
        ["PUT /api/v1/namespaces/demo/pods/web/status"]
    );
}

#[tokio::test]
async fn a_fenced_write_sends_nothing_and_is_not_seen() {
    let fixture = Fixture::new(Fence::closed(), unlimited()).await;
    let fenced = fixture.create("demo", "web").await.unwrap_err();
    assert_eq!(fenced.reason, "Fenced");
    assert!(fixture.log.take().is_empty() && !fixture.sees("web"));
    let now = fence::now();
    fixture.fence.lead(Term {
        start_until: now + Duration::from_secs(10),
        end_until: now + Duration::from_secs(15),
    });
    fixture.create("demo", "web").await.unwrap();
    assert!(fixture.sees("web"));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waited_for_the_rate_limiter_past_the_lease_is_fenced() {
    let fixture = Fixture::new(Fence::open(), RateLimiter::new(1.0, 1)).await;
    fixture.create("demo", "first").await.unwrap();
    let lose = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        fixture.fence.close();
    };
    let (second, ()) = futures::join!(fixture.create("demo", "second"), lose);
    assert_eq!(second.unwrap_err().reason, "Fenced");
    assert_eq!(fixture.log.take(), [PODS]);
}

#[test]
fn a_status_is_written_by_update_status_alone() {
    let update = Operation::Update {
        resource_version: "1".into(),
        change: Bytes::new(),
    };
    let update_status = Operation::UpdateStatus {
        resource_version: "1".into(),
        status: Bytes::new(),
        metadata: Bytes::new(),
    };
    let check = |operation: &Operation, subresource: &str| {
        let write = Write {
            target: Target {
                kind: "v1/Pod".into(),
                namespace: "a".into(),
                name: "b".into(),
                subresource: subresource.into(),
            },
            operation: operation.clone(),
            options: Bytes::new(),
            returns: Vec::new(),
        };
        check_subresource(&write).map_err(|error| error.reason)
    };
    assert_eq!(check(&update, ""), Ok(()));
    assert_eq!(check(&update, "scale"), Ok(()));
    assert_eq!(check(&update, "status"), Err("Invalid".into()));
    assert_eq!(check(&update_status, ""), Ok(()));
    assert_eq!(check(&update_status, "status"), Err("Invalid".into()));
    assert_eq!(check(&update_status, "scale"), Err("Invalid".into()));
}

#[tokio::test]
async fn a_subresource_must_be_one_of_its_kind() {
    let policy =
        "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nsubresource = \"*\"\nverbs = [\"create\"]\n";
    let fixture = Fixture::with_policy(policy, Fence::open(), unlimited()).await;
    let create = |subresource: &str| {
        let mut write = create("demo", "");
        write.target.name = "web".into();
        write.target.subresource = subresource.into();
        write
    };
    for (subresource, is_served) in [("eviction", true), ("status", true), ("secrets", false)] {
        let result = fixture.run(vec![create(subresource)]).await.remove(0);
        let expected = format!("{PODS}/web/{subresource}");
        if is_served {
            assert!(result.is_ok(), "{result:?}");
            assert_eq!(fixture.log.take(), [expected]);
        } else {
            let error = result.unwrap_err();
            assert_eq!(error.reason, "Invalid");
            assert!(
                error.message.contains("no subresource `secrets`"),
                "{error}"
            );
            assert!(fixture.log.take().is_empty());
        }
    }
}

#[tokio::test]
async fn an_update_of_a_subresource_of_another_kind_puts_what_a_get_of_it_returned() {
    let policy = "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nsubresource = \"scale\"\nverbs = [\"get\", \"update\"]\n\
                  [[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nsubresource = \"resize\"\nverbs = [\"update\"]\n\
                  [[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"get\"]\n";
    let fixture = Fixture::with_policy(policy, Fence::open(), unlimited()).await;
    let scale = |version: &str, subresource: &str| {
        let mut write = update(version);
        write.target.subresource = subresource.into();
        let change = json!({"spec": {"replicas": 3}}).to_string().into();
        write.operation = Operation::Update {
            resource_version: version.into(),
            change,
        };
        write
    };
    let pod = "/api/v1/namespaces/demo/pods/web";
    let result = fixture.run(vec![scale("20", "scale")]).await.remove(0);
    result.unwrap();
    let requests = fixture.log.take_requests();
    let lines: Vec<_> = requests
        .iter()
        .map(|request| format!("{} {}", request.method, request.path))
        .collect();
    assert_eq!(
        lines,
        [format!("GET {pod}/scale"), format!("PUT {pod}/scale")]
    );
    assert_eq!(
        requests[1].body,
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"resourceVersion": "20"}, "spec": {"replicas": 3}})
    );
    // A subresource of the same kind is the object itself.
    let result = fixture.run(vec![scale("20", "resize")]).await.remove(0);
    result.unwrap();
    let requests = fixture.log.take_requests();
    assert_eq!(requests[0].path, pod);
    assert_eq!(requests[1].body["kind"], "Pod");
    // The version belongs to the Scale.
    let stale = fixture.run(vec![scale("1", "scale")]).await.remove(0);
    assert_eq!(stale.unwrap_err().reason, "Conflict");
    assert_eq!(fixture.log.take(), [format!("GET {pod}/scale")]);
    // The whole Scale is read, which takes a grant.
    let policy = policy.replacen("\"get\", \"update\"", "\"update\"", 1);
    let fixture = Fixture::with_policy(&policy, Fence::open(), unlimited()).await;
    let denied = fixture.run(vec![scale("20", "scale")]).await.remove(0);
    assert_eq!(denied.unwrap_err().reason, "Denied");
    assert!(fixture.log.take().is_empty());
}

/// The next reconcile must see every acknowledged write. What the overlay can't have, the key waits for.
#[tokio::test]
async fn a_write_that_the_overlay_can_t_show_makes_its_key_wait() {
    let policy = "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"create\", \"deletecollection\", \"get\", \"watch\"]\n\
                  [[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nsubresource = \"*\"\nverbs = [\"create\", \"get\", \"update\"]\n";
    let fixture = Fixture::with_policy(policy, Fence::open(), unlimited()).await;
    let below = |subresource: &str, operation: Operation| {
        let mut write = update("20");
        write.target.subresource = subresource.into();
        write.operation = operation;
        write
    };
    let created = |object: Value| Operation::Create {
        object: object.to_string().into(),
    };
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}});
    let change = json!({"spec": {"replicas": 3}}).to_string().into();
    let scale = Operation::Update {
        resource_version: "20".into(),
        change,
    };
    let collection = Operation::DeleteCollection {
        label_selector: String::new(),
        field_selector: String::new(),
    };
    let mut all = below("", collection);
    all.target.name = String::new();
    let untyped =
        json!({"metadata": {"namespace": "demo", "name": "untyped", "uid": "u"}, "spec": {}});
    let mut plain = create("demo", "");
    plain.operation = created(untyped);
    for (write, is_unseen) in [
        (below("scale", scale), true),
        (below("eviction", created(eviction)), true),
        (all, true),
        (create("demo", "typed"), false),
        // An answer that lacks its kind is the object all the same.
        (plain, false),
    ] {
        let journal = Journal::default();
        let what = format!("{write:?}");
        let result = fixture.run_in(&journal, vec![write]).await.remove(0);
        result.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(!journal.take_unseen().is_empty(), is_unseen, "{what}");
    }
    assert!(fixture.sees("typed") && fixture.sees("untyped"));
}

#[tokio::test]
async fn a_deletecollection_selects_only_by_fields_that_the_plugin_reads() {
    let policy = "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"list\"]\nfields = [\"metadata.labels\"]\n\
                  [[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"deletecollection\"]\n";
    let fixture = Fixture::with_policy(policy, Fence::open(), unlimited()).await;
    for (labels, fields, is_allowed) in [
        ("", "", true),
        ("a=b", "", true),
        ("", "metadata.name=web", true),
        ("", "spec.nodeName=n", false),
        ("a=b", "metadata.name=web,spec.nodeName=n", false),
    ] {
        let write = Write {
            operation: Operation::DeleteCollection {
                label_selector: labels.into(),
                field_selector: fields.into(),
            },
            ..create("demo", "")
        };
        let result = fixture.run(vec![write]).await.remove(0);
        assert_eq!(
            !fixture.log.take().is_empty(),
            is_allowed,
            "{labels} {fields}"
        );
        let denied = result.err().is_some_and(|error| error.reason == "Denied");
        assert_eq!(denied, !is_allowed, "{labels} {fields}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_stopped_starts_no_further_write() {
    for ends in [true, false] {
        let fixture = Fixture::new(Fence::open(), RateLimiter::new(5.0, 5)).await;
        let stop = fixture.stop.clone();
        let start = tokio::time::Instant::now();
        let writes = (0..100)
            .map(|n| create("demo", &format!("pod-{n}")))
            .collect();
        let stopping = async {
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            if ends { stop.end() } else { stop.stop() }
        };
        let (results, ()) = tokio::join!(fixture.run(writes), stopping);
        let skipped = |result: &Result<Bytes, ApiError>| {
            result.as_ref().is_err_and(|error| error.is_skipped())
        };
        let count = results.iter().filter(|result| skipped(result)).count();
        assert!(count >= 90, "{count}");
        assert_eq!(fixture.log.take().len(), results.len() - count);
        assert!(start.elapsed() < std::time::Duration::from_secs(1));
        // A stop applies to writes that have begun; an end also applies to later ones.
        assert_eq!(fixture.create("demo", "later").await.is_ok(), !ends);
    }
}

#[tokio::test]
async fn a_batch_or_a_body_that_is_too_large_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new(Fence::open(), RateLimiter::new(0.0, 1)).await;
    let results = fixture.run(vec![create("demo", "a"); MAX_WRITES + 1]).await;
    assert_eq!(results.len(), MAX_WRITES + 1);
    for error in results.into_iter().map(Result::unwrap_err) {
        assert_eq!(
            (error.reason.as_str(), error.effect),
            ("Full", Effect::None)
        );
    }
    let large = Write {
        operation: Operation::Create {
            object: vec![b' '; MAX_BODY + 1].into(),
        },
        ..create("demo", "a")
    };
    let error = fixture.run(vec![large]).await.remove(0).unwrap_err();
    assert!(
        error.message.contains("more than the limit of 3145728"),
        "{error}"
    );
    assert!(fixture.log.take().is_empty());
}

/// A hundredth of a core, with hardly any burst.
fn small_quota() -> Quota {
    let limits = Limits {
        cpu_share: Some(10),
        cpu_burst: Duration::from_micros(1),
        ..Limits::default()
    };
    Quota::new(&limits).expect("the limits have a quota")
}

#[tokio::test(start_paused = true)]
async fn reading_an_answer_is_charged_and_delays_the_next_request_of_the_plugin() {
    for bytes in [100, 256 << 10] {
        let mut a = Fixture::new(Fence::open(), RateLimiter::new(1000.0, 1000)).await;
        let quota = small_quota();
        a.writer = a.writer.charged_to(Some(quota.clone()));
        let mut large = create("demo", "web");
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "demo", "name": "web", "uid": "web"},
            "spec": {"containers": ["a".repeat(bytes)]},
        });
        large.operation = Operation::Create {
            object: object.to_string().into(),
        };
        large.returns = vec![".".into()];
        let began = Instant::now();
        quota.wait().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        let answers = a.run(vec![large]).await;
        assert!(answers[0].as_ref().is_ok_and(|answer| answer.len() > bytes));
        // The plugin sees the write at once, and pays for it afterwards.
        assert!(a.sees("web"));
        assert_eq!(began.elapsed(), Duration::ZERO);
        a.create("demo", "next").await.expect("it is created");
        assert!(
            began.elapsed() > Duration::ZERO,
            "an answer of {bytes} bytes"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_has_overdrawn_its_quota_is_stopped_at_once() {
    let mut a = Fixture::new(Fence::open(), RateLimiter::new(1000.0, 1000)).await;
    let quota = small_quota();
    a.writer = a.writer.charged_to(Some(quota.clone()));
    quota
        .charge(async {
            let began = std::time::Instant::now();
            while began.elapsed() < Duration::from_millis(20) {}
        })
        .await;
    let stop = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        a.stop.stop();
    };
    let (created, ()) = tokio::join!(a.create("demo", "web"), stop);
    created.expect_err("the plugin is stopped");
    assert!(a.log.take().is_empty());
}
