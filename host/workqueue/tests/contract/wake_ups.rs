//! The getters that each operation wakes: enough of them, and no more, since each wake-up costs a poll under the
//! queue's lock.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};

use flyball_workqueue::{Config, Priority};
use tokio::time::{Instant, advance};

use crate::{Queue, getter_of, ms, queue, ready, serve};

/// Counts its wake-ups.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Getters that wait, and the number of wake-ups of all of them.
struct Waiting<'a> {
    _getters: Vec<Pin<Box<dyn Future<Output = ()> + 'a>>>,
    wake_ups: Arc<Counter>,
}

impl Waiting<'_> {
    fn wake_ups(&self) -> usize {
        self.wake_ups.0.load(SeqCst)
    }
}

/// This many getters, each of which has found no key.
fn waiting(queue: &Queue, getters: usize) -> Waiting<'_> {
    let wake_ups = Arc::new(Counter::default());
    let waker = Waker::from(wake_ups.clone());
    let getters = (0..getters).map(|_| {
        let mut getter: Pin<Box<dyn Future<Output = ()>>> =
            Box::pin(async { drop(queue.get().await) });
        let polled = getter.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        getter
    });
    Waiting {
        _getters: getters.collect(),
        wake_ups,
    }
}

fn queue_with_interval() -> Queue {
    Queue::new(Config {
        minimum_interval: ms(10),
        ..Config::default()
    })
}

#[tokio::test(start_paused = true)]
async fn an_added_key_wakes_one_getter() {
    let queue = queue();
    let getters = waiting(&queue, 3);
    queue.add("a", Priority::Normal, 0);
    assert_eq!(getters.wake_ups(), 1);
    queue.add("a", Priority::Normal, 0);
    assert_eq!(getters.wake_ups(), 1, "the key is queued already");
    queue.add("b", Priority::Low, 0);
    assert_eq!(getters.wake_ups(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dirty_key_wakes_one_getter_when_it_is_done() {
    let queue = queue();
    queue.add("a", Priority::Normal, 0);
    let item = ready(&queue).unwrap();
    let getters = waiting(&queue, 3);
    queue.add("a", Priority::Normal, 0);
    assert_eq!(getters.wake_ups(), 0);
    drop(item);
    assert_eq!(getters.wake_ups(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_wakes_the_getters_only_if_it_is_due_before_the_others() {
    let queue = queue();
    queue.add_after("a", ms(100), Priority::Normal, 0);
    let getters = waiting(&queue, 1);
    queue.add_after("later", ms(101), Priority::Normal, 0);
    queue.add_after("at the same time", ms(100), Priority::Normal, 0);
    assert_eq!(getters.wake_ups(), 0);
    queue.add_after("earlier", ms(99), Priority::Normal, 0);
    assert_eq!(getters.wake_ups(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dirty_key_wakes_the_getters_only_if_its_interval_ends_before_the_others() {
    let queue = queue_with_interval();
    for key in ["a", "at the same time"] {
        queue.add(key, Priority::Normal, 0);
    }
    serve(&queue);
    advance(ms(1)).await;
    queue.add("later", Priority::Normal, 0);
    serve(&queue);
    queue.add("a", Priority::Normal, 0);
    let getters = waiting(&queue, 1);
    queue.add("later", Priority::Normal, 0);
    queue.add("at the same time", Priority::Normal, 0);
    assert_eq!(getters.wake_ups(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_interval_that_ends_first_wakes_a_getter_that_sleeps_until_a_later_time() {
    let (queue, start) = (queue_with_interval(), Instant::now());
    queue.add("a", Priority::Normal, 0);
    serve(&queue);
    queue.add_after("late", ms(10_000), Priority::Normal, 0);
    let getter = getter_of(queue.clone());
    tokio::task::yield_now().await;
    queue.add("a", Priority::Normal, 0);
    assert_eq!(getter.await.unwrap(), "a");
    assert_eq!(start.elapsed(), ms(10));
}
