//! The memory that a cache says it takes, compared with the memory that the process gets from the system: its objects,
//! their indexes, and the rows that plugins have read of them.

mod fake;

use std::sync::Arc;

use fake::{Server, interest, started};
use flyball_cache::{Informer, InformerFactory, ListQuery, Lister, OverlayWriter, View};
use flyball_fakes::memory::resident;
use flyball_types::Columns;
use serde_json::json;

const OBJECTS: usize = 2000;
/// The memory in bytes that the process may take for other reasons during a measurement, mostly buffers of the list.
const NOISE: usize = 24 << 20;

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
