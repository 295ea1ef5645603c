//! Metrics and snapshots.

use std::sync::Arc;

use flyball_workqueue::{Config, Held, Metrics, Priority};
use parking_lot::Mutex;
use tokio::time::{Duration, advance};

use crate::{Queue, ms, queue};

#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Metrics for Recorder {
    fn on_add(&self) {
        self.0.lock().push("add".into());
    }
    fn on_get(&self, queued: Duration) {
        self.0.lock().push(format!("get {queued:?}"));
    }
    fn on_done(&self, worked: Duration) {
        self.0.lock().push(format!("done {worked:?}"));
    }
    fn on_retry(&self) {
        self.0.lock().push("retry".into());
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_are_reported_as_in_client_go() {
    let recorder = Arc::new(Recorder::default());
    let queue = Queue::new(Config {
        metrics: recorder.clone(),
        ..Config::default()
    });
    queue.add("a", Priority::Normal, 0);
    queue.add("a", Priority::Normal, 0);
    advance(ms(3)).await;
    let item = queue.get().await.unwrap();
    queue.add("a", Priority::Normal, 0);
    queue.add_after("b", ms(10), Priority::Normal, 0);
    advance(ms(20)).await;
    assert_eq!(queue.snapshot().depth(), 2);
    drop(item);
    drop(queue.get().await);
    let expected = [
        "add",
        "get 3ms",
        "add",
        "retry",
        "add",
        "done 20ms",
        "get 10ms",
        "done 0ns",
    ];
    assert_eq!(*recorder.0.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn unfinished_work_is_the_sum_of_the_runs_and_their_longest_is_shown() {
    let queue = queue();
    queue.add("a", Priority::Normal, 0);
    queue.add("b", Priority::Normal, 0);
    queue.add("c", Priority::Normal, 0);
    let first = queue.get().await.unwrap();
    advance(ms(70)).await;
    let _second = queue.get().await.unwrap();
    advance(ms(20)).await;
    let _third = queue.get().await.unwrap();
    advance(ms(10)).await;
    let gauges = queue.snapshot();
    assert_eq!(
        (
            gauges.processing,
            gauges.unfinished_work,
            gauges.longest_running
        ),
        (3, ms(140), ms(100))
    );
    drop(first);
    assert_eq!(queue.snapshot().longest_running, ms(30));
}

#[tokio::test(start_paused = true)]
async fn the_depth_counts_keys_of_both_lanes_and_dirty_ones() {
    let queue = queue();
    queue.add("dirty", Priority::Normal, 0);
    let _held = queue.get().await.unwrap();
    queue.add("dirty", Priority::Normal, 0);
    queue.add("normal", Priority::Normal, 0);
    queue.add("low", Priority::Low, 0);
    queue.add_after("delayed", ms(10), Priority::Normal, 0);
    assert_eq!(queue.snapshot().depth(), 3);
}

#[tokio::test(start_paused = true)]
async fn held_keys_are_counted_with_their_bytes_until_they_are_done() {
    let queue = Queue::new(Config {
        key_bytes: |key| key.len(),
        ..Config::default()
    });
    let held = || {
        let Held { keys, bytes, .. } = queue.held();
        (keys, bytes)
    };
    assert_eq!(held(), (0, 0));
    for _ in 0..2 {
        queue.add("abc", Priority::Normal, 0);
        queue.add_after("delayed", ms(10), Priority::Normal, 0);
    }
    assert_eq!(held(), (2, 10));
    let item = queue.get().await.unwrap();
    assert_eq!(held(), (2, 10), "a worker has one");
    drop(item);
    assert_eq!(held(), (1, 7));
    advance(ms(10)).await;
    assert_eq!(held(), (1, 7), "it is ready");
    queue.add_after("a", ms(10), Priority::Normal, 0);
    queue.shutdown();
    assert_eq!(held(), (1, 7), "delayed keys are dropped");
    drop(queue.get().await);
    assert_eq!(held(), (0, 0));
}
