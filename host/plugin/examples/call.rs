//! Measures the cost of two calls. The first does nothing; the measurement includes the workqueue. The second lists
//! 1,000 of 10,000 pods and reads five fields of each. It is measured in the sandbox and natively, with the same source
//! and the same cache. Prints one `name<TAB>value<TAB>unit` per line.
//!
//!     cargo xtask bench call

#[path = "../../cache/benches/support/mod.rs"]
mod pods;
#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use flyball_cache::{InformerFactory, ListQuery, Lister, OverlayWriter, Uid, View};
use flyball_plugin::{Engine, EngineOptions, Imports, Limits, Outcome, Page, Plugin};
use flyball_scan::Scan;
use flyball_sdk::testing::Cluster;
use flyball_sdk::{Controller, Request};
use flyball_types::{Columns, Mask, Projection, Query};
use flyball_workqueue::{Config, Priority, WorkQueue};
use pods::{Pods, owner, synced};
use support::{Fake, component_file, plain};

const PODS: usize = 10_000;
/// Pods of each owner.
const PODS_PER_OWNER: usize = 1000;
/// Rounds of each measurement. The figures are medians over the rounds.
const ROUNDS: usize = 5;
const CALLS: u32 = 200_000;
const SCANS: u32 = 200;
/// The maximum duration of a call that does nothing.
const MAX_CALL: Duration = Duration::from_micros(5);
/// The maximum ratio of a scan in the sandbox to a native scan.
const MAX_RATIO: f64 = 2.0;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    if !runtime.block_on(async { tokio::spawn(measure()).await.unwrap() }) {
        std::process::exit(support::OUT_OF_BOUNDS);
    }
}

async fn measure() -> bool {
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let component = engine.load(component_file("scan").into()).await.unwrap();
    let plugin = Plugin::new(&engine, component, Limits::default()).unwrap();

    let cache = Arc::new(Cache::start().await);
    let key = format!("{PODS_PER_OWNER}/{}", owner(3));
    let from_cache = cache.clone();
    let imports: Arc<dyn Imports> = Fake::new(|fake| {
        fake.lister = Some(Box::new(move |query, projection| Page {
            items: from_cache.rows(query, projection),
            rest: None,
        }));
    });
    let (mut idle, mut sandboxed, mut native) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        idle.push(nothing(&plugin).await);
        sandboxed.push(scan(&plugin, &imports, &key).await);
        let (cache, key) = (cache.clone(), key.clone());
        native.push(
            std::thread::spawn(move || scan_natively(&cache, &key))
                .join()
                .unwrap(),
        );
    }
    let (idle, sandboxed, native) = (median(idle), median(sandboxed), median(native));
    let ratio = sandboxed.as_secs_f64() / native.as_secs_f64();
    println!("a call that does nothing\t{}\tns", idle.as_nanos());
    println!(
        "{PODS_PER_OWNER} of {PODS} pods listed and read\t{}\tns",
        sandboxed.as_nanos()
    );
    println!("the same natively\t{}\tns", native.as_nanos());
    println!("in the sandbox / natively\t{ratio:.2}\t");
    let is_within = idle <= MAX_CALL && ratio <= MAX_RATIO;
    if !is_within {
        println!(
            "OUT OF BOUNDS: {MAX_CALL:?} for a call that does nothing, {MAX_RATIO} for the ratio"
        );
    }
    is_within
}

/// Measures taking a key from a queue that is never empty, calling the guest, and finishing the key.
async fn nothing(plugin: &Plugin) -> Duration {
    let queue: WorkQueue<Arc<str>, ()> = WorkQueue::new(Config::default());
    let keys: Vec<Arc<str>> = (0..100)
        .map(|number| format!("nothing/{number}").into())
        .collect();
    keys.iter()
        .for_each(|key| queue.add(key.clone(), Priority::Normal, ()));
    let imports: Arc<dyn Imports> = plain();
    let start = Instant::now();
    for _ in 0..CALLS {
        let item = queue.get().await.unwrap();
        let attempt = queue.num_requeues(item.key());
        let outcome = plugin
            .reconcile(imports.clone(), "scan", item.key(), attempt)
            .await
            .unwrap();
        assert_eq!(outcome, Outcome::Done);
        queue.forget(item.key());
        // Added while it is processed, so that it is queued again afterwards.
        queue.add(item.key().clone(), Priority::Normal, ());
    }
    start.elapsed() / CALLS
}

async fn scan(plugin: &Plugin, imports: &Arc<dyn Imports>, key: &str) -> Duration {
    let start = Instant::now();
    for _ in 0..SCANS {
        assert_eq!(
            plugin
                .reconcile(imports.clone(), "scan", key, 0)
                .await
                .unwrap(),
            Outcome::Done
        );
    }
    start.elapsed() / SCANS
}

fn scan_natively(cache: &Arc<Cache>, key: &str) -> Duration {
    let cluster = Cluster::new();
    let lister = cache.clone();
    cluster.set_lister(move |query, projection| flyball_sdk::imports::Page {
        items: lister.rows(query, projection),
        rest: None,
    });
    let (host, request) = (cluster.host(), Request::new("scan", key));
    let start = Instant::now();
    for _ in 0..SCANS {
        assert_eq!(
            Scan::reconcile(&host, &request).unwrap(),
            flyball_sdk::Outcome::Done
        );
    }
    start.elapsed() / SCANS
}

/// A cache of pods.
struct Cache {
    lister: Lister,
    columns: Arc<Columns>,
    _factory: InformerFactory,
}

impl Cache {
    async fn start() -> Self {
        let columns = Arc::new(Columns::parse(COLUMNS).unwrap());
        let mask = Mask::parse(&Scan::describe().watches[0].fields).unwrap();
        let (factory, informer) = synced(
            Pods {
                count: PODS,
                each: PODS_PER_OWNER,
            },
            mask,
        )
        .await;
        let view = View {
            mask: informer.mask().clone(),
            namespaces: None,
        };
        let lister = Lister::new(informer, OverlayWriter::new().reader(), view);
        Self {
            lister,
            columns,
            _factory: factory,
        }
    }

    /// Returns the rows of an owner's pods, in one page.
    fn rows(&self, query: &Query, projection: &Projection) -> Vec<u8> {
        assert_eq!(
            *projection,
            Projection::Columns(COLUMNS.map(String::from).into())
        );
        let owner = query.controller.as_deref().map(Uid::new);
        let mut projection = self.lister.rows(self.columns.clone()).unwrap();
        let mut page = b"[".to_vec();
        for object in self.lister.list(&ListQuery {
            controller: owner,
            ..ListQuery::default()
        }) {
            if page.len() > 1 {
                page.push(b',');
            }
            projection
                .append(&object, &mut page, usize::MAX)
                .expect("a row");
        }
        page.push(b']');
        page
    }
}

/// The fields that the guest reads of each pod.
const COLUMNS: [&str; 5] = [
    "metadata.name",
    "spec.nodeName",
    "status.phase",
    "status.conditions[type=Ready].status",
    "status.podIP",
];

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
