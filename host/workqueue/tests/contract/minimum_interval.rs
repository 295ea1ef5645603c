//! The minimum interval between two runs of a key.

use flyball_workqueue::{Causes, Config, Priority};
use tokio::time::{Instant, advance};

use crate::{Queue, ms, ready, serve};

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
async fn an_urgent_add_does_not_wait_for_the_minimum_interval() {
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
    // While a worker has the key, it waits only for the end of the run.
    queue.add_urgent("a", Priority::Normal, 4);
    assert!(ready(&queue).is_none());
    drop(item);
    assert_eq!(serve(&queue), ["a"]);
    // The next add that is not urgent waits again.
    queue.add("a", Priority::Normal, 5);
    assert!(ready(&queue).is_none());
    advance(ms(10)).await;
    assert_eq!(serve(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_run_longer_than_the_interval_an_urgent_add_waits_for_as_long_as_the_run_took() {
    let queue = queue_with_interval();
    for (worked, waited) in [(10, 0), (11, 11), (1000, 40)] {
        for is_added_during_the_run in [true, false] {
            queue.add("a", Priority::Normal, 1);
            let item = ready(&queue).expect("the interval has ended");
            if is_added_during_the_run {
                queue.add_urgent("a", Priority::Normal, 2);
            }
            advance(ms(worked)).await;
            drop(item);
            queue.add_urgent("a", Priority::Normal, 3);
            let begun = Instant::now();
            drop(queue.get().await);
            assert_eq!(begun.elapsed(), ms(waited), "after {worked} ms");
            advance(ms(10)).await;
        }
    }
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

#[tokio::test(start_paused = true)]
async fn ended_intervals_and_due_keys_are_queued_in_the_order_of_their_times() {
    for (delay, order) in [(9, ["due", "dirty"]), (11, ["dirty", "due"])] {
        let queue = queue_with_interval();
        queue.add("dirty", Priority::Normal, 0);
        serve(&queue);
        queue.add("dirty", Priority::Normal, 0);
        queue.add_after("due", ms(delay), Priority::Normal, 0);
        advance(ms(20)).await;
        assert_eq!(serve(&queue), order, "due after {delay} ms");
    }
}

/// Follows the example at the top of `state.rs`.
#[tokio::test(start_paused = true)]
async fn a_key_goes_through_the_states_of_the_example() {
    let queue = Queue::new(Config {
        minimum_interval: ms(25),
        ..Config::default()
    });
    let begun = Instant::now();
    let until = |time| advance(begun + ms(time) - Instant::now());
    queue.add("a", Priority::Normal, 0);
    until(1).await;
    let item = ready(&queue).expect("it is ready");
    until(3).await;
    queue.add("a", Priority::Normal, 3);
    assert!(ready(&queue).is_none(), "it is processed");
    until(5).await;
    drop(item);
    until(9).await;
    queue.add("a", Priority::Normal, 9);
    until(25).await;
    assert!(ready(&queue).is_none(), "it is in its interval");
    until(27).await;
    let item = ready(&queue).expect("its interval has ended");
    assert_eq!(item.queued(), ms(24));
    until(29).await;
    queue.add_urgent("a", Priority::Normal, 29);
    until(30).await;
    drop(item);
    until(31).await;
    let item = ready(&queue).expect("the interval yields");
    until(91).await;
    drop(item);
    until(150).await;
    assert_eq!(queue.held().keys, 1, "it is in its interval");
    until(151).await;
    assert_eq!(queue.held().keys, 0, "nothing was added");
}
