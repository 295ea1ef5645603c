//! The queue's contract, one sentence at a time, on paused time and through the public handle.

mod delays;
mod metrics;
mod minimum_interval;
mod priorities;
mod shutdown;
mod wake_ups;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use flyball_workqueue::{Causes, Config, Item, Priority, Snapshot, WorkQueue};
use tokio::time::Duration;

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
    assert!(!queue.is_empty());
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
