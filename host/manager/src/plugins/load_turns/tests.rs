//! Tests of the turns, and of the memory of what waits for one.

use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use flyball_fakes::memory::{forget_peak, is_alone, peak, resident};
use flyball_fakes::registry::{FakeRegistry, Response};
use flyball_plugin::{CompileLimit, EngineOptions};
use flyball_policy::Policy;
use flyball_registry::Options;
use futures::FutureExt;
use futures::future::join_all;

use super::*;
use crate::plugins::packages;
use crate::plugins::rollback::{VersionFolder, VersionStore};

/// The beginning of a component.
const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";

fn engine() -> Engine {
    let options = EngineOptions {
        max_instances: 1,
        ..EngineOptions::default()
    };
    Engine::new(options).unwrap()
}

#[tokio::test]
async fn files_of_which_no_plugin_is_expected_leave_a_turn_for_the_others() {
    let turns = Turns::new(2, 1);
    let first = turns.turn(false).await;
    assert!(turns.turn(false).now_or_never().is_none());
    let expected = turns.turn(true).now_or_never().expect("a turn");
    assert!(turns.turn(true).now_or_never().is_none());
    drop(expected);
    assert!(turns.turn(false).now_or_never().is_none());
    drop(first);
    assert!(turns.turn(false).now_or_never().is_some());
}

#[tokio::test]
async fn a_registry_that_is_slow_holds_up_no_other_one() {
    let turns = LoadTurns::default();
    let _slow = [turns.pulling("slow").await, turns.pulling("slow").await];
    assert!(turns.pulling("slow").now_or_never().is_none());
    let other = turns.pulling("other").now_or_never();
    assert!(other.flatten().is_some());
}

/// Files and stored versions, each of which is a component as far as its first bytes tell.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn files_that_wait_for_their_turn_take_no_memory() {
    const TEST: &str = "plugins::load_turns::tests::files_that_wait_for_their_turn_take_no_memory";
    const FILES: usize = 12;
    const SIZE: usize = 32 << 20;
    // The second round begins with memory that the first has freed and the allocator keeps.
    const NOISE: usize = 1 << 20;
    if !is_alone(TEST) {
        return;
    }
    let (engine, home) = (engine(), tempfile::tempdir().unwrap());
    let wasm = [HEADER, &vec![0; SIZE - HEADER.len()]].concat();
    let digest = flyball_plugin::digest(&wasm);
    let (versions, _) = VersionFolder::open(&home.path().join("state"), SIZE).unwrap();
    let path = home.path().join(format!("state/{digest}.wasm"));
    std::fs::write(&path, wasm).unwrap();
    let store = VersionStore::start(Some(versions));
    let file = || Content::File {
        path: path.clone(),
        digest: None,
    };
    let kept = || Content::Kept(store.version(&digest));
    let contents: [(&str, &dyn Fn() -> Content); 2] = [("files", &file), ("versions", &kept)];
    for (name, content) in contents {
        let turns = LoadTurns::default();
        forget_peak();
        let before = peak(process::id()).unwrap();
        let loads = (0..FILES).map(|_| {
            let origin = Origin::File(path.clone());
            turns.load(&engine, origin, content(), false, &|_| ())
        });
        for loaded in join_all(loads).await {
            loaded.map(drop).unwrap_err();
        }
        let grown = peak(process::id()).unwrap() - before;
        assert!(
            grown + NOISE >= SIZE,
            "{name}: {grown} bytes: they were not read"
        );
        assert!(grown < FILES / 2 * SIZE, "{name}: {grown} bytes");
    }
}

/// Starts a registry with one package, and returns the packages that a policy names for as many plugins.
async fn packages(count: usize, layer: Bytes) -> (FakeRegistry, Vec<packages::Package>) {
    let manifest = format!(
        r#"{{"schemaVersion": 2,
            "config": {{"mediaType": "application/vnd.wasm.config.v0+json", "digest": "sha256:0", "size": 2}},
            "layers": [{{"mediaType": "application/wasm", "digest": "sha256:{}", "size": {}}}]}}"#,
        flyball_plugin::digest(&layer),
        layer.len()
    );
    let digest = flyball_plugin::digest(manifest.as_bytes());
    let registry = FakeRegistry::start(move |_, request| match request.contains("/blobs/") {
        true => Response::ok(layer.clone()),
        false => Response::ok(manifest.clone()),
    })
    .await;
    let source = format!("oci://{}/a@sha256:{digest}", registry.address());
    let policy = |number| format!("[plugins.p{number}]\nsource = \"{source}\"\n");
    let policy: String = (0..count).map(policy).collect();
    let policy = Policy::parse(Path::new("policy.toml"), &policy).unwrap();
    (registry, packages::named(&policy).into_values().collect())
}

/// While others are compiled, packages are pulled: all, if they can be read again from the cache, or else as many as may
/// be in memory.
#[tokio::test]
async fn packages_that_wait_for_their_turn_take_little_memory() {
    const TEST: &str =
        "plugins::load_turns::tests::packages_that_wait_for_their_turn_take_little_memory";
    const PACKAGES: usize = 6;
    // The allocator gives memory of this size back to the system at once.
    const SIZE: usize = 40 << 20;
    if !is_alone(TEST) {
        return;
    }
    let (engine, home) = (engine(), tempfile::tempdir().unwrap());
    let layer = [HEADER, &vec![1; SIZE - HEADER.len()]].concat();
    let (registry, packages) = packages(PACKAGES, layer.into()).await;
    for (cache, pulled) in [
        (Some(home.path().to_owned()), PACKAGES),
        (None, PULLED_AT_ONCE),
    ] {
        let (turns, waiting) = (LoadTurns::default(), AtomicUsize::new(0));
        let options = Options {
            cache,
            ..Options::default()
        };
        let others = [
            turns.compiling.turn(true).await,
            turns.compiling.turn(true).await,
        ];
        let on_step = |step: Step| {
            waiting.fetch_add(usize::from(step == Step::AwaitsCompiling), SeqCst);
        };
        let before = resident();
        let loads = packages.iter().map(|package| {
            package.load(&engine, &turns, &options, &on_step, |error, is_last| {
                assert!(is_last, "{error}");
            })
        });
        let mut loads = join_all(loads);
        while waiting.load(SeqCst) < pulled {
            assert!((&mut loads).now_or_never().is_none(), "no turn is free");
            tokio::task::yield_now().await;
        }
        let is_waited_for = turns.pulling(registry.address()).now_or_never().is_none();
        assert_eq!(is_waited_for, pulled < PACKAGES);
        let taken = resident().saturating_sub(before);
        assert!(
            taken < (PULLED_AT_ONCE + 1) * SIZE,
            "{pulled} of {PACKAGES} were pulled: {taken} bytes are resident"
        );
        drop(others);
        for loaded in loads.await {
            assert!(loaded.is_none(), "it is no component");
        }
    }
}

#[tokio::test]
async fn a_file_that_used_up_its_time_is_not_compiled_again() {
    let engine = engine();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("slow.wasm");
    std::fs::write(&path, "no component").unwrap();
    let turns = LoadTurns::default();
    let load = async || {
        let content = Content::File {
            path: path.clone(),
            digest: None,
        };
        let loaded = turns.load(&engine, Origin::File(path.clone()), content, true, &|_| ());
        loaded.await.map(drop).unwrap_err().to_string()
    };
    let first = load().await;
    assert_eq!(load().await, first, "it fails at once, and is tried again");
    let origin: std::sync::Arc<str> = "slow.wasm".into();
    let digest = flyball_plugin::digest(b"no component");
    let limit = CompileLimit::Cpu(Duration::from_secs(300));
    let slow = PluginError::Load {
        origin: origin.clone(),
        source: LoadError::CompileLimit(limit),
    };
    turns.noted(&digest, slow);
    let refused = load().await;
    assert!(refused.contains("300 s of CPU time"), "{refused}");
    turns.refused.lock().clear();
    let failure = |reason: &str, is_slow| PluginError::Describe {
        origin: origin.clone(),
        source: Box::new(DescribeError::Failed {
            reason: reason.into(),
            is_slow,
        }),
    };
    turns.noted(&digest, failure("describe trapped", false));
    assert_eq!(load().await, first);
    turns.noted(&digest, failure("describe used 10s of CPU time", true));
    assert!(load().await.contains("10s of CPU time"));
}
