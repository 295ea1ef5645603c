//! Delayed and rate-limited adds.

use flyball_workqueue::{Causes, Config, Priority, RateLimit, WorkQueue};
use tokio::time::{Duration, Instant, advance};

use crate::{getter_of, ms, queue, ready, serve};

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
async fn the_time_of_the_first_delayed_key_is_known() {
    let queue = queue();
    assert_eq!(queue.next_delayed(), None);
    queue.add_after("a", ms(1500), Priority::Normal, 1);
    queue.add_after("b", ms(500), Priority::Normal, 2);
    assert_eq!(queue.next_delayed(), Some(ms(500)));
    advance(ms(600)).await;
    assert_eq!(queue.next_delayed(), Some(ms(900)));
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
