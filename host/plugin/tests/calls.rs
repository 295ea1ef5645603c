//! Successful calls: the data that crosses the boundary, and how instances are created, reused and dropped.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use flyball_plugin::{CallFailure, Delta, Limit, Outcome, Plugin, RoutedKey};
use flyball_types::description::DeltaType;
use support::{Fake, engine_with, plain, plugin, plugin_of, plugin_with};

fn requeue(ms: u64) -> Outcome {
    Outcome::RequeueAfter(Duration::from_millis(ms))
}

/// Reconciles a key with plain imports. The call must succeed.
async fn reconcile(plugin: &Plugin, key: &str) -> Outcome {
    plugin.reconcile(plain(), "queue", key, 0).await.unwrap()
}

#[tokio::test]
async fn describe_returns_the_document_of_the_guest() {
    assert_eq!(
        plugin().await.describe(plain()).await.unwrap(),
        br#"{"name":"a guest"}"#
    );
}

#[tokio::test]
async fn each_outcome_is_returned() {
    let plugin = plugin().await;
    assert_eq!(reconcile(&plugin, "done").await, Outcome::Done);
    assert_eq!(reconcile(&plugin, "calls").await, requeue(2));
    assert_eq!(
        reconcile(&plugin, "fail").await,
        Outcome::Failed("it went wrong".into())
    );
    assert_eq!(
        reconcile(&plugin, "terminal").await,
        Outcome::Terminal("it went wrong".into())
    );
}

/// A delta whose new object is this text.
fn delta(object: &str) -> Delta {
    Delta {
        watch: "v1/Pod".into(),
        delta_type: DeltaType::Added,
        old: None,
        new: Some(object.to_owned().into()),
        initial: false,
    }
}

#[tokio::test]
async fn route_turns_deltas_into_keys_or_fails_or_traps() {
    let plugin = plugin().await;
    let deltas = vec![delta("[1]"), delta("[2]")];
    let routed = plugin.route(plain(), deltas).await.unwrap().unwrap();
    let key = |key: &str| RoutedKey {
        queue: "default".into(),
        key: key.into(),
        delay: Duration::from_millis(7),
    };
    assert_eq!(routed, [key("[1]"), key("[2]")]);
    assert_eq!(
        plugin.route(plain(), vec![delta("?")]).await.unwrap(),
        Err("it went wrong".into())
    );
    let error = plugin.route(plain(), vec![delta("!")]).await.unwrap_err();
    assert!(
        error.to_string().starts_with("route of 1 deltas trapped: "),
        "{error}"
    );
}

#[tokio::test]
async fn a_guest_receives_the_results_of_its_imports() {
    let plugin = plugin().await;
    assert_eq!(reconcile(&plugin, "get").await, requeue(14));
    let large = Fake::new(|fake| fake.object = vec![b' '; 3 << 20]);
    assert_eq!(
        plugin.reconcile(large, "queue", "page", 0).await.unwrap(),
        requeue(3 << 20)
    );
}

#[tokio::test]
async fn a_batch_has_the_writes_that_the_guest_added() {
    let imports = plain();
    let outcome = plugin()
        .await
        .reconcile(imports.clone(), "queue", "write", 0)
        .await
        .unwrap();
    assert_eq!(outcome, requeue(3));
    let batches = imports.batches.lock().unwrap();
    assert_eq!((batches.len(), batches[0].writes.len()), (1, 3));
    let target = &batches[0].writes[2].as_ref().unwrap().target;
    assert_eq!(
        (&target.kind[..], &target.namespace[..], &target.name[..]),
        ("v1/Pod", "default", "default")
    );
}

/// Whether an instance takes a little more than its linear memory and its stack.
fn is_about(memory: usize, linear: usize) -> bool {
    let stack = 1 << 20;
    (linear + stack + 1000..linear + stack + 65536).contains(&memory)
}

#[tokio::test]
async fn instances_are_reused_until_a_call_fails() {
    let plugin = plugin().await;
    for call in 1..=3 {
        assert_eq!(reconcile(&plugin, "calls").await, requeue(call));
    }
    plugin
        .reconcile(plain(), "queue", "unreachable", 0)
        .await
        .unwrap_err();
    assert_eq!((plugin.stats().live, plugin.stats().memory), (0, 0));
    assert_eq!(reconcile(&plugin, "calls").await, requeue(1));
    let stats = plugin.stats();
    assert_eq!(
        (
            stats.live,
            stats.idle,
            stats.instantiated,
            stats.calls,
            stats.failures
        ),
        (1, 1, 2, 5, 1)
    );
    assert!(is_about(stats.memory, 2 * 65536), "{stats:?}");
    assert!(stats.cpu > Duration::ZERO);
}

#[tokio::test]
async fn an_instance_is_dropped_after_its_maximum_number_of_calls() {
    let plugin = plugin_with(|limits| limits.recycle_calls = 2).await;
    let mut outcomes = Vec::new();
    for _ in 0..5 {
        outcomes.push(reconcile(&plugin, "calls").await);
    }
    assert_eq!(outcomes, [1, 2, 1, 2, 1].map(requeue));
}

#[tokio::test]
async fn an_instance_is_dropped_when_its_memory_has_grown() {
    let plugin = plugin_with(|limits| limits.recycle_growth = 3 << 20).await;
    let grow = async |by| {
        plugin
            .reconcile(plain(), "queue", "Grow", by)
            .await
            .unwrap()
    };
    grow(2).await;
    let stats = plugin.stats();
    assert!(
        stats.idle == 1 && is_about(stats.memory, 2 * 65536 + (2 << 20)),
        "{stats:?}"
    );
    grow(2).await;
    assert_eq!((plugin.stats().live, plugin.stats().memory), (0, 0));
}

#[tokio::test]
async fn memory_that_costs_more_than_a_new_instance_is_not_kept() {
    let plugin = plugin_with(|limits| limits.idle_growth = 1 << 20).await;
    let call = async |key, attempt| {
        plugin
            .reconcile(plain(), "queue", key, attempt)
            .await
            .unwrap();
        plugin.stats().idle
    };
    assert_eq!(call("Work", 100).await, 1, "it has not grown");
    assert_eq!(call("Grow", 2).await, 1, "the call was short");
    assert_eq!(call("Work", 100).await, 0);
}

#[tokio::test]
async fn idle_instances_are_trimmed() {
    let plugin = plugin().await;
    reconcile(&plugin, "done").await;
    assert_eq!(plugin.trim_idle(Duration::from_secs(60)), 0);
    assert_eq!(plugin.trim_idle(Duration::ZERO), 1);
    assert_eq!(plugin.stats().live, 0);
    assert_eq!(reconcile(&plugin, "calls").await, requeue(1));
}

#[tokio::test]
async fn max_instances_limits_the_calls_that_run_at_once() {
    let plugin = plugin_with(|limits| limits.max_instances = 4).await;
    let imports = Fake::new(|fake| fake.delay = Duration::from_millis(50));
    let calls = (0..12).map(|_| plugin.reconcile(imports.clone(), "queue", "raw", 1));
    for outcome in futures::future::join_all(calls).await {
        assert_eq!(outcome.unwrap(), requeue(1));
    }
    let stats = plugin.stats();
    assert_eq!((stats.instantiated, stats.idle), (4, 4));
}

#[tokio::test]
async fn idle_instances_are_evicted_when_another_plugin_needs_their_slots() {
    let engine = engine_with(|options| options.max_instances = 2);
    let first = plugin_of(&engine, |_| ()).await;
    let second = plugin_of(&engine, |_| ()).await;
    let slow = Fake::new(|fake| fake.delay = Duration::from_millis(20));
    let calls_of_first = || {
        (0..6)
            .map(|_| first.reconcile(slow.clone(), "q", "raw", 1))
            .collect::<Vec<_>>()
    };
    futures::future::join_all(calls_of_first())
        .await
        .into_iter()
        .for_each(|outcome| assert!(outcome.is_ok()));
    assert_eq!(first.stats().live, 2);
    assert_eq!(reconcile(&second, "calls").await, requeue(1));
    // If none is idle, the next instance that ends its call is dropped.
    let (of_first, of_second) = futures::join!(
        futures::future::join_all(calls_of_first()),
        second.reconcile(slow.clone(), "q", "raw", 3)
    );
    assert_eq!(of_second.unwrap(), requeue(3));
    of_first
        .into_iter()
        .for_each(|outcome| assert!(outcome.is_ok()));
    assert!(first.stats().live + second.stats().live <= 2);
}

#[tokio::test]
async fn a_plugin_is_starved_while_its_calls_wait_for_slots_in_vain() {
    let engine = engine_with(|options| options.max_instances = 2);
    let (holder, waiter) = (
        plugin_of(&engine, |_| ()).await,
        plugin_of(&engine, |limits| {
            limits.wall_per_call = Duration::from_millis(200)
        })
        .await,
    );
    let hanging = Fake::new(|fake| fake.hangs = true);
    let hold = || {
        let (holder, hanging) = (holder.clone(), hanging.clone());
        tokio::spawn(async move { holder.reconcile(hanging, "q", "raw", 1).await })
    };
    let holds = [hold(), hold()];
    while hanging.raws.load(SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let waits = waiter.reconcile(plain(), "q", "calls", 1);
    let seen = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        waiter.stats().starved
    };
    let (error, starved) = futures::join!(waits, seen);
    let failure = error.unwrap_err().failure;
    assert!(matches!(failure, CallFailure::NoSlot { .. }), "{failure:?}");
    assert!(
        (50..200).contains(&starved.as_millis()),
        "starved for {starved:?}"
    );
    // Nobody waits any more.
    assert_eq!(waiter.stats().starved, Duration::ZERO);
    assert_eq!(holder.stats().starved, Duration::ZERO);
    // The call gets the slot that another one gives back.
    let served = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        holds[0].abort();
    };
    let (outcome, ()) = futures::join!(waiter.reconcile(plain(), "q", "calls", 1), served);
    assert_eq!(outcome.unwrap(), requeue(1));
    assert_eq!(waiter.stats().starved, Duration::ZERO);
    holds[1].abort();
}

#[tokio::test]
async fn dropping_a_call_stops_it_and_drops_its_instance() {
    let plugin = plugin().await;
    let imports = Fake::new(|fake| fake.hangs = true);
    let call = plugin.reconcile(imports.clone(), "queue", "raw", 1);
    let started = async {
        while imports.raws.load(SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = call => panic!("the call returned"),
        () = started => {}
    }
    while plugin.stats().live > 0 || Arc::strong_count(&imports) > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(reconcile(&plugin, "calls").await, requeue(1));
}

#[tokio::test]
async fn imports_are_dropped_when_their_call_ends() {
    let plugin = plugin().await;
    let imports = plain();
    for key in ["done", "page", "keep", "unreachable", "write"] {
        let _ = plugin.reconcile(imports.clone(), "queue", key, 0).await;
        assert_eq!(Arc::strong_count(&imports), 1, "{key}");
    }
}

#[tokio::test]
async fn reads_of_a_batch_run_concurrently_up_to_a_bound() {
    let plugin = plugin().await;
    let imports = Fake::new(|fake| fake.hangs = true);
    let (call, reading) = (plugin.clone(), imports.clone());
    let call = tokio::spawn(async move { call.reconcile(reading, "queue", "all", 20).await });
    while imports.raws.load(SeqCst) < 16 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    while Arc::strong_count(&imports) > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(imports.raws.load(SeqCst), 16);
}

#[tokio::test]
async fn each_result_of_a_batch_beyond_the_size_limit_is_an_error() {
    let plugin = plugin_with(|limits| limits.answer_bytes = 30).await;
    let imports = plain();
    let outcome = plugin.reconcile(imports.clone(), "queue", "all", 3).await;
    assert_eq!(outcome.unwrap(), requeue(2));
    assert_eq!(imports.raws.load(SeqCst), 3);
    assert_eq!(plugin.stats().hits.of(Limit::Answer), 1);
}

#[tokio::test]
async fn a_cursor_can_not_be_used_after_its_call() {
    let plugin = plugin().await;
    assert_eq!(reconcile(&plugin, "keep").await, Outcome::Done);
    let error = plugin
        .reconcile(plain(), "queue", "keep", 0)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("a cursor of an earlier call"),
        "{error}"
    );
}

#[tokio::test]
async fn a_panic_of_the_imports_fails_only_its_call() {
    let plugin = plugin().await;
    let error = plugin
        .reconcile(Fake::new(|fake| fake.panics = true), "queue", "o", 0)
        .await
        .unwrap_err();
    assert!(
        matches!(&error.failure, CallFailure::Host(message) if message.contains("a fault of the imports")),
        "{error}"
    );
    assert_eq!(reconcile(&plugin, "o").await, Outcome::Done);
    assert_eq!(plugin.stats().live, 1);
}

#[test]
fn the_engine_can_be_dropped_on_any_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let plugin = plugin().await;
        assert_eq!(reconcile(&plugin, "done").await, Outcome::Done);
        let imports = Fake::new(|fake| fake.hangs = true);
        let hanging = tokio::spawn({
            let (plugin, imports) = (plugin.clone(), imports.clone());
            async move { plugin.reconcile(imports, "queue", "raw", 1).await }
        });
        while imports.raws.load(SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        drop(plugin);
        hanging.abort();
        assert!(hanging.await.unwrap_err().is_cancelled());
        while Arc::strong_count(&imports) > 1 {
            tokio::task::yield_now().await;
        }
    });
}
