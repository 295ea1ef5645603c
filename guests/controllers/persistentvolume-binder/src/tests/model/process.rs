//! A process of the controller: its cache may be older than the server's objects, and it may end at any write.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use flyball_sdk::certificate::CertificateTemplate;
use flyball_sdk::imports::{Imports, MetricOperation, Page, Read};
use flyball_sdk::log::Level;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;
use flyball_sdk::write::{Action, Batch, Target};
use flyball_sdk::{ObjectReference, Time};
use flyball_types::{Catalogue, EventOptions, Projection, Query};

use super::super::world::{CLASS, MOCK, PV, PVC};
use super::watchdog::{check_writes, frees};
use super::world::World;
use crate::Binder;
use crate::views::Node;

/// How a write ends for a process that dies with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// The server never sees the request.
    Before,
    /// The server carries it out, and nobody reads the response.
    After,
}

pub(super) struct Process {
    /// The objects that it knows, with its own writes.
    cache: Cluster,
    /// The writes that it survives.
    writes_left: Cell<Option<(u32, Death)>>,
    is_dead: Cell<bool>,
    queue: Cell<&'static str>,
    world: Weak<World>,
}

impl Process {
    pub(super) fn new(world: &Rc<World>) -> Rc<Self> {
        let process = Self {
            cache: Cluster::new(),
            writes_left: Cell::new(None),
            is_dead: Cell::new(false),
            queue: Cell::default(),
            world: Rc::downgrade(world),
        };
        process.cache.restrict(Binder::describe());
        process.catch_up(&world.server);
        Rc::new(process)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.get()
    }

    /// Lets the process die at its next writes.
    pub(super) fn doom(&self, writes: u32, death: Death) {
        self.writes_left.set(Some((writes, death)));
    }

    /// Reconciles a key.
    pub(super) fn reconcile(&self, queue: &'static str, key: &str) -> Result<Outcome, Error> {
        self.resume(queue);
        Binder::reconcile(&Host::new(self), &Request::new(queue, key))
    }

    /// The queue of the key that is reconciled.
    pub(super) fn queue(&self) -> &'static str {
        self.queue.get()
    }

    pub(super) fn resume(&self, queue: &'static str) {
        self.queue.set(queue);
    }

    /// Takes over all objects of the server.
    pub(super) fn catch_up(&self, server: &Cluster) {
        for kind in [PV, PVC, CLASS, Node::KIND] {
            for object in self.cache.objects(kind) {
                self.follow(server, kind, &object["metadata"]);
            }
            for object in server.objects(kind) {
                self.follow(server, kind, &object["metadata"]);
            }
        }
    }

    /// Takes over one object of the server.
    pub(super) fn follow(&self, server: &Cluster, kind: &str, metadata: &Value) {
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        match server.object(kind, namespace, name) {
            Some(object) => self.cache.put(object),
            None => self.cache.remove(kind, namespace, name),
        }
    }

    fn world(&self) -> Rc<World> {
        self.world
            .upgrade()
            .expect("the world outlives its processes")
    }

    /// Runs a write, unless the process dies before.
    fn run(&self, batch: Batch) -> Vec<Result<Vec<u8>, ApiError>> {
        let world = self.world();
        let count = batch.writes.len();
        let dead = || vec![Err(ApiError::timeout("the process is dead")); count];
        let mut death = None;
        match self.writes_left.get() {
            _ if self.is_dead() => return dead(),
            Some((0, how)) => {
                world.tell(format!("  a process dies {how:?}"));
                self.is_dead.set(true);
                death = Some(how);
            }
            Some((left, how)) => self.writes_left.set(Some((left - 1, how))),
            None => {}
        }
        if death == Some(Death::Before) {
            return dead();
        }
        let writes: Vec<(String, Target)> = { batch.writes.iter() }
            .map(|write| (verb(&write.action), write.target.clone()))
            .collect();
        check_writes(&world, &batch);
        let results = world.server.writer_run(batch);
        for ((verb, target), result) in writes.iter().zip(&results) {
            let Target {
                kind,
                namespace,
                name,
                ..
            } = target;
            match result {
                Err(error) => world.tell(format!("  {verb} {kind} {namespace}/{name}: {error}")),
                Ok(_) => {
                    world.tell(format!("  {verb} {kind} {namespace}/{name}"));
                    let metadata = json!({"namespace": namespace, "name": name});
                    self.follow(&world.server, kind, &metadata);
                }
            }
        }
        if death.is_some() { dead() } else { results }
    }
}

impl Imports for Process {
    fn share(&self) -> Rc<dyn Imports> {
        unreachable!("the controller borrows its imports")
    }

    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Option<Vec<u8>>, ApiError> {
        self.world().interfere(self);
        self.cache.lister_get(kind, namespace, name, fields)
    }

    fn lister_list(
        &self,
        query: Query,
        projection: Projection,
        limit: u32,
    ) -> Result<Page, ApiError> {
        self.cache.lister_list(query, projection, limit)
    }

    fn lister_count(&self, query: Query) -> Result<u32, ApiError> {
        self.cache.lister_count(query)
    }

    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool {
        self.cache.lister_deletion_observed(object)
    }

    fn reader_run(&self, reads: Vec<Read>) -> Vec<Result<Vec<u8>, ApiError>> {
        self.world().server.reader_run(reads)
    }

    fn discovery_kinds(&self) -> Result<Catalogue, ApiError> {
        self.cache.discovery_kinds()
    }

    fn writer_run(&self, batch: Batch) -> Vec<Result<Vec<u8>, ApiError>> {
        self.world().interfere(self);
        self.run(batch)
    }

    fn events_emit(&self, _: &ObjectReference, _: &str, _: &str, _: &str, _: &EventOptions) {}

    fn queue_add(&self, _: &str, _: &str) -> Result<(), ApiError> {
        // All keys are reconciled in a random order anyway.
        Ok(())
    }

    fn queue_add_after(&self, _: &str, _: &str, _: u32) -> Result<(), ApiError> {
        Ok(())
    }

    fn queue_forget(&self, _: &str, _: &str) -> Result<(), ApiError> {
        Ok(())
    }

    fn queue_requeues(&self, _: &str, _: &str) -> Result<u32, ApiError> {
        Ok(0)
    }

    fn clock_now(&self) -> Time {
        self.world().server.clock_now()
    }

    fn random_bytes(&self, count: u32) -> Vec<u8> {
        self.cache.random_bytes(count)
    }

    fn log_write(&self, _: Level, _: &str, _: &[(String, String)]) {}

    fn log_enabled(&self, _: Level) -> bool {
        false
    }

    fn metrics(&self, _: MetricOperation, _: &str, _: &[&str], _: f64) {}

    fn config_get(&self, key: &str) -> Option<String> {
        match key {
            "volume-plugin" => Some(MOCK.into()),
            key => self.cache.config_get(key),
        }
    }

    fn memo_get(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        self.cache.memo_get(key)
    }

    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: &[u8],
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError> {
        self.cache
            .memo_put(key, expected, value, object_uid, ttl_ms)
    }

    fn memo_remove(&self, key: &str) {
        self.cache.memo_remove(key);
    }

    fn signer_sign_jwt(&self, _: &str, _: &[u8]) -> Result<String, ApiError> {
        unreachable!("the controller signs nothing")
    }

    fn signer_verify_jwt(&self, _: &str, _: &str) -> Result<Vec<u8>, ApiError> {
        unreachable!("the controller signs nothing")
    }

    fn signer_certificate_authority(&self, _: &str) -> Result<Vec<Vec<u8>>, ApiError> {
        unreachable!("the controller signs nothing")
    }

    fn signer_sign_certificate(
        &self,
        _: &str,
        _: &CertificateTemplate,
    ) -> Result<Vec<u8>, ApiError> {
        unreachable!("the controller signs nothing")
    }
}

/// The name of a write in the history.
fn verb(action: &Action) -> String {
    match action {
        Action::Create(_) => "create".into(),
        Action::Delete => "delete".into(),
        Action::Update(_, change) if frees(change) => "frees".into(),
        _ => "update".into(),
    }
}
