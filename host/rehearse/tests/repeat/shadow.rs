//! A candidate in the shadow that burns CPU delays nobody, and has limits of its own.

use flyball_rehearse::{Findings, Shadow};

use super::*;

/// More calls than wait for a candidate.
const CALLS: u32 = 3000;

/// A guest that computes without end where the other one reads an object.
fn burning() -> Vec<u8> {
    mutant(
        "(then (call $read-one))",
        "(then (loop $again (br $again)))",
    )
}

/// Lets the candidate follow a plugin that reads an object `calls` times. Returns what it found once `is_enough`.
async fn followed(
    limits: Limits,
    calls: u32,
    is_enough: impl Fn(&Findings) -> bool,
) -> (Findings, Plugin) {
    let engine = engine();
    let running = plugin_of(&engine, guest(), Limits::default()).await;
    let candidate = plugin_of(&engine, burning(), limits).await;
    let recorder = Recorder::new(MEMORY);
    let listener = recorder.listen(Wanted {
        key: None,
        all: true,
    });
    let shadow = Arc::<Shadow>::default();
    let (follows, follower) = (shadow.clone(), candidate.clone());
    let task = tokio::spawn(async move {
        let config = BTreeMap::new();
        follows
            .follow(&follower, &header(), &config, listener)
            .await;
    });
    for _ in 0..calls {
        let session = recorder.begin(plain());
        let result = running
            .reconcile(session.imports(), "queue", "get", 0)
            .await;
        assert!(result.is_ok(), "{result:?}");
        session
            .end("0123", Some("get"), of_reconcile(&result), || input("get"))
            .await;
    }
    while !is_enough(&shadow.findings()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    task.abort();
    (shadow.findings(), candidate)
}

#[tokio::test]
async fn a_candidate_that_never_returns_delays_no_call_of_the_running_version() {
    // It never reaches its limit, so each of the calls below ends while the candidate computes.
    let limits = Limits {
        cpu_per_call: Duration::from_secs(1_000_000),
        wall_per_call: Duration::from_secs(1_000_000),
        cpu_share: Some(100),
        max_instances: 1,
        ..Limits::default()
    };
    let (found, candidate) = followed(limits, CALLS, |found| found.left_out > 0).await;
    assert_eq!((found.calls, found.same), (0, 0));
    assert!(found.left_out < u64::from(CALLS));
    // Once nobody waits for it, its call ends, too.
    while candidate.stats().live > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_candidate_that_burns_cpu_is_stopped_at_its_own_limit_and_that_is_a_finding() {
    let limits = Limits {
        cpu_per_call: Duration::from_millis(20),
        cpu_share: Some(100),
        max_instances: 1,
        ..Limits::default()
    };
    let (found, _) = followed(limits, 3, |found| found.calls == 3).await;
    assert_eq!(found.same, 0);
    let group = &found.groups[0];
    assert_eq!((group.calls, &*group.keys), (3, &["get".to_owned()][..]));
    assert!(group.example.contains("is stopped at a limit"), "{group:?}");
}
