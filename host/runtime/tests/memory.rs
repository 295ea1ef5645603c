//! The memory that a memo and the deltas for `route` are said to take, compared with the memory that the process gets
//! from the system.

use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::{Delta, Object};
use flyball_fakes::memory::resident;
use flyball_runtime::memo::{Memo, MemoCall};
use flyball_runtime::route_backlog::RouteBacklog;
use tokio::sync::Mutex;

const CAPACITY: usize = 64 << 20;
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
