//! The cost of calling a guest and of its imports: `cargo bench -p flyball-plugin`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use flyball_plugin::{
    EmbeddedCode, EmbeddedComponent, Engine, EngineOptions, Imports, Limits, Part, Plugin,
    SharedCode, compile_for, compress,
};
use support::{Fake, guest, plain};
use tokio::runtime::{Builder, Runtime};

/// Size of the fields that a controller reads of a pod, in bytes.
const OBJECT: usize = 3300;

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime")
}

fn calls(criterion: &mut Criterion) {
    let runtime = runtime();
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let component = runtime
        .block_on(engine.load(guest().into()))
        .expect("a component");
    let plugin = |limits| Plugin::new(&engine, component.clone(), limits).expect("a plugin");
    let (built_in, fresh) = (
        plugin(Limits {
            is_reserved: true,
            ..Limits::default()
        }),
        plugin(Limits {
            recycle_calls: 1,
            ..Limits::default()
        }),
    );
    let dropped_in = plugin(Limits {
        cpu_share: Some(1_000_000),
        ..Limits::default()
    });
    let nothing: Arc<dyn Imports> = plain();
    let mut group = criterion.benchmark_group("a reconcile");
    for (name, plugin, imports, key) in [
        ("that does nothing", &built_in, &nothing, "done"),
        (
            "that does nothing, of a plugin with a share",
            &dropped_in,
            &nothing,
            "done",
        ),
        (
            "that does nothing, in a fresh instance",
            &fresh,
            &nothing,
            "done",
        ),
        (
            "that reads an object of 3.3 kB",
            &built_in,
            &objects(OBJECT),
            "get",
        ),
        (
            "that lists 10 objects of 3.3 kB",
            &built_in,
            &objects(10 * OBJECT),
            "page",
        ),
        (
            "that lists 1,000 objects of 3.3 kB",
            &built_in,
            &objects(1000 * OBJECT),
            "page",
        ),
        (
            "that lists 1,000 rows of 200 bytes",
            &built_in,
            &objects(1000 * 200),
            "page",
        ),
        ("that writes a batch of 3", &built_in, &nothing, "write"),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                let (plugin, imports) = (plugin.clone(), imports.clone());
                // The host makes calls on workers of its runtime too.
                let calls = runtime.spawn(async move {
                    let start = std::time::Instant::now();
                    for _ in 0..count {
                        plugin
                            .reconcile(imports.clone(), "queue", key, 0)
                            .await
                            .expect("the call succeeds");
                    }
                    start.elapsed()
                });
                runtime.block_on(calls).expect("no panic")
            });
        });
    }
    group.finish();
}

fn loads(criterion: &mut Criterion) {
    let runtime = runtime();
    let wasm = &guest();
    let compile = || compile_for(std::env::consts::ARCH, wasm).expect("it compiles");
    let component = embedded(compile());
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let mut group = criterion.benchmark_group("a guest");
    group.bench_function("is compiled", |bencher| bencher.iter(compile));
    group.bench_function("is loaded from what was compiled", |bencher| {
        bencher.iter(|| {
            runtime
                .block_on(engine.load_embedded(component.clone()))
                .expect("it loads")
        });
    });
    group.finish();
}

/// Compiled code as a binary embeds it.
fn embedded(code: Vec<u8>) -> EmbeddedComponent {
    let code = compress(&[code], 1, 3).expect("it is compressed");
    let [Part::Shared(range)] = &code.parts[..] else {
        panic!("it is the shared code");
    };
    EmbeddedComponent {
        digest: "",
        size: 0,
        code: EmbeddedCode {
            shared: SharedCode::new(code.shared.leak()),
            part: Part::Shared(range.clone()),
        },
    }
}

/// Imports whose reads return this many bytes.
fn objects(bytes: usize) -> Arc<dyn Imports> {
    Fake::new(|fake| fake.object = vec![b'x'; bytes])
}

criterion_group!(benches, calls, loads);
criterion_main!(benches);
