//! The cost of recording a call that is not kept: `cargo bench -p flyball-rehearse`.

#[path = "../../plugin/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use flyball_plugin::{Engine, EngineOptions, Imports, Limits, Plugin};
use flyball_recording::Input;
use flyball_rehearse::{Recorder, of_reconcile};
use support::{Fake, guest};
use tokio::runtime::{Builder, Runtime};

/// Memory for kept calls, in bytes: the host's default.
const MEMORY: usize = 1 << 20;
/// Size of the fields that a controller reads of a pod, in bytes.
const OBJECT: usize = 3300;

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime")
}

async fn reconcile(
    plugin: &Plugin,
    recorder: &Arc<Recorder>,
    imports: &Arc<dyn Imports>,
    key: &str,
) {
    let session = recorder.begin(imports.clone());
    let result = plugin.reconcile(session.imports(), "queue", key, 0).await;
    let input = || Input::Reconcile {
        queue: "queue".into(),
        key: key.into(),
        attempt: 0,
    };
    session
        .end("", Some(key), of_reconcile(&result), input)
        .await;
}

fn calls(criterion: &mut Criterion) {
    let runtime = runtime();
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let component = runtime
        .block_on(engine.load(guest().into()))
        .expect("a component");
    let limits = Limits {
        is_reserved: true,
        ..Limits::default()
    };
    let plugin = Plugin::new(&engine, component, limits).expect("a plugin");
    let imports: Arc<dyn Imports> = Fake::new(|fake| fake.object = vec![b'1'; OBJECT]);
    let mut group = criterion.benchmark_group("a reconcile");
    for (name, memory) in [("not recorded", 0), ("recorded and dropped", MEMORY)] {
        let recorder = Recorder::new(memory);
        for key in ["done", "get", "page", "write"] {
            group.bench_function(BenchmarkId::new(name, key), |bencher| {
                bencher.iter(|| runtime.block_on(reconcile(&plugin, &recorder, &imports, key)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
