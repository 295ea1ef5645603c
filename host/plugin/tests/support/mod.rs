//! Guests for the tests of the runtime, made of hand-written modules, and imports that answer them.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test is a crate that uses a part of this"
)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use flyball_plugin::{
    Batch, Engine, EngineOptions, Imports, Limits, Listing, LogLevel, MemoEntry, ObjectReference,
    Plugin, Query,
};
use flyball_types::ApiError;
use futures::FutureExt;
use futures::future::BoxFuture;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// How a measurement ends that is not within its bounds.
pub const OUT_OF_BOUNDS: i32 = 2;

/// The guest that does what its key says.
pub fn guest() -> Vec<u8> {
    component(include_str!("guest.wat"), None)
}

/// A component for the world of controllers, or for a world of its own, of a module in text.
pub fn component(module: &str, world: Option<(&str, &str)>) -> Vec<u8> {
    let mut core = wat::parse_str(module).unwrap();
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_dir(wit()).unwrap();
    if let Some((_, text)) = world {
        package = resolve.push_str("test.wit", text).unwrap();
    }
    let name = world.map_or("controller", |(name, _)| name);
    let world = resolve.select_world(&[package], Some(name)).unwrap();
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8, false).unwrap();
    ComponentEncoder::default()
        .validate(true)
        .module(&core)
        .unwrap()
        .encode()
        .unwrap()
}

/// The guest that misbehaves as its key says.
pub fn faulty() -> Vec<u8> {
    component_file("faulty")
}

/// A component that the build of the guests makes.
pub fn component_file(name: &str) -> Vec<u8> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    let path = target.join(format!("guests/components/{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}: make it with `cargo xtask guests rust`",
            path.display()
        )
    })
}

fn wit() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit"))
}

/// An engine for few instances.
pub fn engine() -> Engine {
    engine_with(|_| ())
}

/// An engine for few instances, with other options.
pub fn engine_with(change: impl FnOnce(&mut EngineOptions)) -> Engine {
    let mut options = EngineOptions {
        max_instances: 16,
        ..EngineOptions::default()
    };
    change(&mut options);
    Engine::new(options).unwrap()
}

/// The guest as a plugin with its default limits.
pub async fn plugin() -> Plugin {
    plugin_with(|_| ()).await
}

/// The guest as a plugin with other limits.
pub async fn plugin_with(change: impl FnOnce(&mut Limits)) -> Plugin {
    plugin_of(&engine(), change).await
}

/// The guest as a plugin of this engine, with other limits.
pub async fn plugin_of(engine: &Engine, change: impl FnOnce(&mut Limits)) -> Plugin {
    let component = engine.load(guest().into()).await.unwrap();
    let mut limits = Limits::default();
    change(&mut limits);
    Plugin::new(engine, component, limits).unwrap()
}

/// Answers a list.
pub type Lister = dyn Fn(&Query) -> Box<dyn Listing> + Send + Sync;

/// Imports that answer from their fields.
#[derive(Default)]
pub struct Fake {
    /// What `get` and `page` answer.
    pub object: Vec<u8>,
    /// What answers lists in its place.
    pub lister: Option<Box<Lister>>,
    /// How long `write` and `raw` take.
    pub delay: Duration,
    /// Whether `raw` never answers.
    pub hangs: bool,
    /// Whether `now` panics.
    pub panics: bool,
    /// What `config` answers to `describe`.
    pub describe: Option<&'static str>,
    /// The lines that were logged.
    pub lines: Mutex<Vec<(LogLevel, String)>>,
    /// The batches that were run.
    pub batches: Mutex<Vec<Batch>>,
    /// The server that requests over HTTP may go to, and what drives their connections.
    pub server: Option<(String, tokio::runtime::Handle)>,
    /// How many lines were logged.
    pub logged: AtomicUsize,
    /// Calls of `raw` that began.
    pub raws: AtomicUsize,
}

impl Fake {
    pub fn new(change: impl FnOnce(&mut Self)) -> Arc<Self> {
        let mut fake = Self {
            object: b"{\"kind\":\"Pod\"}".to_vec(),
            ..Self::default()
        };
        change(&mut fake);
        Arc::new(fake)
    }

    async fn wait(&self) {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }
}

/// Imports with nothing special.
pub fn plain() -> Arc<Fake> {
    Fake::new(|_| ())
}

struct Pages(Vec<u8>);

impl Listing for Pages {
    fn page(&mut self, _limit: u32) -> Result<Vec<u8>, ApiError> {
        Ok(self.0.clone())
    }
}

impl Imports for Fake {
    fn get(&self, _: &str, _: &str, _: &str, _: &[String]) -> Result<Option<Bytes>, ApiError> {
        Ok(Some(self.object.clone().into()))
    }

    fn list(&self, query: &Query) -> Result<Box<dyn Listing>, ApiError> {
        if let Some(lister) = &self.lister {
            return Ok(lister(query));
        }
        assert_eq!(query.kind, "v1/Pod");
        Ok(Box::new(Pages(self.object.clone())))
    }

    fn count(&self, _: &Query) -> Result<u32, ApiError> {
        Ok(1)
    }

    fn gone(&self, _: &ObjectReference) -> bool {
        false
    }

    fn live_get<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a str,
        _: &'a [String],
    ) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        async { Err(ApiError::denied("no")) }.boxed()
    }

    fn live_list<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a [(String, String)],
        _: &'a [String],
    ) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        async { Err(ApiError::denied("no")) }.boxed()
    }

    fn raw<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        async move {
            assert_eq!(path, "/slow");
            self.raws.fetch_add(1, SeqCst);
            if self.hangs {
                std::future::pending::<()>().await;
            }
            self.wait().await;
            Ok(self.object.clone().into())
        }
        .boxed()
    }

    fn discover(&self) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        async { Err(ApiError::denied("no")) }.boxed()
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Vec<Result<Bytes, ApiError>>> {
        async move {
            self.wait().await;
            let answers = batch
                .writes
                .iter()
                .map(|_| Ok(self.object.clone().into()))
                .collect();
            let mut batches = self.batches.lock().unwrap();
            if batches.len() < 100 {
                batches.push(batch);
            }
            answers
        }
        .boxed()
    }

    fn emit_event(&self, _: ObjectReference, _: &str, _: &str, _: &str) {}

    fn enqueue(&self, _: &str, _: &str, _: u32) -> Result<(), ApiError> {
        Ok(())
    }

    fn forget(&self, _: &str, _: &str) -> Result<(), ApiError> {
        Ok(())
    }

    fn requeues(&self, _: &str, _: &str) -> Result<u32, ApiError> {
        Ok(0)
    }

    fn now(&self) -> SystemTime {
        assert!(!self.panics, "a fault of the imports");
        UNIX_EPOCH + Duration::from_secs(1_000_000)
    }

    fn random(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }

    fn log(&self, level: LogLevel, message: &str, _: &[(String, String)]) {
        self.logged.fetch_add(1, SeqCst);
        let mut lines = self.lines.lock().unwrap();
        if lines.len() < 100 {
            lines.push((level, message.into()));
        }
    }

    fn log_enabled(&self, _: LogLevel) -> bool {
        true
    }

    fn metric_add(&self, _: &str, _: &[String], _: f64) {}
    fn metric_set(&self, _: &str, _: &[String], _: f64) {}
    fn metric_observe(&self, _: &str, _: &[String], _: f64) {}

    fn config(&self, key: &str) -> Option<String> {
        self.describe
            .filter(|_| key == "describe")
            .map(str::to_owned)
    }

    fn memo_get(&self, _: &str) -> Option<MemoEntry> {
        None
    }

    fn memo_put(&self, _: &str, _: u32, _: Bytes, _: &str, _: u32) -> Result<u32, ApiError> {
        Err(ApiError::denied("no"))
    }

    fn memo_remove(&self, _: &str) {}

    fn http(&self, server: &str) -> Result<tokio::runtime::Handle, ApiError> {
        match &self.server {
            Some((granted, runtime)) if granted == server => Ok(runtime.clone()),
            _ => Err(ApiError::denied("no")),
        }
    }

    fn sign_jwt(&self, _: &str, _: &[u8]) -> Result<String, ApiError> {
        Err(ApiError::denied("no"))
    }

    fn verify_jwt(&self, _: &str, _: &str) -> Result<Bytes, ApiError> {
        Err(ApiError::denied("no"))
    }

    fn sign_certificate(&self, _: &str, _: &str, _: &str) -> Result<String, ApiError> {
        Err(ApiError::denied("no"))
    }

    fn trust_bundle(&self, _: &str) -> Result<String, ApiError> {
        Err(ApiError::denied("no"))
    }
}
