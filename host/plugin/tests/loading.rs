//! Loading: which files are rejected and why, and the cache of compiled plugins.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flyball_plugin::{
    CompileLimit, CompileLimits, Compiler, CompilerProcess, Describe, DescribeError, EmbeddedCode,
    EmbeddedComponent, Engine, EngineError, EngineOptions, Limits, LoadError, Part, Plugin,
    SharedCode, compile_for, compress, digest,
};
use proptest::prelude::*;
use support::{component, engine, engine_with, faulty, guest, plain};

/// A guest that does nothing.
const IDLE: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func (export "flyball:controller/guest@0.2.0#describe") (result i32) (i32.const 0))
    (func (export "flyball:controller/guest@0.2.0#reconcile") (param i32 i32 i32 i32 i32) (result i32) (i32.const 0))
    (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32) (i32.const 0)))"#;

/// The description of [`guest`].
const GUEST: &[u8] = br#"{"name":"a guest"}"#;

/// Returns the error of loading bytes.
async fn load_error(bytes: Vec<u8>) -> LoadError {
    engine_with(|options| options.max_component_bytes = 100_000)
        .load(bytes.into())
        .await
        .unwrap_err()
}

#[tokio::test]
async fn a_file_that_is_no_component_is_rejected() {
    assert!(matches!(
        load_error(b"hello".to_vec()).await,
        LoadError::NotWasm
    ));
    assert!(matches!(
        load_error(wat::parse_str("(module)").unwrap()).await,
        LoadError::CoreModule
    ));
    assert!(matches!(
        load_error(vec![0; 100_001]).await,
        LoadError::TooLarge {
            size: 100_001,
            limit: 100_000
        }
    ));
    let mut truncated = guest();
    truncated.truncate(truncated.len() / 2);
    assert!(matches!(
        load_error(truncated).await,
        LoadError::Malformed(_)
    ));
}

#[tokio::test]
async fn the_error_for_another_world_names_the_actual_and_the_expected_exports() {
    let module = r#"(module (func (export "test:other/run@2.0.0#run")))"#;
    let world =
        "package test:other@2.0.0; interface run { run: func(); } world other { export run; }";
    let error = load_error(component(module, Some(("other", world))))
        .await
        .to_string();
    assert!(
        error.contains("it exports test:other/run@2.0.0") && error.contains("guest@0.2.0"),
        "{error}"
    );
}

#[tokio::test]
async fn the_error_for_unknown_imports_names_them() {
    let module = IDLE.replacen(
        "(module",
        r#"(module (import "test:more/disk@1.0.0" "format" (func))"#,
        1,
    );
    let world = "package test:more@1.0.0; interface disk { format: func(); }
        world more { include flyball:controller/controller@0.2.0; import disk; }";
    let error = load_error(component(&module, Some(("more", world)))).await;
    assert!(
        matches!(&error, LoadError::UnknownImports(names) if names == &["test:more/disk@1.0.0"]),
        "{error}"
    );
}

#[tokio::test]
async fn a_component_whose_exports_have_other_types_is_rejected() {
    let module = r#"(module (memory (export "memory") 1)
        (func (export "flyball:controller/guest@0.2.9#describe") (result i32) (i32.const 0)))"#;
    let world = "package flyball:controller@0.2.9; interface guest { describe: func() -> u32; } world w { export guest; }";
    let mut core = wat::parse_str(module).unwrap();
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_str("test.wit", world).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    wit_component::embed_component_metadata(
        &mut core,
        &resolve,
        world,
        wit_component::StringEncoding::UTF8,
    )
    .unwrap();
    let wasm = wit_component::ComponentEncoder::default()
        .module(&core)
        .unwrap()
        .encode()
        .unwrap();
    let engine = engine();
    let component = engine.load(wasm.into()).await.unwrap();
    let error = Plugin::new(&engine, component, Limits::default()).unwrap_err();
    assert!(matches!(error, LoadError::Mismatch(_)), "{error}");
}

#[tokio::test]
async fn a_minimal_controller_loads_and_has_a_stable_digest() {
    let wasm = component(IDLE, None);
    let engine = engine();
    let component = engine.load(wasm.clone().into()).await.unwrap();
    assert_eq!(
        (component.digest().len(), component.size()),
        (64, wasm.len())
    );
    let again = engine.load(wasm.into()).await.unwrap();
    assert_eq!(component.digest(), again.digest());
    let plugin = Plugin::new(&engine, component, Limits::default()).unwrap();
    assert_eq!(plugin.describe(plain()).await.unwrap(), b"");
}

/// The compiler in a child process with changed limits.
fn child(change: impl FnOnce(&mut CompileLimits)) -> Compiler {
    let mut limits = CompileLimits::default();
    change(&mut limits);
    let own = CompilerProcess::of_this_binary().unwrap();
    Compiler::Process(CompilerProcess {
        program: env!("CARGO_BIN_EXE_embed").into(),
        limits,
        ..own
    })
}

/// Compiles a component in a child process with changed limits. Returns the error, if any.
async fn compile(wasm: Vec<u8>, change: impl FnOnce(&mut CompileLimits)) -> Option<LoadError> {
    let engine = engine_with(|options| options.compiler = child(change));
    engine.load(wasm.into()).await.err()
}

#[tokio::test]
async fn a_component_that_a_child_process_compiled_runs_and_is_cached() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    for cache in [None, Some(cache)] {
        let engine = engine_with(|options| {
            options.compiler = child(|_| ());
            options.cache.clone_from(&cache);
        });
        let component = engine.load(guest().into()).await.unwrap();
        let plugin = Plugin::new(&engine, component, Limits::default()).unwrap();
        assert_eq!(plugin.describe(plain()).await.unwrap(), GUEST);
        if let Some(cache) = cache {
            cached_file(&cache);
        }
    }
}

/// Describes a component in a child process with this configuration. Returns the result with what was logged.
async fn describe(
    wasm: Vec<u8>,
    cache: Option<PathBuf>,
    config: &[(&str, &str)],
) -> (Result<Vec<u8>, DescribeError>, Vec<String>) {
    let engine = engine_with(|options| {
        options.compiler = child(|_| ());
        options.cache = cache;
    });
    let component = engine.load(wasm.into()).await.unwrap();
    let logged = Arc::new(Mutex::new(Vec::new()));
    let sink = logged.clone();
    let config = config
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()));
    let describe = Describe {
        config: config.collect(),
        log: Arc::new(move |_, message, _| sink.lock().unwrap().push(message.to_owned())),
        is_builtin: false,
    };
    let described = engine.describe(&component, describe).await;
    let logged = logged.lock().unwrap().clone();
    (described, logged)
}

#[tokio::test]
async fn a_child_process_describes_a_component_from_the_cache_and_without_one() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    // The second time, the code is in the cache already.
    for cache in [None, Some(cache.clone()), Some(cache)] {
        let (described, _) = describe(guest(), cache, &[]).await;
        assert_eq!(described.unwrap(), GUEST);
    }
}

#[tokio::test]
async fn a_description_in_a_child_process_has_the_configuration_and_a_log() {
    let (described, _) = describe(faulty(), None, &[("description", "{\"a\": 1}")]).await;
    assert_eq!(described.unwrap(), b"{\"a\": 1}");
    let (failed, logged) = describe(faulty(), None, &[("describe", "panic")]).await;
    let error = failed.unwrap_err().to_string();
    assert!(error.contains("panic in describe"), "{error}");
    assert!(
        logged.iter().any(|line| line.contains("panic in describe")),
        "{logged:?}"
    );
}

#[tokio::test]
async fn a_description_that_takes_too_much_costs_one_child_process() {
    for (mode, expected) in [
        ("many-watches", "more than 1048576"),
        ("long", "limit of 67108864 bytes"),
    ] {
        let (failed, _) = describe(faulty(), None, &[("describe", mode)]).await;
        let error = failed.unwrap_err().to_string();
        assert!(error.contains(expected), "{mode}: {error}");
    }
}

#[tokio::test]
async fn a_component_that_the_child_process_refuses_is_an_error_with_the_reason() {
    let module = IDLE.replacen("(module", "(module (func $f (return_call $f))", 1);
    let error = compile(component(&module, None), |_| ()).await.unwrap();
    let text = error.to_string();
    assert!(
        matches!(error, LoadError::Compile(_)) && text.contains("tail calls"),
        "{text}"
    );
}

#[tokio::test]
async fn a_component_that_takes_too_much_costs_one_child_process() {
    let branch =
        "(if (local.get 0) (then (local.set 1 (i64.add (local.get 1) (i64.load (local.get 0))))))";
    let function = format!(
        "(module (func (param i32) (result i64) (local i64) {} (local.get 1))",
        branch.repeat(50_000)
    );
    let large = component(&IDLE.replacen("(module", &function, 1), None);
    let memory = |limits: &mut CompileLimits| limits.memory = 32 << 20;
    let error = compile(large.clone(), memory).await.unwrap();
    let expected = CompileLimit::Memory(32 << 20);
    assert!(
        matches!(error, LoadError::CompileLimit(limit) if limit == expected),
        "{error}"
    );
    let second = Duration::from_secs(1);
    let error = compile(large, |limits| limits.cpu = second).await.unwrap();
    let expected = CompileLimit::Cpu(second);
    assert!(
        matches!(error, LoadError::CompileLimit(limit) if limit == expected),
        "{error}"
    );
}

/// The only file in a cache.
fn cached_file(cache: &Path) -> PathBuf {
    let mut files = fs::read_dir(cache)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let file = files.next().unwrap();
    assert!(files.next().is_none());
    file
}

#[tokio::test]
async fn a_compiled_plugin_is_cached_and_a_corrupted_file_is_compiled_again() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    let start = || engine_with(|options| options.cache = Some(cache.clone()));
    let load = async |engine: &Engine| {
        let component = engine.load(guest().into()).await.unwrap();
        let plugin = Plugin::new(engine, component, Limits::default()).unwrap();
        assert_eq!(plugin.describe(plain()).await.unwrap(), GUEST);
    };
    load(&start()).await;
    let path = cached_file(&cache);
    let whole = fs::read(&path).unwrap();

    // A second start uses the file and does not write it again.
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let first = inode(&path);
    load(&start()).await;
    assert_eq!(inode(&path), first);

    let mut corrupted = whole.clone();
    let middle = corrupted.len() / 2;
    corrupted[middle] ^= 1;
    for broken in [corrupted, whole[..whole.len() - 100].to_vec(), Vec::new()] {
        fs::write(&path, broken).unwrap();
        load(&start()).await;
        assert_eq!(fs::read(cached_file(&cache)).unwrap().len(), whole.len());
    }
}

/// Bytes of resident code that are mapped from this path. Data is not counted, because unwinding a panic of another
/// test reads its tables at any time.
#[cfg(target_os = "linux")]
fn resident_code(path: &Path) -> usize {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_code = false;
    let mut kib = 0;
    for line in maps.lines() {
        match line.strip_prefix("Rss:") {
            Some(rss) if is_code => {
                kib += rss
                    .trim()
                    .trim_end_matches("kB")
                    .trim()
                    .parse::<usize>()
                    .unwrap()
            }
            Some(_) => {}
            None if line.contains('-') && line.contains(' ') && !line.contains(": ") => {
                is_code = line.contains(" r-xp ") && line.ends_with(path.to_str().unwrap());
            }
            None => {}
        }
    }
    kib * 1024
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_idle_plugin_releases_the_memory_of_its_code_and_can_run_again() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    let engine = engine_with(|options| options.cache = Some(cache.clone()));
    let component = engine.load(guest().into()).await.unwrap();
    let path = cached_file(&cache);
    let plugin = Plugin::new(&engine, component.clone(), Limits::default()).unwrap();
    for _ in 0..3 {
        assert_eq!(plugin.describe(plain()).await.unwrap(), GUEST);
        plugin.trim_idle(Duration::from_secs(60));
        assert!(
            resident_code(&path) > 0,
            "the code was released although it has just run"
        );
        plugin.trim_idle(Duration::ZERO);
        assert_eq!(resident_code(&path), 0);
    }
    // The file may be deleted meanwhile, and other plugins may share the code.
    fs::remove_file(&path).unwrap();
    let other = Plugin::new(&engine, component, Limits::default()).unwrap();
    assert_eq!(other.describe(plain()).await.unwrap(), GUEST);
    assert_eq!(plugin.describe(plain()).await.unwrap(), GUEST);
}

/// Compiled code as a binary embeds it, of a component with this digest.
fn embedded(code: Vec<u8>, digest: &'static str) -> EmbeddedComponent {
    let code = compress(&[code], 0, 3).unwrap();
    let [Part::Frame(frame)] = &code.parts[..] else {
        panic!("{:?}", code.parts);
    };
    EmbeddedComponent {
        digest,
        size: 1234,
        code: EmbeddedCode {
            shared: SharedCode::new(code.shared.leak()),
            part: Part::Frame(&*frame.clone().leak()),
        },
    }
}

#[tokio::test]
async fn embedded_code_is_decompressed_into_the_cache_once() {
    let wasm = guest();
    let code = compile_for(std::env::consts::ARCH, &wasm).unwrap();
    let digest: &'static str = digest(&wasm).leak();
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    let engine = engine_with(|options| options.cache = Some(cache.clone()));
    let check = async |engine: &Engine, component: EmbeddedComponent| {
        let component = engine.load_embedded(component).await.unwrap();
        assert_eq!((component.digest(), component.size()), (digest, 1234));
        let plugin = Plugin::new(engine, component, Limits::default()).unwrap();
        assert_eq!(plugin.describe(plain()).await.unwrap(), GUEST);
    };
    let component = embedded(code.clone(), digest);
    check(&engine, component.clone()).await;
    let cached = fs::read(cached_file(&cache)).unwrap();
    assert!(cached.starts_with(&code), "the code is not in the cache");
    // Code in the cache is not decompressed again.
    let mut corrupted = component.clone();
    corrupted.code.part = Part::Frame(b"");
    check(&engine, corrupted.clone()).await;
    let uncached = engine_with(|_| ());
    check(&uncached, component).await;
    let error = uncached.load_embedded(corrupted).await.unwrap_err();
    assert!(error.to_string().contains("cargo xtask build"), "{error}");
}

#[tokio::test]
async fn embedded_code_of_another_version_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    for engine in [
        engine_with(|options| options.cache = Some(cache.clone())),
        engine_with(|_| ()),
    ] {
        let component = embedded(b"of another version".to_vec(), "a digest");
        let loaded = engine.load_embedded(component).await;
        assert!(matches!(loaded, Err(LoadError::Embedded(_))), "{loaded:?}");
    }
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
}

#[test]
fn the_error_for_an_invalid_option_names_it() {
    let error = Engine::new(EngineOptions {
        max_instances: 0,
        ..EngineOptions::default()
    })
    .unwrap_err();
    assert!(
        matches!(
            error,
            EngineError::Option {
                option: "max_instances",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn the_default_instance_slots_can_be_reserved() {
    Engine::new(EngineOptions::default()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_damaged_file_is_rejected_or_loaded_without_a_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        static ENGINE: std::sync::LazyLock<Engine> = std::sync::LazyLock::new(engine);
        let mut wasm = component(IDLE, None);
        for (at, byte) in damage {
            let at = at.index(wasm.len());
            wasm[at] = byte;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        if let Ok(component) = runtime.block_on(ENGINE.load(wasm.into())) {
            let _ = Plugin::new(&ENGINE, component, Limits::default());
        }
    }
}
