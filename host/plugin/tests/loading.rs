//! From a file to a plugin: what is refused and why, and what is kept.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use flyball_plugin::{
    Engine, EngineError, EngineOptions, Limits, LoadError, Plugin, Precompiled, digest,
};
use proptest::prelude::*;
use support::{component, engine, engine_with, guest, plain};

/// A guest that does nothing.
const IDLE: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func (export "flyball:controller/guest@0.2.0#describe") (result i32) (i32.const 0))
    (func (export "flyball:controller/guest@0.2.0#reconcile") (param i32 i32 i32 i32 i32) (result i32) (i32.const 0))
    (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32) (i32.const 0)))"#;

/// What [`guest`] says of itself.
const GUEST: &[u8] = br#"{"name":"a guest"}"#;

/// Loads bytes that must be refused.
async fn refuse(bytes: Vec<u8>) -> LoadError {
    engine_with(|options| options.max_component_bytes = 100_000)
        .load(bytes.into())
        .await
        .unwrap_err()
}

#[tokio::test]
async fn what_is_no_controller_is_refused_in_one_sentence() {
    assert!(matches!(
        refuse(b"hello".to_vec()).await,
        LoadError::NotWasm
    ));
    assert!(matches!(
        refuse(wat::parse_str("(module)").unwrap()).await,
        LoadError::CoreModule
    ));
    assert!(matches!(
        refuse(vec![0; 100_001]).await,
        LoadError::TooLarge {
            size: 100_001,
            limit: 100_000
        }
    ));
    let mut cut = guest();
    cut.truncate(cut.len() / 2);
    assert!(matches!(refuse(cut).await, LoadError::Malformed(_)));
}

#[tokio::test]
async fn a_component_of_another_world_is_told_what_it_exports_and_what_is_expected() {
    let module = r#"(module (func (export "test:other/run@2.0.0#run")))"#;
    let world =
        "package test:other@2.0.0; interface run { run: func(); } world other { export run; }";
    let error = refuse(component(module, Some(("other", world))))
        .await
        .to_string();
    assert!(
        error.contains("it exports test:other/run@2.0.0") && error.contains("guest@0.2.0"),
        "{error}"
    );
}

#[tokio::test]
async fn imports_that_the_host_does_not_offer_are_named() {
    let module = IDLE.replacen(
        "(module",
        r#"(module (import "test:more/disk@1.0.0" "format" (func))"#,
        1,
    );
    let world = "package test:more@1.0.0; interface disk { format: func(); }
        world more { include flyball:controller/controller@0.2.0; import disk; }";
    let error = refuse(component(&module, Some(("more", world)))).await;
    assert!(
        matches!(&error, LoadError::UnknownImports(names) if names == &["test:more/disk@1.0.0"]),
        "{error}"
    );
}

#[tokio::test]
async fn a_component_whose_guest_has_other_types_is_refused() {
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
        false,
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
async fn the_smallest_controller_loads_and_is_known_by_its_digest() {
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

/// The one compiled plugin in a cache.
fn kept(cache: &Path) -> PathBuf {
    let mut files = fs::read_dir(cache)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let file = files.next().unwrap();
    assert!(files.next().is_none());
    file
}

#[tokio::test]
async fn a_compiled_plugin_is_kept_and_a_broken_file_is_compiled_anew() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    let start = || engine_with(|options| options.cache = Some(cache.clone()));
    let load = async |engine: &Engine| {
        let component = engine.load(guest().into()).await.unwrap();
        let plugin = Plugin::new(engine, component, Limits::default()).unwrap();
        assert_eq!(plugin.describe(plain()).await.unwrap(), GUEST);
    };
    load(&start()).await;
    let path = kept(&cache);
    let whole = fs::read(&path).unwrap();

    // A second start takes the file: it is not written again.
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let first = inode(&path);
    load(&start()).await;
    assert_eq!(inode(&path), first);

    let mut rotten = whole.clone();
    let middle = rotten.len() / 2;
    rotten[middle] ^= 1;
    for broken in [rotten, whole[..whole.len() - 100].to_vec(), Vec::new()] {
        fs::write(&path, broken).unwrap();
        load(&start()).await;
        assert_eq!(fs::read(kept(&cache)).unwrap().len(), whole.len());
    }
}

/// Bytes of code that this process has resident of files with this path. Data is not counted: what unwinds a panic,
/// here another test's, reads its tables at any time.
#[cfg(target_os = "linux")]
fn resident_code(path: &Path) -> usize {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_its = false;
    let mut kib = 0;
    for line in maps.lines() {
        match line.strip_prefix("Rss:") {
            Some(rss) if is_its => {
                kib += rss
                    .trim()
                    .trim_end_matches("kB")
                    .trim()
                    .parse::<usize>()
                    .unwrap()
            }
            Some(_) => {}
            None if line.contains('-') && line.contains(' ') && !line.contains(": ") => {
                is_its = line.contains(" r-xp ") && line.ends_with(path.to_str().unwrap());
            }
            None => {}
        }
    }
    kib * 1024
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_idle_plugin_gives_the_pages_of_its_code_back_and_runs_them_again() {
    use std::time::Duration;
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    let engine = engine_with(|options| options.cache = Some(cache.clone()));
    let component = engine.load(guest().into()).await.unwrap();
    let path = kept(&cache);
    let plugin = Plugin::new(&engine, component.clone(), Limits::default()).unwrap();
    for _ in 0..3 {
        assert_eq!(plugin.describe(plain()).await.unwrap(), GUEST);
        plugin.trim_idle(Duration::from_secs(60));
        assert!(resident_code(&path) > 0, "it was used just now");
        plugin.trim_idle(Duration::ZERO);
        assert_eq!(resident_code(&path), 0);
    }
    // The file may go meanwhile, and another plugin of the same code runs.
    fs::remove_file(&path).unwrap();
    let other = Plugin::new(&engine, component, Limits::default()).unwrap();
    assert_eq!(other.describe(plain()).await.unwrap(), GUEST);
    assert_eq!(plugin.describe(plain()).await.unwrap(), GUEST);
}

#[tokio::test]
async fn what_the_build_compiled_is_taken_and_what_does_not_fit_is_compiled_anew() {
    let wasm: &'static [u8] = guest().leak();
    let cwasm: &'static [u8] = Engine::precompile(wasm).unwrap().leak();
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    let engine = engine_with(|options| options.cache = Some(cache.clone()));
    let check = async |component| {
        let plugin = Plugin::new(&engine, component, Limits::default()).unwrap();
        assert_eq!(plugin.describe(plain()).await.unwrap(), GUEST);
    };
    let digest: &'static str = digest(wasm).leak();
    let code = Precompiled {
        digest,
        wasm,
        cwasm,
    };
    // A component that is not the one shows what is run: the code, whatever it was compiled from.
    check(
        engine
            .load_precompiled(Precompiled {
                wasm: b"not compiled",
                ..code
            })
            .await
            .unwrap(),
    )
    .await;
    let kept = fs::read(kept(&cache)).unwrap();
    assert!(kept.starts_with(cwasm), "it is mapped from the cache");
    check(
        engine
            .load_precompiled(Precompiled {
                wasm: b"",
                cwasm: b"",
                ..code
            })
            .await
            .unwrap(),
    )
    .await;
    let uncached = engine_with(|_| ());
    uncached
        .load_precompiled(Precompiled {
            wasm: b"not compiled",
            ..code
        })
        .await
        .unwrap();
    let compiled = uncached
        .load_precompiled(Precompiled {
            cwasm: b"from another time",
            ..code
        })
        .await
        .unwrap();
    assert_eq!(compiled.digest(), digest);
}

#[test]
fn options_that_make_no_sense_are_named() {
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
fn the_default_room_can_be_reserved() {
    Engine::new(EngineOptions::default()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_damaged_file_is_refused_or_loaded_but_never_ends_the_host(
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
