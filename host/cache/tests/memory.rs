//! The memory that a cache says it takes, compared with the memory that the process gets from the system: its objects,
//! the rows that plugins have read of them, and the indexes that a watch may declare.

mod fake;

use std::sync::Arc;

use fake::{Server, interest, started};
use flyball_cache::{Informer, InformerFactory, Interest, ListQuery, Lister, OverlayWriter, View};
use flyball_fakes::memory::resident;
use flyball_types::{Columns, FieldPath};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

const OBJECTS: usize = 2000;
/// The most indexed paths and paths of selectors that a plugin may declare for a kind.
const INDEXES: usize = 8;
const SELECTORS: usize = 4;
/// The memory in bytes that the process may take for other reasons during a measurement, mostly buffers of the list.
const NOISE: usize = 24 << 20;
/// Held by the test that measures.
static MEASURING: Mutex<()> = Mutex::const_new(());

fn counted(factory: &InformerFactory) -> usize {
    factory.status().iter().map(|status| status.bytes).sum()
}

/// A plugin that sees all fields.
fn lister(informer: &Informer) -> Lister {
    let view = View {
        mask: informer.mask().clone(),
        namespaces: None,
    };
    Lister::new(informer.clone(), OverlayWriter::new().reader(), view)
}

/// 256 columns, the most that a row may have, with paths of their own.
fn columns(number: usize) -> Arc<Columns> {
    let path = |column: usize| format!("data.field-{number}-{column}-{}", "x".repeat(40));
    Arc::new(Columns::parse((0..256).map(path)).unwrap())
}

#[tokio::test]
async fn objects_and_the_rows_that_plugins_read_take_the_memory_that_is_counted() {
    let _alone = MEASURING.lock().await;
    let server = Server::new();
    for number in 0..OBJECTS {
        let labels = json!({"app": format!("app-{number}")});
        let object = json!({"metadata": {"labels": labels}, "data": {"text": "x".repeat(4000)}});
        server.put("demo", &format!("object-{number}"), object);
    }
    let before = resident();
    let (factory, informer) = started(&server, interest(&["."])).await;
    informer.synced().await;
    let (held, taken) = (counted(&factory), resident().saturating_sub(before));
    assert!(held > OBJECTS * 4000, "{held} bytes are counted");
    assert!(
        taken <= held + held / 2 + NOISE,
        "objects: {taken} bytes are resident, and {held} are counted"
    );

    // A plugin reads other columns of each object, all of which are long and absent.
    let lister = lister(&informer);
    let (counted_before, before) = (held, resident());
    for (number, object) in lister.list(&ListQuery::default()).iter().enumerate() {
        let mut row = Vec::new();
        let mut rows = lister.rows(columns(number)).unwrap();
        rows.append(object, &mut row, usize::MAX).unwrap();
    }
    let held = counted(&factory) - counted_before;
    let taken = resident().saturating_sub(before);
    assert!(held > OBJECTS * 1000, "{held} bytes are counted");
    assert!(
        taken <= held + held / 2 + NOISE,
        "rows: {taken} bytes are resident, and {held} are counted"
    );
}

/// Fields with the same value, and their paths.
fn fields(count: usize, value: &Value) -> (Value, Vec<FieldPath>) {
    let names = (0..count).map(|number| format!("field-{number}"));
    let (fields, paths): (Map<String, Value>, _) = names
        .map(|name| {
            let path = FieldPath::of_fields(&["spec", &name]);
            ((name, value.clone()), path)
        })
        .unzip();
    (fields.into(), paths)
}

#[tokio::test]
async fn indexes_take_the_memory_that_is_counted() {
    let values = |number: usize| (0..20).map(move |value| format!("value-{number}-{value}"));
    let declare = |interest: &mut Interest, paths| interest.indexes = paths;
    measure(INDEXES, |number| values(number).collect(), declare).await;
}

/// Each requirement takes several times as much as its text.
#[tokio::test]
async fn selectors_take_the_memory_that_is_counted() {
    let labels = |_| (0..100).map(|label| (format!("l{label}"), Value::from("a")));
    let declare = |interest: &mut Interest, paths| interest.selectors = paths;
    measure(
        SELECTORS,
        |number| Value::Object(labels(number).collect()),
        declare,
    )
    .await;
}

/// Watches objects with a value in each of as many declared paths, and compares the counted bytes with the resident
/// ones.
async fn measure(
    count: usize,
    value: impl Fn(usize) -> Value,
    declare: impl FnOnce(&mut Interest, Vec<FieldPath>),
) {
    let _alone = MEASURING.lock().await;
    let server = Server::new();
    for number in 0..OBJECTS {
        let (spec, _) = fields(count, &value(number));
        server.put("demo", &format!("object-{number}"), json!({"spec": spec}));
    }
    let (_, paths) = fields(count, &Value::Null);
    let mut declares = interest(&["spec"]);
    declare(&mut declares, paths);
    let before = resident();
    let (factory, informer) = started(&server, declares).await;
    informer.synced().await;
    let (held, taken) = (counted(&factory), resident().saturating_sub(before));
    assert!(
        taken <= held + held / 2 + NOISE,
        "{taken} bytes are resident, and {held} are counted"
    );
}
