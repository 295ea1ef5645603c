//! The cost of events and reads: `cargo bench -p flyball-cache`.

mod support;

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flyball_cache::{ListQuery, Lister, Object, OverlayWriter, Uid, View};
use flyball_types::{Columns, Mask};
use support::{EACH, Pods, masks, node, owner, pod, synced};

/// The number of pods in the cache.
const PODS: usize = 10_000;
/// The number of pods in the measured initial list.
const LISTED: usize = 500;

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    let object = pod(77, 2);
    group.throughput(Throughput::Bytes(object.len() as u64));
    let [small, usual] = masks();
    for (name, mask) in [small, usual, ("whole", Mask::whole())] {
        let mut out = Vec::new();
        group.bench_function(format!("prune to a {name} mask"), |bencher| {
            bencher.iter(|| {
                out.clear();
                mask.prune(object.as_bytes(), &mut out)
                    .expect("a pod is an object");
            });
        });
    }
    group.bench_function("an object, whole", |bencher| {
        bencher.iter(|| Object::parse(object.as_bytes()).expect("a pod is an object"));
    });
    let columns = Columns::parse([
        "metadata.name",
        "status.phase",
        "status.conditions[type=Ready].status",
    ]);
    let columns = columns.expect("paths");
    let mut row = Vec::new();
    group.bench_function("a row of three columns", |bencher| {
        bencher.iter(|| {
            row.clear();
            columns
                .row(object.as_bytes(), &mut row, usize::MAX)
                .expect("a pod is an object");
        });
    });
    group.finish();
}

fn list(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut group = criterion.benchmark_group("initial list");
    group.throughput(Throughput::Elements(LISTED as u64));
    let [_, (_, usual)] = masks();
    group.bench_function("500 pods, decoded, indexed and published", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let (factory, informer) = synced(
                    Pods {
                        count: LISTED,
                        each: EACH,
                    },
                    usual.clone(),
                )
                .await;
                drop(informer.subscribe().next(LISTED).await);
                factory.shutdown().await;
            });
        });
    });
    group.finish();
}

fn read(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let [_, (_, usual)] = masks();
    let (_factory, informer) = runtime.block_on(synced(
        Pods {
            count: PODS,
            each: EACH,
        },
        usual,
    ));
    let view = View {
        mask: informer.mask().clone(),
        namespaces: None,
    };
    let lister = Lister::new(informer.clone(), OverlayWriter::new().reader(), view);
    let uid = Uid::new(&owner(7));
    let owned = ListQuery {
        controller: Some(uid),
        ..ListQuery::namespace("team-7")
    };
    let labelled = ListQuery {
        labels: "app=app-7".parse().expect("a selector"),
        ..ListQuery::namespace("team-7")
    };
    let placed = ListQuery {
        fields: vec![(node(), "node-7".into())],
        ..ListQuery::default()
    };
    let mut group = criterion.benchmark_group("read of 10,000 pods");
    group.bench_function("one by name", |bencher| {
        bencher.iter(|| lister.get("team-7", "app-7-7d4b9c6f5-000d3"));
    });
    let queries = [
        ("an owner's 30", &owned),
        ("a label's 30", &labelled),
        ("a node's 2", &placed),
        ("all", &ListQuery::default()),
    ];
    for (name, query) in queries {
        group.bench_function(name, |bencher| bencher.iter(|| lister.list(query)));
    }
    let columns =
        Columns::parse(["metadata.name", "status.phase", "spec.nodeName"]).expect("paths");
    let mut projection = lister.rows(Arc::new(columns)).expect("the view shows them");
    let mut page = Vec::new();
    group.bench_function("rows of an owner's 30", |bencher| {
        bencher.iter(|| {
            page.clear();
            lister.list(&owned).iter().for_each(|object| {
                projection
                    .append(object, &mut page, usize::MAX)
                    .expect("a row");
            });
        });
    });
    group.finish();
}

criterion_group!(benches, decode, list, read);
criterion_main!(benches);
