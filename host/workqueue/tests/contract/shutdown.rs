//! Shutdown, with and without a drain.

use flyball_workqueue::Priority;
use tokio::time::advance;

use crate::{ms, poll, queue};

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_adds_are_ignored_and_queued_keys_are_served() {
    let queue = queue();
    for key in ["a", "b"] {
        queue.add(key, Priority::Normal, 0);
    }
    queue.add_after("delayed", ms(1), Priority::Normal, 0);
    assert!(!queue.is_shut_down());
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
