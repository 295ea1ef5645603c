//! The limits: a guest can't compute endlessly, allocate memory endlessly, or block others.

mod support;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use flyball_plugin::{CallError, CallFailure, Limit, Outcome, Plugin};
use support::{Fake, engine_with, plain, plugin, plugin_of, plugin_with};

/// Reconciles a key, which must fail. The next reconcile must succeed.
async fn fail(plugin: &Plugin, key: &str) -> CallError {
    let error = plugin
        .reconcile(plain(), "queue", key, 0)
        .await
        .unwrap_err();
    assert_eq!(plugin.stats().live, 0, "the instance was not dropped");
    assert_eq!(
        plugin.reconcile(plain(), "queue", "done", 0).await.unwrap(),
        Outcome::Done
    );
    error
}

#[tokio::test]
async fn a_loop_is_stopped_at_the_cpu_limit() {
    let limit = Duration::from_millis(60);
    let plugin = plugin_with(|limits| limits.cpu_per_call = limit).await;
    let error = fail(&plugin, "spin").await;
    assert!(
        matches!(error.failure, CallFailure::CpuLimit { used, .. } if used >= limit),
        "{error:?}"
    );
    assert!(error.cpu >= limit && plugin.stats().cpu >= limit);
    assert!(
        error
            .to_string()
            .starts_with("reconcile of `spin` (queue `queue`) was stopped: it used "),
        "{error}"
    );
    assert!(
        error
            .backtrace()
            .is_some_and(|functions| functions.contains("reconcile")),
        "{error:?}"
    );
    assert!(error.to_string().contains("; it was in `"), "{error}");
}

#[tokio::test]
async fn a_loop_of_host_calls_is_stopped_at_the_cpu_limit() {
    let plugin = plugin_with(|limits| limits.cpu_per_call = Duration::from_millis(60)).await;
    let error = fail(&plugin, "log").await;
    assert!(
        matches!(error.failure, CallFailure::CpuLimit { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn waiting_for_the_host_is_no_cpu_time() {
    let plugin = plugin_with(|limits| limits.cpu_per_call = Duration::from_millis(60)).await;
    let slow = Fake::new(|fake| fake.delay = Duration::from_millis(50));
    let start = Instant::now();
    let outcome = plugin
        .reconcile(slow.clone(), "queue", "raw", 5)
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_millis(5)));
    assert!(start.elapsed() >= Duration::from_millis(250));
    assert_eq!(
        plugin.reconcile(slow, "queue", "write", 0).await.unwrap(),
        Outcome::RequeueAfter(Duration::from_millis(3))
    );
}

#[tokio::test]
async fn a_loop_after_a_wait_is_stopped_too() {
    let plugin = plugin_with(|limits| limits.cpu_per_call = Duration::from_millis(60)).await;
    let slow = Fake::new(|fake| fake.delay = Duration::from_millis(100));
    let error = plugin.reconcile(slow, "queue", "R", 1).await.unwrap_err();
    assert!(
        matches!(error.failure, CallFailure::CpuLimit { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_call_that_waits_endlessly_is_stopped_at_the_wall_clock_limit() {
    let plugin = plugin_with(|limits| limits.wall_per_call = Duration::from_millis(100)).await;
    let imports = Fake::new(|fake| fake.hangs = true);
    let error = plugin
        .reconcile(imports.clone(), "queue", "raw", 1)
        .await
        .unwrap_err();
    assert!(
        matches!(error.failure, CallFailure::WallLimit { .. }),
        "{error}"
    );
    assert_eq!(plugin.stats().live, 0);
    assert_eq!(std::sync::Arc::strong_count(&imports), 1);
}

#[tokio::test]
async fn endless_allocation_is_stopped_and_explained() {
    let limit = 4 << 20;
    let plugin = plugin_with(|limits| limits.memory = limit).await;
    let error = fail(&plugin, "memory").await;
    assert!(
        matches!(error.failure, CallFailure::MemoryLimit { wanted, .. } if wanted > limit),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("its limit is 4194304"),
        "{error}"
    );
}

#[tokio::test]
async fn a_result_that_does_not_fit_the_guests_memory_is_explained() {
    let plugin = plugin_with(|limits| limits.memory = 4 << 20).await;
    let large = Fake::new(|fake| fake.object = vec![0; 8 << 20]);
    let error = plugin
        .reconcile(large, "queue", "page", 0)
        .await
        .unwrap_err();
    assert!(
        matches!(error.failure, CallFailure::MemoryLimit { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_too_large_initial_memory_is_refused() {
    let plugin = plugin_with(|limits| limits.memory = 65536).await;
    let error = plugin.describe(plain()).await.unwrap_err();
    assert!(
        matches!(
            error.failure,
            CallFailure::MemoryLimit { wanted, .. } if wanted >= 131_072
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_result_beyond_the_size_limit_is_an_error_to_the_guest() {
    let plugin = plugin_with(|limits| limits.answer_bytes = 1000).await;
    let large = Fake::new(|fake| fake.object = vec![0; 1001]);
    for key in ["get", "page"] {
        let outcome = plugin
            .reconcile(large.clone(), "queue", key, 0)
            .await
            .unwrap();
        assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_secs(1000)));
    }
    let error = plugin
        .reconcile(large, "queue", "write", 0)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("its writes return more than the plugin's limit of 1000 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn a_large_result_counts_as_held_while_the_guest_allocates_for_it() {
    let plugin = plugin_with(|limits| limits.held_bytes = 100_000).await;
    for (bytes, expected) in [(90_000, 90_000), (100_001, 1_000_000)] {
        let large = Fake::new(|fake| fake.object = vec![0; bytes]);
        for key in ["get", "page"] {
            let outcome = plugin.reconcile(large.clone(), "queue", key, 0).await;
            let expected = Outcome::RequeueAfter(Duration::from_millis(expected));
            assert_eq!(outcome.unwrap(), expected, "{key}");
            assert_eq!(plugin.stats().held, 0);
        }
    }
    assert_eq!(plugin.stats().hits.of(Limit::Held), 2);
}

#[tokio::test]
async fn a_batch_counts_as_held_while_it_runs() {
    let plugin = plugin().await;
    let imports = plain();
    let outcome = plugin.reconcile(imports.clone(), "queue", "write", 0).await;
    assert!(outcome.is_ok());
    assert!(imports.charged.load(SeqCst) > 0);
    assert_eq!(plugin.stats().held, 0);
    let hanging = Fake::new(|fake| fake.hangs = true);
    let call = {
        let (plugin, hanging) = (plugin.clone(), hanging.clone());
        tokio::spawn(async move { plugin.reconcile(hanging, "queue", "raw", 1).await })
    };
    while hanging.raws.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert!(plugin.stats().held > 0);
    call.abort();
}

#[tokio::test]
async fn the_memory_of_a_plugin_is_limited_and_the_message_says_how_to_change_it() {
    let plugin = plugin_with(|limits| limits.total_memory = Some(4 << 20)).await;
    let error = fail(&plugin, "memory").await;
    let expected = "the limit of all instances of the plugin together (`total-memory` in the policy) is 4194304";
    assert!(error.to_string().contains(expected), "{error}");
    assert!(error.is_of_guest());
    assert_eq!(plugin.stats().hits.of(Limit::TotalMemory), 1);
    let engine = engine_with(|options| options.shared_memory = 4 << 20);
    let plugin = plugin_of(&engine, |limits| limits.total_memory = Some(8 << 20)).await;
    let error = fail(&plugin, "memory").await;
    assert!(
        error
            .to_string()
            .contains("the limit of all plugins together is 4194304"),
        "{error}"
    );
    assert!(!error.is_of_guest());
}

#[tokio::test]
async fn a_table_does_not_grow_beyond_the_pools_limit() {
    let plugin = plugin().await;
    assert_eq!(
        plugin
            .reconcile(plain(), "queue", "Table", 0)
            .await
            .unwrap(),
        Outcome::Done
    );
}

#[tokio::test]
async fn endless_recursion_is_stopped_at_the_end_of_the_stack() {
    let error = fail(&plugin().await, "nest").await;
    assert!(error.to_string().contains("stack"), "{error}");
    assert!(
        error
            .backtrace()
            .is_some_and(|functions| functions.lines().count() <= 20),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_trap_is_reported_with_the_guests_last_error() {
    let error = fail(&plugin().await, "unreachable").await;
    let text = error.to_string();
    assert_eq!(
        text,
        "reconcile of `unreachable` (queue `queue`) trapped: wasm `unreachable` instruction executed; \
         the guest's last error: it went wrong"
    );
    assert!(error.can_retry());
}

#[tokio::test]
async fn endless_creation_of_handles_is_stopped() {
    let error = fail(&plugin().await, "handles").await;
    assert!(
        error
            .to_string()
            .contains("more than its limit of 1024 cursors and batches"),
        "{error}"
    );
}

#[tokio::test]
async fn an_endless_batch_is_stopped() {
    let error = fail(
        &plugin_with(|limits| limits.staged_bytes = 8 << 20).await,
        "batch",
    )
    .await;
    assert!(
        error
            .to_string()
            .contains("hold more than their limit of 8388608 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn a_string_beyond_the_memory_is_a_trap() {
    let error = fail(&plugin().await, "x").await;
    assert!(matches!(error.failure, CallFailure::Trap { .. }), "{error}");
}

#[tokio::test]
async fn a_guest_that_computes_does_not_block_others_on_its_thread() {
    let engine = engine_with(|options| options.threads = 1);
    let plugin = plugin_of(&engine, |limits| {
        limits.cpu_per_call = Duration::from_secs(2)
    })
    .await;
    let other = plugin_of(&engine, |_| ()).await;
    let spinning = AtomicBool::new(true);
    let spin = async {
        let error = plugin
            .reconcile(plain(), "queue", "spin", 0)
            .await
            .unwrap_err();
        spinning.store(false, SeqCst);
        error
    };
    let quick = async {
        for _ in 0..20 {
            assert_eq!(
                other.reconcile(plain(), "queue", "done", 0).await.unwrap(),
                Outcome::Done
            );
        }
        assert!(
            spinning.load(SeqCst),
            "twenty quick calls waited for the whole spin"
        );
    };
    let (error, ()) = futures::join!(spin, quick);
    assert!(
        matches!(error.failure, CallFailure::CpuLimit { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_hundred_misbehaving_calls_do_not_harm_the_host() {
    let plugin = plugin_with(|limits| {
        limits.cpu_per_call = Duration::from_millis(20);
        limits.memory = 4 << 20;
        limits.max_instances = 8;
    })
    .await;
    let keys = [
        "spin",
        "memory",
        "unreachable",
        "nest",
        "handles",
        "x",
        "log",
        "batch",
        "done",
        "write",
    ];
    let calls = (0..100).map(|call| {
        let plugin = &plugin;
        async move {
            plugin
                .reconcile(plain(), "queue", keys[call % keys.len()], 0)
                .await
                .is_ok()
        }
    });
    let returned = futures::future::join_all(calls)
        .await
        .into_iter()
        .filter(|returned| *returned)
        .count();
    assert_eq!(returned, 20);
    plugin.trim_idle(Duration::ZERO);
    let stats = plugin.stats();
    assert_eq!(
        (stats.live, stats.memory, stats.calls, stats.failures),
        (0, 0, 100, 80)
    );
}
