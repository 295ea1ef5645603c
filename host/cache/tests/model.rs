//! After random changes and failures of a server and of the connection, the cache and the replayed deltas equal the
//! server, and no object ever returned to an older version.

mod fake;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fake::{Server, interest, started};
use flyball_cache::{Deltas, ListQuery, Lister, OverlayWriter, Uid, View};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::{sleep, timeout};

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Pass,
    Cut,
    End,
    Compact,
    Bookmark,
    Error(u16),
    Streams(bool),
    Hold,
    Release(usize),
    Outage(u64),
    Backup,
    Restore,
    Widen(u8),
    Sleep(u64),
    Take(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..12u8, 0..3u8).prop_map(|(name, value)| Step::Put(name, value)),
        5 => (0..12u8).prop_map(Step::Delete),
        1 => Just(Step::Pass),
        2 => Just(Step::Cut),
        1 => Just(Step::End),
        2 => Just(Step::Compact),
        1 => Just(Step::Bookmark),
        1 => prop_oneof![Just(410), Just(500), Just(504)].prop_map(Step::Error),
        1 => any::<bool>().prop_map(Step::Streams),
        1 => Just(Step::Hold),
        2 => (0..5usize).prop_map(Step::Release),
        1 => (0..90u64).prop_map(Step::Outage),
        1 => Just(Step::Backup),
        1 => Just(Step::Restore),
        1 => (0..3u8).prop_map(Step::Widen),
        6 => (0..5000u64).prop_map(Step::Sleep),
        3 => (0..20usize).prop_map(Step::Take),
    ]
}

/// The objects that result from the deltas.
#[derive(Default)]
struct Replay {
    objects: BTreeMap<Uid, (String, u64)>,
    initial_done: bool,
}

impl Replay {
    async fn take(&mut self, deltas: &mut Deltas, max: usize) -> bool {
        let Ok(batch) = timeout(Duration::from_millis(1), deltas.next(max)).await else {
            return false;
        };
        let batch = batch.expect("the reflector runs");
        assert!(batch.initial_done || !self.initial_done);
        self.initial_done = batch.initial_done;
        for delta in batch.deltas {
            let uid = delta.object().uid().clone();
            let known = self.objects.get(&uid).map(|(_, version)| *version);
            assert_eq!(
                delta.old.as_ref().map(|old| old.resource_version()),
                known,
                "deltas are missing before {delta:?}"
            );
            match &delta.new {
                Some(new) => self
                    .objects
                    .insert(uid, (new.key(), new.resource_version())),
                None => self.objects.remove(&uid),
            };
        }
        true
    }

    fn contents(&self) -> Vec<String> {
        let mut contents: Vec<String> = self
            .objects
            .values()
            .map(|(key, version)| format!("{key}={version}"))
            .collect();
        contents.sort();
        contents
    }
}

async fn run(steps: Vec<Step>) {
    let server = Server::new();
    server.put("a", "p0", json!({}));
    let (factory, informer) = started(&server, interest(&["spec"])).await;
    let mut handles = vec![informer.clone()];
    let lister = Lister::new(
        informer.clone(),
        OverlayWriter::new().reader(),
        View::default(),
    );
    let mut deltas = informer.subscribe();
    let mut replay = Replay::default();
    let mut backup = server.backup();
    let mut versions: BTreeMap<Uid, u64> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Put(name, value) => {
                drop(server.put("a", &format!("p{name}"), json!({"spec": {"v": value}})))
            }
            Step::Delete(name) => drop(server.delete("a", &format!("p{name}"))),
            Step::Pass => server.pass(),
            Step::Cut => server.cut(),
            Step::End => server.end(),
            Step::Compact => server.compact(),
            Step::Bookmark => server.release_and_bookmark(),
            Step::Error(code) => server.error_event(code, ""),
            Step::Streams(streams) => server.inner().no_stream_lists = !streams,
            Step::Hold => server.inner().holding = true,
            Step::Release(count) => server.release(count),
            Step::Outage(seconds) => {
                server.inner().unreachable = true;
                server.cut();
                sleep(Duration::from_secs(seconds)).await;
                server.inner().unreachable = false;
            }
            Step::Backup => backup = server.backup(),
            Step::Restore => {
                server.inner().unreachable = true;
                server.cut();
                server.restore(backup.clone());
                sleep(Duration::from_secs(1)).await;
                server.inner().unreachable = false;
                // Once the server's version is as high as before the restore, old versions can't be distinguished from
                // new ones. On a real server this takes long.
                sleep(Duration::from_secs(200)).await;
                versions.clear();
            }
            Step::Widen(field) => {
                handles.push(factory.informer(interest(&[&format!("other{field}")])))
            }
            Step::Sleep(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
            Step::Take(max) => drop(replay.take(&mut deltas, max).await),
        }
        for object in lister.list(&ListQuery::default()) {
            let before = versions.insert(object.uid().clone(), object.resource_version());
            assert!(
                before.is_none_or(|before| before <= object.resource_version()),
                "{object:?} went back from {before:?}"
            );
        }
    }
    server.inner().holding = false;
    server.release(usize::MAX);
    timeout(
        Duration::from_secs(600),
        informer.wait_until(server.version()),
    )
    .await
    .expect("the cache reaches the server's version");
    for handle in &handles {
        timeout(Duration::from_secs(600), handle.synced())
            .await
            .expect("each handle syncs");
    }
    let contents: Vec<String> = lister
        .list(&ListQuery::default())
        .iter()
        .map(|object| format!("{}={}", object.key(), object.resource_version()))
        .collect();
    assert_eq!(contents, server.contents());
    while replay.take(&mut deltas, 3).await {}
    assert!(replay.initial_done);
    let mut expected = server.contents();
    expected.sort();
    assert_eq!(replay.contents(), expected);
    drop((handles, lister, informer));
    factory.shutdown().await;
    assert_eq!(server.watchers(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_cache_converges_to_the_server(steps in prop::collection::vec(step(), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(steps));
    }
}

#[test]
fn deltas_that_are_not_taken_are_merged_and_keep_every_version() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server: Arc<Server> = Server::new();
        let (_factory, informer) = started(&server, interest(&["spec"])).await;
        let mut deltas = informer.subscribe();
        assert!(deltas.next(10).await.unwrap().initial_done);
        server.put("a", "x", json!({"spec": 1}));
        server.put("a", "y", json!({}));
        server.put("a", "x", json!({"spec": 2}));
        server.delete("a", "x");
        server.put("a", "x", json!({"spec": 3}));
        sleep(Duration::from_millis(10)).await;
        let batch = deltas.next(10).await.unwrap().deltas;
        let versions: Vec<Vec<u64>> = batch
            .iter()
            .map(|delta| {
                delta
                    .versions()
                    .map(|object| object.resource_version())
                    .collect()
            })
            .collect();
        // The first `x` was created and deleted before the batch was taken. The delta has all its versions in order, so
        // that mappings can apply to each.
        assert_eq!(versions, [vec![101, 103, 104], vec![102], vec![105]]);
        assert!(batch[0].old.is_none() && batch[0].new.is_none());
    });
}
