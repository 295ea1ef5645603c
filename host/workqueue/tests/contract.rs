//! The queue's contract, one sentence at a time, on paused time and through the public handle.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use flyball_workqueue::{Causes, Config, Item, Metrics, Priority, RateLimit, Snapshot, WorkQueue};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant, advance};

type Queue = WorkQueue<&'static str, u32>;

fn queue() -> Queue {
    Queue::new(Config::default())
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Polls once, without a wake-up afterwards.
fn poll<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// The item that is ready now, if there is one.
fn ready(queue: &Queue) -> Option<Item<&'static str, u32>> {
    poll(queue.get()).map(|item| item.expect("the queue is open"))
}

/// Gets and finishes what is ready, and returns the keys in order.
fn serve(queue: &Queue) -> Vec<&'static str> {
    std::iter::from_fn(|| ready(queue).map(|item| *item.key())).collect()
}

#[tokio::test(start_paused = true)]
async fn keys_are_served_in_the_order_of_their_adds() {
    let queue = queue();
    for key in ["c", "a", "b"] {
        queue.add(key, Priority::Normal, 0);
    }
    assert_eq!(queue.len(), 3);
    assert_eq!(serve(&queue), ["c", "a", "b"]);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_is_queued_once_with_its_first_and_latest_reason() {
    let queue = queue();
    for reason in 1..=5 {
        queue.add("a", Priority::Normal, reason);
    }
    assert_eq!(queue.len(), 1);
    let item = queue.get().await.unwrap();
    assert_eq!(
        *item.causes(),
        Causes {
            first: 1,
            latest: Some(5),
            coalesced: 4
        }
    );
    drop(item);
    assert!(ready(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_processed_is_queued_again_when_done_and_not_before() {
    let queue = queue();
    queue.add("a", Priority::Normal, 1);
    let item = queue.get().await.unwrap();
    queue.add("a", Priority::Normal, 2);
    queue.add("a", Priority::Normal, 3);
    assert!(ready(&queue).is_none());
    assert_eq!(
        (
            queue.len(),
            queue.snapshot().dirty,
            queue.snapshot().depth()
        ),
        (0, 1, 1)
    );
    drop(item);
    let item = ready(&queue).unwrap();
    assert_eq!(
        *item.causes(),
        Causes {
            first: 2,
            latest: Some(3),
            coalesced: 1
        }
    );
    drop(item);
    assert!(ready(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_key_is_done_when_its_worker_panics() {
    let queue = queue();
    queue.add("a", Priority::Normal, 1);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.get().await;
            queue.add("a", Priority::Normal, 2);
            panic!("on purpose");
        }
    });
    assert!(worker.await.unwrap_err().is_panic());
    assert_eq!(ready(&queue).unwrap().causes().first, 2);
    assert_eq!(queue.snapshot(), Snapshot::default());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_getter_is_woken_by_an_add() {
    let queue = queue();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { *queue.get().await.unwrap().key() }
    });
    tokio::task::yield_now().await;
    queue.add("a", Priority::Low, 0);
    assert_eq!(getter.await.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_getter_loses_no_key_and_no_wake_up() {
    let queue = queue();
    let mut cancelled = Box::pin(queue.get());
    assert!(poll(cancelled.as_mut()).is_none());
    let waiting = getter_of(queue.clone());
    tokio::task::yield_now().await;
    // The wake-up goes to the getter that waits longest, which never looks.
    queue.add("a", Priority::Normal, 0);
    drop(cancelled);
    assert_eq!(waiting.await.unwrap(), "a");

    let mut cancelled = Box::pin(queue.get());
    assert!(poll(cancelled.as_mut()).is_none());
    queue.add("b", Priority::Normal, 0);
    drop(cancelled);
    assert_eq!(serve(&queue), ["b"]);

    // Cancelled by the other branch of a select, which wins each time.
    queue.add("c", Priority::Normal, 0);
    for _ in 0..10 {
        tokio::select! {
            biased;
            () = std::future::ready(()) => {}
            _ = queue.get() => unreachable!("the other branch is ready first"),
        }
    }
    assert_eq!(serve(&queue), ["c"]);
}

fn getter_of(queue: Queue) -> tokio::task::JoinHandle<&'static str> {
    tokio::spawn(async move { *queue.get().await.unwrap().key() })
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_served_at_its_time() {
    let (queue, start) = (queue(), Instant::now());
    queue.add_after("a", ms(1500), Priority::Normal, 7);
    assert_eq!((queue.len(), queue.snapshot().delayed), (0, 1));
    let item = queue.get().await.unwrap();
    assert_eq!(
        (*item.key(), item.causes().first, start.elapsed()),
        ("a", 7, ms(1500))
    );
}

#[tokio::test(start_paused = true)]
async fn the_earliest_time_asked_for_wins() {
    let (queue, start) = (queue(), Instant::now());
    queue.add_after("a", ms(500), Priority::Low, 1);
    queue.add_after("a", ms(900), Priority::Normal, 2);
    queue.add_after("a", ms(200), Priority::Low, 3);
    let item = queue.get().await.unwrap();
    assert_eq!(start.elapsed(), ms(200));
    assert_eq!(item.priority(), Priority::Normal);
    assert_eq!(
        *item.causes(),
        Causes {
            first: 1,
            latest: Some(3),
            coalesced: 2
        }
    );
    drop(item);
    advance(ms(5000)).await;
    assert!(ready(&queue).is_none(), "the later times are dropped");
}

#[tokio::test(start_paused = true)]
async fn an_earlier_delay_wakes_a_getter_that_sleeps_until_a_later_one() {
    let (queue, start) = (queue(), Instant::now());
    queue.add_after("late", ms(10_000), Priority::Normal, 0);
    let getter = getter_of(queue.clone());
    tokio::task::yield_now().await;
    queue.add_after("early", ms(10), Priority::Normal, 0);
    assert_eq!(getter.await.unwrap(), "early");
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn an_add_does_not_cancel_a_delayed_add() {
    let queue = queue();
    queue.add_after("a", ms(100), Priority::Normal, 1);
    queue.add("a", Priority::Normal, 2);
    assert_eq!(ready(&queue).unwrap().causes().first, 2);
    advance(ms(100)).await;
    assert_eq!(ready(&queue).unwrap().causes().first, 1);
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_while_the_key_is_processed_makes_it_dirty() {
    let queue = queue();
    queue.add("a", Priority::Normal, 1);
    let item = queue.get().await.unwrap();
    queue.add_after("a", ms(10), Priority::Normal, 2);
    advance(ms(50)).await;
    assert!(ready(&queue).is_none());
    drop(item);
    let item = ready(&queue).unwrap();
    assert_eq!((item.causes().first, item.queued()), (2, ms(40)));
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_are_queued_in_time_and_in_order_without_a_getter() {
    let queue = queue();
    queue.add_after("second", ms(20), Priority::Normal, 0);
    queue.add_after("first", ms(10), Priority::Normal, 0);
    advance(ms(100)).await;
    assert_eq!((queue.snapshot().depth(), queue.snapshot().delayed), (2, 0));
    queue.add("third", Priority::Normal, 0);
    assert_eq!(
        ready(&queue).unwrap().queued(),
        ms(90),
        "queued as of its time, not as of the next operation"
    );
    assert_eq!(serve(&queue), ["second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn endless_delays_do_not_panic() {
    let queue = queue();
    queue.add_after("a", Duration::MAX, Priority::Normal, 0);
    assert!(tokio::time::timeout(ms(1000), queue.get()).await.is_err());
    queue.add_after("b", Duration::ZERO, Priority::Normal, 0);
    assert_eq!(serve(&queue), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limited_key_backs_off_until_it_is_forgotten() {
    let queue = queue();
    for (requeues, delay) in [(0, 5), (1, 10), (2, 20), (3, 40)] {
        assert_eq!(queue.num_requeues(&"a"), requeues);
        let start = Instant::now();
        assert_eq!(queue.add_rate_limited("a", Priority::Normal, 0), ms(delay));
        let item = queue.get().await.unwrap();
        assert_eq!((*item.key(), start.elapsed()), ("a", ms(delay)));
    }
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
    assert_eq!(queue.add_rate_limited("a", Priority::Normal, 0), ms(5));
}

#[tokio::test(start_paused = true)]
async fn the_bucket_is_shared_by_all_keys() {
    let queue: WorkQueue<u32, ()> = WorkQueue::new(Config::default());
    let start = Instant::now();
    for key in 0..120 {
        queue.add_rate_limited(key, Priority::Normal, ());
    }
    for _ in 0..120 {
        drop(queue.get().await.unwrap());
    }
    assert_eq!(
        start.elapsed(),
        ms(2000),
        "a burst of 100, then ten a second"
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_limit_applies_to_later_adds() {
    let queue = queue();
    queue.add_rate_limited("a", Priority::Normal, 0);
    queue.set_rate_limit(RateLimit::exponential(ms(1000), ms(60_000)));
    assert_eq!(queue.add_rate_limited("a", Priority::Normal, 0), ms(2000));
}

#[tokio::test(start_paused = true)]
async fn a_normal_add_promotes_a_low_key_and_a_low_add_demotes_none() {
    let queue = queue();
    queue.add("x", Priority::Low, 0);
    queue.add("y", Priority::Low, 0);
    queue.add("n", Priority::Normal, 0);
    queue.add("n", Priority::Low, 0);
    queue.add("y", Priority::Normal, 0);
    let depths = queue.snapshot();
    assert_eq!((depths.normal, depths.low, queue.len()), (2, 1, 3));
    assert_eq!(serve(&queue), ["n", "y", "x"]);
}

#[tokio::test(start_paused = true)]
async fn a_dirty_key_takes_the_higher_priority() {
    let queue = queue();
    queue.add("a", Priority::Normal, 0);
    let item = queue.get().await.unwrap();
    queue.add("a", Priority::Low, 0);
    queue.add("a", Priority::Normal, 0);
    queue.add("low", Priority::Low, 0);
    drop(item);
    assert_eq!(serve(&queue), ["a", "low"]);
}

#[tokio::test(start_paused = true)]
async fn a_low_key_is_served_after_the_ageing_limit_under_endless_normal_load() {
    let queue: WorkQueue<u32, u32> = WorkQueue::new(Config {
        ageing: ms(1000),
        ..Config::default()
    });
    let start = Instant::now();
    queue.add(u32::MAX, Priority::Low, 0);
    queue.add(0, Priority::Normal, 0);
    for key in 1.. {
        queue.add(key, Priority::Normal, 0);
        let item = queue.get().await.unwrap();
        if *item.key() == u32::MAX {
            break;
        }
        advance(ms(1)).await;
    }
    assert_eq!(start.elapsed(), ms(1000));
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_adds_are_ignored_and_queued_keys_are_served() {
    let queue = queue();
    for key in ["a", "b"] {
        queue.add(key, Priority::Normal, 0);
    }
    queue.add_after("delayed", ms(1), Priority::Normal, 0);
    queue.shutdown();
    assert!(queue.is_shut_down());
    queue.add("c", Priority::Normal, 0);
    queue.add_after("d", ms(1), Priority::Normal, 0);
    advance(ms(100)).await;
    assert_eq!(*queue.get().await.unwrap().key(), "a");
    assert_eq!(*queue.get().await.unwrap().key(), "b");
    assert!(queue.get().await.is_none());
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_wakes_every_getter() {
    let queue = queue();
    let getters: Vec<_> = (0..10)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.shutdown();
    for getter in getters {
        assert!(getter.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn getters_wait_after_a_shutdown_while_a_worker_has_a_dirty_key() {
    let queue = queue();
    queue.add("a", Priority::Normal, 1);
    let item = queue.get().await.unwrap();
    queue.add("a", Priority::Normal, 2);
    queue.shutdown();
    let mut get = Box::pin(queue.get());
    assert!(poll(get.as_mut()).is_none());
    drop(item);
    assert_eq!(get.await.unwrap().causes().first, 2);
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_getter_of_the_last_key_ends_the_others() {
    let queue = queue();
    queue.add("a", Priority::Normal, 1);
    let item = queue.get().await.unwrap();
    queue.add("a", Priority::Normal, 2);
    queue.shutdown();
    let getters = [0, 1].map(|_| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.get().await.is_some() })
    });
    tokio::task::yield_now().await;
    drop(item);
    let [one, other] = getters;
    assert!(one.await.unwrap() ^ other.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_queued_and_for_processed_keys() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key, Priority::Normal, 0);
    }
    let held = queue.get().await.unwrap();
    queue.add("a", Priority::Normal, 0);
    let mut drain = Box::pin(queue.shutdown_with_drain());
    assert!(poll(drain.as_mut()).is_none());
    queue.add("ignored", Priority::Normal, 0);
    assert_eq!(*queue.get().await.unwrap().key(), "b");
    assert_eq!(*queue.get().await.unwrap().key(), "c");
    assert!(poll(drain.as_mut()).is_none());
    drop(held);
    assert!(poll(drain.as_mut()).is_none(), "it was dirty");
    assert_eq!(*queue.get().await.unwrap().key(), "a");
    drain.await;
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_plain_shutdown_ends_a_drain() {
    let queue = queue();
    queue.add("a", Priority::Normal, 0);
    let _held = queue.get().await.unwrap();
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shutdown_with_drain().await }
    });
    tokio::task::yield_now().await;
    assert!(!drain.is_finished());
    queue.shutdown();
    drain.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_always_finds_a_key_lets_others_run() {
    let queue = queue();
    queue.add("a", Priority::Normal, 0);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            while let Some(item) = queue.get().await {
                queue.add(item.key(), Priority::Normal, 0);
            }
        }
    });
    tokio::task::yield_now().await;
    queue.shutdown();
    worker.await.unwrap();
}

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
    let first = queue.get().await.unwrap();
    advance(ms(70)).await;
    let _second = queue.get().await.unwrap();
    advance(ms(30)).await;
    let gauges = queue.snapshot();
    assert_eq!(
        (
            gauges.processing,
            gauges.unfinished_work,
            gauges.longest_running
        ),
        (2, ms(130), ms(100))
    );
    drop(first);
    assert_eq!(queue.snapshot().longest_running, ms(30));
}

/// A queue with a minimum interval of 10 ms.
fn queue_with_interval() -> Queue {
    Queue::new(Config {
        minimum_interval: ms(10),
        ..Config::default()
    })
}

#[tokio::test(start_paused = true)]
async fn adds_within_the_minimum_interval_are_coalesced_until_it_ends() {
    let queue = queue_with_interval();
    queue.add("a", Priority::Normal, 1);
    let item = ready(&queue).expect("the first of a burst is not held up");
    queue.add("a", Priority::Normal, 2);
    advance(ms(4)).await;
    drop(item);
    queue.add("a", Priority::Normal, 3);
    queue.add("b", Priority::Normal, 0);
    assert_eq!(serve(&queue), ["b"]);
    assert_eq!(queue.snapshot().dirty, 1);
    let started = Instant::now();
    let item = queue.get().await.unwrap();
    assert_eq!((*item.key(), started.elapsed()), ("a", ms(6)));
    assert_eq!(
        *item.causes(),
        Causes {
            first: 2,
            latest: Some(3),
            coalesced: 1
        }
    );
}

#[tokio::test(start_paused = true)]
async fn an_add_within_the_minimum_interval_wakes_a_getter_when_it_ends() {
    let queue = queue_with_interval();
    queue.add("a", Priority::Normal, 1);
    assert_eq!(serve(&queue), ["a"]);
    let (getter, started) = (queue.clone(), Instant::now());
    let got = tokio::spawn(async move { getter.get().await.map(|item| *item.key()) });
    tokio::task::yield_now().await;
    queue.add("a", Priority::Normal, 2);
    assert_eq!((got.await.unwrap(), started.elapsed()), (Some("a"), ms(10)));
}

#[tokio::test(start_paused = true)]
async fn after_a_long_run_a_key_waits_for_as_long_as_the_run_took_within_bounds() {
    let queue = queue_with_interval();
    for (worked, waited) in [(0, 10), (4, 6), (5, 5), (8, 8), (40, 40), (1000, 40)] {
        queue.add("a", Priority::Normal, 1);
        let item = ready(&queue).expect("the interval has ended");
        queue.add("a", Priority::Normal, 2);
        advance(ms(worked)).await;
        drop(item);
        let begun = Instant::now();
        drop(queue.get().await);
        assert_eq!(begun.elapsed(), ms(waited), "after {worked} ms");
        advance(ms(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_urgent_add_ends_the_minimum_interval_but_not_two_in_a_row() {
    let queue = queue_with_interval();
    queue.add("a", Priority::Normal, 1);
    assert_eq!(serve(&queue), ["a"]);
    queue.add("a", Priority::Normal, 2);
    assert!(ready(&queue).is_none());
    queue.add_urgent("a", Priority::Normal, 3);
    let item = ready(&queue).unwrap();
    assert_eq!(
        *item.causes(),
        Causes {
            first: 2,
            latest: Some(3),
            coalesced: 1
        }
    );
    // Neither while a worker has the key nor in the interval that follows.
    queue.add_urgent("a", Priority::Normal, 4);
    assert!(ready(&queue).is_none());
    drop(item);
    queue.add_urgent("a", Priority::Normal, 5);
    assert!(ready(&queue).is_none());
    advance(ms(10)).await;
    assert_eq!(serve(&queue), ["a"]);
    queue.add_urgent("a", Priority::Normal, 6);
    assert_eq!(serve(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_of_low_priority_starts_no_minimum_interval() {
    let queue = queue_with_interval();
    queue.add("a", Priority::Low, 1);
    assert_eq!(serve(&queue), ["a"]);
    queue.add("a", Priority::Normal, 2);
    assert_eq!(serve(&queue), ["a"]);
    queue.add("a", Priority::Normal, 3);
    assert!(ready(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_all_minimum_intervals() {
    let queue = queue_with_interval();
    for key in ["a", "b"] {
        queue.add(key, Priority::Normal, 0);
    }
    assert_eq!(serve(&queue), ["a", "b"]);
    queue.add("a", Priority::Normal, 1);
    queue.shutdown();
    assert_eq!(queue.get().await.map(|item| *item.key()), Some("a"));
    assert!(queue.get().await.is_none());
    queue.shutdown_with_drain().await;
}
