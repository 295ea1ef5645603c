//! Guests that misbehave in all known ways. The host and other plugins keep running, the memory is freed, and the error
//! explains the fault.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use flyball_plugin::{
    CallError, CallFailure, Delta, Engine, EngineOptions, Limit, Limits, LoadError, Outcome, Plugin,
};
use flyball_types::description::DeltaType;
use support::{Fake, component, engine, engine_with, faulty, plain, plugin_of};

/// The faulty guest and a well-behaved one on the same engine.
struct Neighbours {
    faulty: Plugin,
    other: Plugin,
}

impl Neighbours {
    async fn new(change: impl FnOnce(&mut Limits)) -> Self {
        let engine = engine();
        let component = engine.load(faulty().into()).await.unwrap();
        let mut limits = Limits {
            cpu_per_call: Duration::from_millis(60),
            memory: 32 << 20,
            cpu_share: Some(500),
            ..Limits::default()
        };
        change(&mut limits);
        let faulty = Plugin::new(&engine, component, limits).unwrap();
        Self {
            faulty,
            other: plugin_of(&engine, |_| ()).await,
        }
    }

    /// Runs a call of the faulty guest. Meanwhile calls of the other guest must succeed. Afterwards all memory must be
    /// freed.
    async fn during<T>(&self, call: impl Future<Output = T>) -> T {
        let ended = AtomicBool::new(false);
        let call = async {
            let result = call.await;
            ended.store(true, SeqCst);
            result
        };
        let others = async {
            let mut count = 0;
            while !ended.load(SeqCst) || count == 0 {
                assert_eq!(
                    self.other.reconcile(plain(), "q", "done", 0).await.unwrap(),
                    Outcome::Done
                );
                count += 1;
            }
        };
        let (result, ()) = futures::join!(call, others);
        self.faulty.trim_idle(Duration::ZERO);
        assert_eq!(
            (self.faulty.stats().live, self.faulty.stats().memory),
            (0, 0)
        );
        result
    }

    async fn reconcile(&self, key: &str) -> Result<Outcome, CallError> {
        self.during(self.faulty.reconcile(plain(), "faulty", key, 0))
            .await
    }

    async fn describe(&self, fault: &'static str) -> Result<Vec<u8>, CallError> {
        self.during(
            self.faulty
                .describe(Fake::new(|fake| fake.describe = Some(fault))),
        )
        .await
    }

    /// Routes a delta with this new object. Returns the number of keys.
    async fn route(&self, object: &'static str) -> Result<usize, CallError> {
        let delta = Delta {
            watch: "v1/ConfigMap".into(),
            delta_type: DeltaType::Added,
            old: None,
            new: Some(object.into()),
            initial: false,
        };
        let routed = self.during(self.faulty.route(plain(), vec![delta])).await?;
        Ok(routed.unwrap().len())
    }

    fn hits(&self, limit: Limit) -> u64 {
        self.faulty.stats().hits.of(limit)
    }
}

/// Keys with a fault that fails the call: the key, a part of the error, and the limit that was hit.
const FATAL: [(&str, &str, Option<Limit>); 13] = [
    ("spin", "was stopped: it used ", Some(Limit::Cpu)),
    ("logs", "was stopped: it used ", Some(Limit::Cpu)),
    ("events", "was stopped: it used ", Some(Limit::Cpu)),
    ("writes", "was stopped: it used ", Some(Limit::Cpu)),
    // The stack of a Rust guest is at the start of its memory, so an overflow leaves the memory.
    ("recurse", "trapped: out of bounds memory access", None),
    ("grow", OUT_OF_MEMORY, Some(Limit::Memory)),
    ("huge", OUT_OF_MEMORY, Some(Limit::Memory)),
    (
        "handles",
        "holds more than its limit of 1024 cursors and batches",
        Some(Limit::Handles),
    ),
    ("long-answer", OUT_OF_MEMORY, Some(Limit::Memory)),
    ("long-log", OUT_OF_MEMORY, Some(Limit::Memory)),
    ("utf-8", "trapped: invalid utf-8", None),
    ("panic", "panic in reconcile of panic", None),
    ("unreachable", "unreachable", None),
];
const OUT_OF_MEMORY: &str = "ran out of memory: it requested ";

#[tokio::test]
async fn each_fault_fails_only_its_call_and_is_explained() {
    let neighbours = Neighbours::new(|_| ()).await;
    for (key, expected, limit) in FATAL {
        let before = limit.map(|limit| neighbours.hits(limit));
        let error = neighbours.reconcile(key).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("reconcile of `{key}` (queue `faulty`) ")),
            "{text}"
        );
        assert!(text.contains(expected), "{key}: {text}");
        assert!(error.is_of_guest() && error.can_retry(), "{key}");
        assert_eq!(
            limit.map(|limit| neighbours.hits(limit)),
            before.map(|before| before + 1),
            "{key}"
        );
        assert_eq!(
            neighbours.reconcile("done").await.unwrap(),
            Outcome::Done,
            "after {key}"
        );
    }
    assert_eq!(neighbours.faulty.stats().failures, FATAL.len() as u64);
}

#[tokio::test]
async fn a_string_of_a_hundred_megabytes_is_rejected() {
    let neighbours = Neighbours::new(|limits| {
        limits.memory = 256 << 20;
        limits.cpu_per_call = Duration::from_secs(10);
    })
    .await;
    for key in ["long-log", "long-answer"] {
        let error = neighbours.reconcile(key).await.unwrap_err().to_string();
        assert!(
            error.contains("it passed more than its limit of 67108864 bytes to the host at once"),
            "{error}"
        );
    }
    assert_eq!(neighbours.hits(Limit::Staged), 2);
}

#[tokio::test]
async fn a_long_error_message_is_truncated() {
    let Outcome::Failed(message) = Neighbours::new(|_| ())
        .await
        .reconcile("wordy")
        .await
        .unwrap()
    else {
        panic!("the reconcile did not fail");
    };
    assert!(
        message.len() < 5000 && message.ends_with("x [truncated]"),
        "{} bytes",
        message.len()
    );
}

#[tokio::test]
async fn a_fault_in_each_export_is_explained() {
    let neighbours = Neighbours::new(|_| ()).await;
    for (fault, expected) in [
        (
            "panic",
            "describe trapped: wasm `unreachable` instruction executed; the guest's last error: ",
        ),
        ("panic", "panic in describe"),
        (
            "unreachable",
            "describe trapped: wasm `unreachable` instruction executed",
        ),
        ("spin", "describe was stopped: it used "),
        ("logs", "describe was stopped: it used "),
        ("long", "describe ran out of memory"),
    ] {
        let error = neighbours.describe(fault).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{fault}: {error}");
    }
    assert_eq!(
        neighbours.describe("malformed").await.unwrap(),
        br#"{"name": "fau"#
    );
    for (object, expected) in [
        ("panic", "route of 1 deltas trapped: "),
        ("panic", "panic in route"),
        ("spin", "route of 1 deltas was stopped: it used "),
        ("long", "route of 1 deltas ran out of memory"),
    ] {
        let error = neighbours.route(object).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{object}: {error}");
    }
    assert_eq!(neighbours.route("many").await.unwrap(), 10_000);
}

#[tokio::test]
async fn an_instance_with_many_leaked_handles_is_dropped() {
    let neighbours = Neighbours::new(|_| ()).await;
    for _ in 0..20 {
        let outcome = neighbours
            .faulty
            .reconcile(plain(), "faulty", "kept-handles", 0)
            .await
            .unwrap();
        assert_eq!(outcome, Outcome::Done);
    }
    let instantiated = neighbours.faulty.stats().instantiated;
    assert!((2..20).contains(&instantiated), "{instantiated}");
}

#[tokio::test]
async fn a_guest_that_panics_every_hundredth_call_fails_only_those() {
    let neighbours = Neighbours::new(|_| ()).await;
    let mut failed = Vec::new();
    for call in 1..=250 {
        match neighbours
            .faulty
            .reconcile(plain(), "faulty", "hundredth", 0)
            .await
        {
            Ok(outcome) => assert_eq!(outcome, Outcome::Done),
            Err(error) => {
                assert!(error.to_string().contains("this is call 100"), "{error}");
                failed.push(call);
            }
        }
    }
    assert_eq!(failed, [100, 200]);
}

#[tokio::test]
async fn a_guest_that_is_called_in_a_loop_stays_within_its_quota() {
    let burst = Duration::from_millis(20);
    let neighbours = Neighbours::new(|limits| {
        limits.cpu_share = Some(100);
        limits.cpu_burst = burst;
    })
    .await;
    let start = Instant::now();
    let floods = (0..10).map(|_| async {
        for _ in 0..300 {
            let outcome = neighbours
                .faulty
                .reconcile(plain(), "faulty", "requeue", 0)
                .await
                .unwrap();
            assert_eq!(outcome, Outcome::RequeueAfter(Duration::ZERO));
        }
    });
    neighbours.during(futures::future::join_all(floods)).await;
    let (stats, elapsed) = (neighbours.faulty.stats(), start.elapsed());
    // The host's cost of each call is charged too. Ten polls may have started before the first was charged.
    let charged = stats.cpu + Duration::from_micros(30) * 3000;
    assert!(
        charged <= burst + elapsed / 10 + Duration::from_millis(50),
        "{charged:?} in {elapsed:?}"
    );
    assert!(
        stats.hits.of(Limit::CpuShare) > 0 && stats.waited > Duration::ZERO,
        "{stats:?}"
    );
}

#[tokio::test]
async fn a_guest_that_computes_is_slowed_by_its_quota_and_not_stopped() {
    // On a busy machine, ticks are late. With ticks this late, the first one comes after the call has used up its CPU
    // time.
    for tick in [EngineOptions::default().tick, Duration::from_millis(80)] {
        let engine = engine_with(|options| options.tick = tick);
        let component = engine.load(faulty().into()).await.unwrap();
        let limits = Limits {
            cpu_per_call: Duration::from_millis(60),
            cpu_share: Some(100),
            cpu_burst: Duration::from_millis(1),
            wall_per_call: Duration::from_millis(200),
            ..Limits::default()
        };
        let faulty = Plugin::new(&engine, component, limits).unwrap();
        let start = Instant::now();
        let error = faulty
            .reconcile(plain(), "faulty", "spin", 0)
            .await
            .unwrap_err();
        assert!(
            matches!(error.failure, CallFailure::CpuLimit { .. }),
            "{error}"
        );
        // The next call starts when the quota has earned what this one used. 60 ms of CPU time take 600 ms, more than
        // the wall-clock limit. But waiting for the quota does not count.
        let next = faulty.reconcile(plain(), "faulty", "done", 0).await;
        assert_eq!(next.unwrap(), Outcome::Done);
        assert!(
            start.elapsed() >= (error.cpu - Duration::from_millis(20)) * 9,
            "{:?}, {:?}",
            start.elapsed(),
            error.cpu
        );
    }
}

#[tokio::test]
async fn a_call_that_hangs_is_stopped_at_its_wall_clock_limit_despite_its_quota() {
    let engine = engine();
    let plugin = plugin_of(&engine, |limits| {
        limits.cpu_share = Some(1);
        limits.cpu_burst = Duration::from_millis(50);
        limits.wall_per_call = Duration::from_millis(100);
    })
    .await;
    let imports = Fake::new(|fake| fake.hangs = true);
    let error = plugin
        .reconcile(imports.clone(), "q", "raw", 1)
        .await
        .unwrap_err();
    assert!(
        matches!(error.failure, CallFailure::WallLimit { .. }),
        "{error}"
    );
    assert_eq!(Arc::strong_count(&imports), 1);
    assert_eq!(plugin.stats().hits.of(Limit::Wall), 1);
}

/// Loads a component, and returns the error of its first call.
async fn first_call(engine: &Engine, wasm: Vec<u8>) -> Result<CallError, LoadError> {
    let component = engine.load(wasm.into()).await?;
    let plugin = Plugin::new(engine, component, Limits::default())?;
    Ok(plugin.describe(plain()).await.unwrap_err())
}

/// A guest that does nothing, with additional definitions in its module.
fn idle_with(more: &str) -> Vec<u8> {
    let memory = if more.contains("(memory") {
        ""
    } else {
        r#"(memory (export "memory") 1)"#
    };
    let module = format!(
        r#"(module {memory} {more}
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
        (func (export "flyball:controller/guest@0.2.0#describe") (result i32) (i32.const 0))
        (func (export "flyball:controller/guest@0.2.0#reconcile") (param i32 i32 i32 i32 i32) (result i32) (i32.const 0))
        (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32) (i32.const 0)))"#
    );
    component(&module, None)
}

#[tokio::test]
async fn a_component_with_too_large_or_too_many_tables_is_rejected() {
    let engine = engine();
    let error = first_call(&engine, idle_with("(table 100000000 funcref)"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, LoadError::Compile(reason) if reason.contains("table")),
        "{error}"
    );
    let tables = "(table 1 funcref)".repeat(100);
    let error = first_call(&engine, idle_with(&tables)).await.unwrap_err();
    assert!(
        matches!(&error, LoadError::Compile(reason) if reason.contains("table")),
        "{error}"
    );
}

#[tokio::test]
async fn a_too_large_initial_memory_is_refused() {
    let engine = engine();
    let error = first_call(&engine, idle_with(r#"(memory (export "memory") 65536)"#))
        .await
        .unwrap();
    assert!(
        matches!(error.failure, CallFailure::MemoryLimit { wanted, .. } if wanted >= 4 << 30),
        "{error}"
    );
}

#[tokio::test]
async fn a_start_function_that_never_ends_is_stopped() {
    let engine = engine();
    let more = "(func $start (loop $again (br $again))) (start $start)";
    let error = first_call(&engine, idle_with(more)).await.unwrap();
    assert!(
        matches!(error.failure, CallFailure::CpuLimit { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_component_of_a_thousand_core_instances_is_rejected() {
    let instances = "(core instance (instantiate $m))".repeat(1000);
    let text = format!(
        r#"(component (core module $m (memory 1)) {instances}
        (instance $guest) (export "flyball:controller/guest@0.2.0" (instance $guest)))"#
    );
    let error = engine()
        .load(wat::parse_str(text).unwrap().into())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, LoadError::Compile(reason) if reason.contains("instances")),
        "{error}"
    );
}

#[tokio::test]
async fn all_faults_at_once_do_not_harm_the_host() {
    let engine = engine_with(|options| options.max_instances = 12);
    let component = engine.load(faulty().into()).await.unwrap();
    let limits = Limits {
        cpu_per_call: Duration::from_millis(20),
        memory: 8 << 20,
        cpu_share: Some(800),
        ..Limits::default()
    };
    let faulty = Plugin::new(&engine, component, limits).unwrap();
    let neighbours = Neighbours {
        faulty,
        other: plugin_of(&engine, |_| ()).await,
    };
    let calls = (0..5 * FATAL.len()).map(|call| {
        let key = FATAL[call % FATAL.len()].0;
        neighbours.faulty.reconcile(plain(), "faulty", key, 0)
    });
    let results = neighbours.during(futures::future::join_all(calls)).await;
    assert!(results.iter().all(Result::is_err));
    assert_eq!(neighbours.faulty.stats().failures, results.len() as u64);
    assert_eq!(neighbours.reconcile("done").await.unwrap(), Outcome::Done);
}
