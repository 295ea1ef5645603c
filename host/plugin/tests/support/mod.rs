//! Guests for the tests of the runtime, most of them hand-written modules, and fake imports.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test is a crate that uses only a part of this"
)]

pub mod text_call;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use flyball_plugin::{
    Allowance, Batch, CertificateTemplate, Charge, CloudCall, CloudError, Cursor, Engine,
    EngineOptions, Held, HttpGrant, Imports, Limits, LogLevel, MemoEntry, Metered, ObjectReference,
    Operation, Page, Plugin, Read, Target, Write,
};
use flyball_types::{ApiError, Catalogue, Projection, Query};
use futures::FutureExt;
use futures::future::BoxFuture;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The exit code of a measurement that is out of its bounds.
pub const OUT_OF_BOUNDS: i32 = 2;

/// The guest that does what its key names. See `guest.wat`.
pub fn guest() -> Vec<u8> {
    component(include_str!("guest.wat"), None)
}

/// Builds a component from a module in the text format. `world` is the name and the WIT text of another world than the
/// controller's.
pub fn component(module: &str, world: Option<(&str, &str)>) -> Vec<u8> {
    let mut core = wat::parse_str(module).unwrap();
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_dir(wit()).unwrap();
    if let Some((_, text)) = world {
        package = resolve.push_str("test.wit", text).unwrap();
    }
    let name = world.map_or("controller", |(name, _)| name);
    let world = resolve.select_world(&[package], Some(name)).unwrap();
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default()
        .validate(true)
        .module(&core)
        .unwrap()
        .encode()
        .unwrap()
}

/// The guest that misbehaves in the way that its key names.
pub fn faulty() -> Vec<u8> {
    component_file("faulty")
}

/// The path at which `cargo xtask guests` builds a component. `FLYBALL_COMPONENTS` may name a folder with other builds
/// of some components.
pub fn component_path(name: &str) -> PathBuf {
    let file = format!("{name}.wasm");
    let other = std::env::var_os("FLYBALL_COMPONENTS").map(|folder| Path::new(&folder).join(&file));
    if let Some(path) = other.filter(|path| path.exists()) {
        return path;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    target.join("guests/components").join(file)
}

/// Reads a component that `cargo xtask guests rust` has built.
pub fn component_file(name: &str) -> Vec<u8> {
    let path = component_path(name);
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}: build it with `cargo xtask guests rust`",
            path.display()
        )
    })
}

fn wit() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit"))
}

/// An engine with few instance slots.
pub fn engine() -> Engine {
    engine_with(|_| ())
}

/// An engine with few instance slots and changed options.
pub fn engine_with(change: impl FnOnce(&mut EngineOptions)) -> Engine {
    let mut options = EngineOptions {
        max_instances: 16,
        ..EngineOptions::default()
    };
    change(&mut options);
    Engine::new(options).unwrap()
}

/// The guest as a plugin with the default limits.
pub async fn plugin() -> Plugin {
    plugin_with(|_| ()).await
}

/// The guest as a plugin with changed limits.
pub async fn plugin_with(change: impl FnOnce(&mut Limits)) -> Plugin {
    plugin_of(&engine(), change).await
}

/// The guest as a plugin of this engine, with changed limits.
pub async fn plugin_of(engine: &Engine, change: impl FnOnce(&mut Limits)) -> Plugin {
    let component = engine.load(guest().into()).await.unwrap();
    let mut limits = Limits::default();
    change(&mut limits);
    Plugin::new(engine, component, limits).unwrap()
}

/// Returns the result of a query.
pub type Lister = dyn Fn(&Query, &Projection) -> Page + Send + Sync;

/// Imports that return their fields.
#[derive(Default)]
pub struct Fake {
    /// The result of each read.
    pub object: Vec<u8>,
    /// True if the cache holds no object.
    pub is_empty: bool,
    /// If set, runs queries instead of returning `object`.
    pub lister: Option<Box<Lister>>,
    /// The duration of live reads and of batches of writes.
    pub delay: Duration,
    /// True if `raw` never returns.
    pub hangs: bool,
    /// True if `now` panics.
    pub panics: bool,
    /// The value of the configuration key `describe`.
    pub describe: Option<&'static str>,
    /// The first 100 lines that were logged.
    pub lines: Mutex<Vec<(LogLevel, String)>>,
    /// The first 100 batches of writes that were run.
    pub batches: Mutex<Vec<Batch>>,
    /// The only granted server for HTTP requests, and the runtime that drives the connections.
    pub server: Option<(String, tokio::runtime::Handle)>,
    /// How long a call of the cloud takes; none if no cloud is granted.
    pub cloud_delay: Option<Duration>,
    /// The credentials: their names and values.
    pub credentials: Vec<(&'static str, String)>,
    /// Number of calls of the cloud.
    pub cloud_calls: AtomicUsize,
    /// Number of lines that were logged.
    pub logged: AtomicUsize,
    /// Number of calls of `raw` that have started.
    pub raws: AtomicUsize,
    /// Number of batches of writes that have started.
    pub running: AtomicUsize,
    /// The bytes that the last batch of writes was charged with.
    pub charged: AtomicUsize,
    /// The bytes of the longest text that a function received. The texts of a list count together.
    pub longest_text: AtomicUsize,
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

    /// Notes the lengths of texts that a function received.
    fn see<'a>(&self, texts: impl IntoIterator<Item = &'a str>) {
        for text in texts {
            self.longest_text.fetch_max(text.len(), SeqCst);
        }
    }

    /// Notes the length of a list of texts.
    fn see_list<'a>(&self, texts: impl IntoIterator<Item = &'a String>) {
        let bytes = texts.into_iter().map(String::len).sum();
        self.longest_text.fetch_max(bytes, SeqCst);
    }

    fn see_object(&self, object: &ObjectReference) {
        self.see([&*object.kind, &object.namespace, &object.name, &object.uid]);
    }

    fn see_query(&self, query: &Query) {
        let conditions = query.conditions();
        self.see([&*query.kind, &query.namespace]);
        self.see_list(conditions.iter().flat_map(|(name, value)| [name, value]));
    }

    fn see_read(&self, read: &Read) {
        match read {
            Read::Get {
                kind,
                namespace,
                name,
                fields,
            } => {
                self.see([&**kind, namespace, name]);
                self.see_list(fields);
            }
            Read::List {
                kind,
                namespace,
                parameters,
                fields,
            } => {
                self.see([&**kind, namespace]);
                self.see_list(parameters.iter().flat_map(|(name, value)| [name, value]));
                self.see_list(fields);
            }
            Read::Raw { path } => self.see([&**path]),
        }
    }

    fn see_write(&self, write: &Write) {
        let Target {
            kind,
            namespace,
            name,
            subresource,
        } = &write.target;
        self.see([&**kind, namespace, name, subresource]);
        self.see_list(&write.returns);
        match &write.operation {
            Operation::Update {
                resource_version, ..
            }
            | Operation::UpdateStatus {
                resource_version, ..
            } => self.see([&**resource_version]),
            Operation::Patch { patch_type, .. } => self.see([&**patch_type]),
            Operation::DeleteCollection {
                label_selector,
                field_selector,
            } => self.see([&**label_selector, field_selector]),
            Operation::Create { .. } | Operation::Delete => {}
        }
    }

    fn see_template(&self, template: &CertificateTemplate) {
        let CertificateTemplate {
            subject,
            dns_names,
            email_addresses,
            ip_addresses,
            uris,
            extended_key_usages,
            ..
        } = template;
        let attributes = subject.iter().flatten();
        self.see(attributes.flat_map(|(oid, value)| [&**oid, value]));
        for texts in [
            dns_names,
            email_addresses,
            ip_addresses,
            uris,
            extended_key_usages,
        ] {
            self.see(texts.iter().map(String::as_str));
        }
    }

    async fn wait(&self) {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }
}

/// Imports with the default values.
pub fn plain() -> Arc<Fake> {
    Fake::new(|_| ())
}

/// An endless snapshot in which each page is the same.
struct Rest(Vec<u8>);

impl Cursor for Rest {
    fn next(self: Box<Self>, _limit: u32, _: &Allowance) -> Result<Page, ApiError> {
        Ok(Page {
            items: self.0.clone(),
            rest: Some(self),
        })
    }

    fn size(&self) -> usize {
        self.0.len()
    }
}

impl Imports for Fake {
    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError> {
        self.see([kind, namespace, name]);
        self.see_list(fields);
        Ok((!self.is_empty).then(|| self.object.clone().into()))
    }

    /// A list with a limit of one object has a further page.
    fn lister_list(
        &self,
        query: &Query,
        projection: &Projection,
        limit: u32,
        _: &Allowance,
    ) -> Result<Page, ApiError> {
        self.see_query(query);
        if let Projection::Fields(paths) | Projection::Columns(paths) = projection {
            self.see_list(paths);
        }
        if let Some(lister) = &self.lister {
            return Ok(lister(query, projection));
        }
        if query.kind != "v1/Pod" {
            return Err(ApiError::unknown_kind("not a pod"));
        }
        let items = self.object.clone();
        let rest = (limit == 1).then(|| Box::new(Rest(items.clone())) as Box<dyn Cursor>);
        Ok(Page { items, rest })
    }

    fn lister_count(&self, query: &Query, _: &Allowance) -> Result<u32, ApiError> {
        self.see_query(query);
        Ok(1)
    }

    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool {
        self.see_object(object);
        false
    }

    fn reader_read(&self, read: Read, _: Allowance) -> BoxFuture<'_, Result<Held, ApiError>> {
        self.see_read(&read);
        async move {
            if !matches!(read, Read::Raw { path } if path == "/slow") {
                return Err(ApiError::denied("no"));
            }
            self.raws.fetch_add(1, SeqCst);
            if self.hangs {
                std::future::pending::<()>().await;
            }
            self.wait().await;
            Ok(Bytes::from(self.object.clone()).into())
        }
        .boxed()
    }

    fn discovery_kinds(&self) -> BoxFuture<'_, Result<Catalogue, ApiError>> {
        async { Err(ApiError::denied("no")) }.boxed()
    }

    fn writer_run(
        &self,
        batch: Batch,
        charge: Charge,
        _: Allowance,
    ) -> BoxFuture<'_, Vec<Result<Held, ApiError>>> {
        let writes = batch.writes.iter().flatten();
        writes.for_each(|write| self.see_write(write));
        async move {
            self.charged.store(charge.bytes(), SeqCst);
            self.running.fetch_add(1, SeqCst);
            self.wait().await;
            let results = batch
                .writes
                .iter()
                .map(|write| match write {
                    Ok(_) => Ok(Bytes::from(self.object.clone()).into()),
                    Err(error) => Err(error.clone()),
                })
                .collect();
            let mut batches = self.batches.lock().unwrap();
            if batches.len() < 100 {
                batches.push(batch);
            }
            results
        }
        .boxed()
    }

    fn events_emit(
        &self,
        about: ObjectReference,
        event_type: &str,
        reason: &str,
        message: &str,
        _: &[u8],
    ) {
        self.see_object(&about);
        self.see([event_type, reason, message]);
    }

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.see([queue, key]);
        Ok(())
    }

    fn queue_add_after(&self, queue: &str, key: &str, _: u32) -> Result<(), ApiError> {
        self.see([queue, key]);
        Ok(())
    }

    fn queue_forget(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.see([queue, key]);
        Ok(())
    }

    fn queue_requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError> {
        self.see([queue, key]);
        Ok(0)
    }

    fn clock_now(&self) -> SystemTime {
        assert!(!self.panics, "a fault of the imports");
        UNIX_EPOCH + Duration::from_secs(1_000_000)
    }

    fn random_bytes(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }

    fn log_write(&self, level: LogLevel, message: &str, fields: &[(String, String)]) {
        self.see([message]);
        self.see(fields.iter().flat_map(|(name, value)| [&**name, value]));
        self.logged.fetch_add(1, SeqCst);
        let mut lines = self.lines.lock().unwrap();
        if lines.len() < 100 {
            lines.push((level, message.into()));
        }
    }

    fn log_enabled(&self, _: LogLevel) -> bool {
        true
    }

    fn metrics_add(&self, name: &str, labels: &[String], _: f64) {
        self.see([name]);
        self.see(labels.iter().map(String::as_str));
    }

    fn metrics_set(&self, name: &str, labels: &[String], value: f64) {
        self.metrics_add(name, labels, value);
    }

    fn metrics_observe(&self, name: &str, labels: &[String], value: f64) {
        self.metrics_add(name, labels, value);
    }

    fn config_get(&self, key: &str) -> Option<String> {
        self.see([key]);
        self.describe
            .filter(|_| key == "describe")
            .map(str::to_owned)
    }

    fn memo_get(&self, key: &str) -> Option<MemoEntry> {
        self.see([key]);
        None
    }

    fn memo_put(
        &self,
        key: &str,
        _: u32,
        _: Bytes,
        object_uid: &str,
        _: u32,
    ) -> Result<u32, ApiError> {
        self.see([key, object_uid]);
        Err(ApiError::denied("no"))
    }

    fn memo_remove(&self, key: &str) {
        self.see([key]);
    }

    fn cloud_call(&self, _: CloudCall) -> BoxFuture<'_, Result<Vec<u8>, CloudError>> {
        async move {
            let delay = self.cloud_delay;
            tokio::time::sleep(delay.ok_or_else(|| CloudError::denied("no"))?).await;
            self.cloud_calls.fetch_add(1, SeqCst);
            Ok(b"{}".to_vec())
        }
        .boxed()
    }

    fn credential(&self, name: &str) -> Option<Bytes> {
        let mut all = self.credentials.iter();
        let found = all.find(|(own, _)| *own == name);
        found.map(|(_, value)| Bytes::from(value.clone()))
    }

    fn http(&self, server: &str) -> Result<HttpGrant, ApiError> {
        match &self.server {
            Some((granted, runtime)) if granted == server => Ok(HttpGrant {
                runtime: runtime.clone(),
                check_addresses: Box::new(Ok),
            }),
            _ => Err(ApiError::denied("no")),
        }
    }

    fn signer_sign_jwt(&self, key: String, _: Vec<u8>) -> BoxFuture<'_, Metered<String>> {
        self.see([&*key]);
        refused()
    }

    fn signer_verify_jwt(&self, key: String, token: String) -> BoxFuture<'_, Metered<Vec<u8>>> {
        self.see([&*key, &token]);
        refused()
    }

    fn signer_certificate_authority(&self, signer: String) -> BoxFuture<'_, Metered<Vec<Vec<u8>>>> {
        self.see([&*signer]);
        refused()
    }

    fn signer_sign_certificate(
        &self,
        signer: String,
        template: CertificateTemplate,
    ) -> BoxFuture<'_, Metered<Vec<u8>>> {
        self.see([&*signer]);
        self.see_template(&template);
        refused()
    }
}

fn refused<T: Send + 'static>() -> BoxFuture<'static, Metered<T>> {
    let refused = Metered {
        result: Err(ApiError::denied("no")),
        cpu_time: Duration::ZERO,
    };
    Box::pin(std::future::ready(refused))
}
