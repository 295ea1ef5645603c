//! The memory that a memo, the deltas for `route` and the last reconciles are said to take, and that of the watches of a
//! description, compared with the memory that the process gets from the system.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_cache::{ApiResource, Delta, InformerFactory, Object};
use flyball_fakes::memory::resident;
use flyball_fakes::source::FakeSource;
use flyball_reads::interest::interest;
use flyball_runtime::history::{History, HistoryEntry};
use flyball_runtime::memo::{Memo, MemoCall};
use flyball_runtime::queue::Reason;
use flyball_runtime::route_backlog::RouteBacklog;
use flyball_runtime::router::Router;
use flyball_types::Kind;
use flyball_types::description::Description;
use flyball_writer::Touched;
use serde_json::{Value, json};
use tokio::sync::Mutex;

const CAPACITY: usize = 64 << 20;
/// The most memory in bytes that the watches of one plugin may take, without the objects. A description bounds it.
const WATCHES: usize = 128 << 20;
/// The memory in bytes that the process may take for other reasons during a measurement.
const NOISE: usize = 2 << 20;
/// Held by the test that measures.
static MEASURING: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn a_full_memo_takes_the_memory_that_is_counted() {
    let _alone = MEASURING.lock().await;
    for (size, is_tagged) in [(0, false), (0, true), (100, false), (1000, true)] {
        let memo = Arc::new(Memo::new(Some(CAPACITY as u64)));
        let before = resident();
        for number in 0.. {
            let call = MemoCall::new(memo.clone());
            let uid = is_tagged.then(|| format!("uid-{number}"));
            let value = Bytes::from(vec![1; size]);
            let key = format!("key-{number}");
            let put = call.put(&key, 0, value, &uid.unwrap_or_default(), 0);
            if put.is_err() {
                break;
            }
            call.commit();
        }
        let (taken, counted) = (resident().saturating_sub(before), memo.bytes());
        assert!(counted > CAPACITY / 4 * 3, "{counted} bytes");
        assert!(
            taken <= counted + counted / 2,
            "values of {size} bytes, tagged: {is_tagged}: {taken} bytes are resident, and {counted} are counted"
        );
    }
}

/// No cache holds a deleted object any more.
#[tokio::test]
async fn the_deltas_that_wait_for_route_take_the_memory_that_is_counted() {
    let _alone = MEASURING.lock().await;
    for (objects, size) in [(100_000, 100), (20_000, 5_000)] {
        let before = resident();
        let mut backlog = RouteBacklog::default();
        for number in 0..objects {
            let data = "x".repeat(size);
            let json = format!(
                r#"{{"metadata": {{"name": "a-{number}", "namespace": "demo", "uid": "uid-{number}",
                    "resourceVersion": "1", "labels": {{"a": "{number}"}}}}, "data": "{data}"}}"#
            );
            let object = Object::parse(json.as_bytes()).unwrap();
            let delta = Delta {
                old: Some(object),
                new: None,
                between: Vec::new(),
                initial: false,
            };
            backlog.push(0, &delta);
        }
        let (taken, counted) = (resident().saturating_sub(before), backlog.bytes());
        assert!(
            taken <= counted + counted / 2,
            "{objects} objects of {size} bytes: {taken} bytes are resident, and {counted} are counted"
        );
    }
}

/// The texts have the longest form that they may have.
#[tokio::test]
async fn the_last_reconciles_take_the_memory_that_is_counted() {
    let _alone = MEASURING.lock().await;
    for (size, writes) in [(0, 0), (4096, 0), (4096, 32)] {
        let name = |number: usize| format!("{number}-{}", "n".repeat(size.min(253)));
        let touched = |number| Touched {
            verb: "create",
            kind: Kind::new("example.com", "v1", "Widget"),
            subresource: String::new(),
            key: name(number),
        };
        let (before, history) = (resident(), History::default());
        // The first ones are forgotten.
        for number in 0..2000 {
            history.add(HistoryEntry {
                at: SystemTime::now(),
                digest: "0123".into(),
                queue: "q".into(),
                key: name(number).into(),
                why: Reason::Requeued {
                    by: name(number).into(),
                },
                coalesced: 0,
                attempt: 0,
                queued: Duration::ZERO,
                took: Duration::ZERO,
                failed: Some("x".repeat(size)),
                wrote: (0..writes).map(touched).collect(),
                trace: None,
                cause: None,
            });
        }
        let (taken, counted) = (resident().saturating_sub(before), history.bytes());
        assert!(counted > 512 * (size + writes * size.min(253)));
        assert!(
            taken <= counted + counted / 2 + NOISE,
            "texts of {size} bytes, {writes} writes: {taken} bytes are resident, and {counted} are counted"
        );
    }
}

/// The description of a plugin with these watches.
fn description(watches: &[Value]) -> Description {
    let document = json!({
        "format": 1, "name": "a", "queues": [{"name": "q"}], "watches": watches,
    });
    Description::read(&document.to_string()).expect("it is within its limits")
}

fn kind(number: usize) -> String {
    format!("example.com/v1/Kind{number}")
}

/// As many kinds and declared fields as a description may have.
fn many_fields() -> Description {
    let path = |field: usize| format!("spec.{}.field-{field}", "f".repeat(30));
    let watch = |number| {
        let fields: Vec<String> = (0..300).map(path).collect();
        json!({"kind": kind(number), "fields": fields})
    };
    description(&(0..64).map(watch).collect::<Vec<_>>())
}

/// Paths whose mask is many times as large as they are.
fn large_masks() -> Description {
    let path = |depth: usize| match depth {
        0 => "a.z".to_owned(),
        depth => format!("{}.f{depth}.z", vec!["[*]"; depth].join("")),
    };
    let watch = |number| {
        let fields: Vec<String> = (0..9).map(path).collect();
        json!({"kind": kind(number), "fields": fields})
    };
    description(&(0..64).map(watch).collect::<Vec<_>>())
}

/// As many watches of a part of a kind as a description may have, with the longest selectors.
fn long_selectors() -> Description {
    let watch = |number: usize| {
        let labels = (0..800).map(|label| format!("l{label}=v{}", number % 10));
        let labels: Vec<String> = labels.collect();
        json!({"kind": kind(number / 4), "fields": ["spec"], "labelSelector": labels.join(",")})
    };
    description(&(0..16).map(watch).collect::<Vec<_>>())
}

/// As many mappings and values in them as a description may have.
fn many_mappings() -> Description {
    let having =
        |value: usize| json!({"path": format!("spec.field-{value}"), "value": "v".repeat(20)});
    let mapping = json!({"to": "itself", "having": (0..14).map(having).collect::<Vec<_>>()});
    let watch = |number| json!({"kind": kind(number), "fields": ["spec"], "map": vec![mapping.clone(); 64]});
    description(&(0..4).map(watch).collect::<Vec<_>>())
}

#[tokio::test]
async fn the_watches_of_a_plugin_take_no_more_memory_than_a_description_may_ask_for() {
    let _alone = MEASURING.lock().await;
    type Shape = fn() -> Description;
    let shapes: [(&str, Shape); 4] = [
        ("fields", many_fields),
        ("masks", large_masks),
        ("selectors", long_selectors),
        ("mappings", many_mappings),
    ];
    for (name, shape) in shapes {
        let before = resident();
        let (description, factory) = (
            shape(),
            InformerFactory::new(Arc::new(FakeSource(Vec::new()))),
        );
        let opened = description.watches.iter().map(|watch| {
            let kind = watch.kind.clone().expect("each watch names a kind");
            let router = Router::new(&description, watch, &kind);
            let resource = Arc::new(ApiResource::new(kind, "kinds", true));
            let interest = interest(&description, watch, resource).expect("it is valid");
            (router, factory.informer(interest))
        });
        let opened: Vec<_> = opened.collect();
        assert_eq!(opened.len(), description.watches.len());
        let taken = resident().saturating_sub(before);
        assert!(taken <= WATCHES, "{name}: {taken} bytes are resident");
    }
}
